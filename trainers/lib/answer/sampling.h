// Sampling: from logits to the next id.
//
// Purpose: one id per call, a function of the logits, the options and (seed, position, row) alone:
// the same text comes out whatever ran before, on any number of threads.
// Thread-safety: a plain function.
//
// Definition, in double precision. Ids stand in one order: larger logit first, equal logits by
// smaller id. Temperature 0 takes the first. Else weight = exp((logit - largest) / temperature);
// top_k keeps the first k ids; top_p then keeps the fewest first ids whose weights sum up to at
// least top_p of what is left; and with u uniform in [0, 1) the first id is taken whose running sum
// of weights is greater than u times the sum of the kept ones.
//
//   ASSIGN_OR_RETURN(int32_t id, SampleId(logits, {.temperature = 0.8}, {.seed = 1}));
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_SAMPLING_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_SAMPLING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace colossus {

struct SamplingOptions {
  double temperature = 1;  // >= 0
  int64_t top_k = 0;       // 0: all ids
  double top_p = 1;        // in [0, 1]; at least one id stays
};

// What a draw depends on.
struct SamplingPlace {
  uint64_t seed = 0;
  int64_t position = 0;  // of the id in its text
  int64_t row = 0;       // of the text in its batch
};

// `logits`: one per id, at least one; -infinity is an id that cannot come. Error: Internal if a
// logit is NaN or +infinity, or all are -infinity.
absl::StatusOr<int32_t> SampleId(absl::Span<const double> logits, const SamplingOptions& options,
                                 const SamplingPlace& place);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_SAMPLING_H_
