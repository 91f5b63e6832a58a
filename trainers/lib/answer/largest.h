// FindLargest: the largest GPT that trains in given memory.
//
// Purpose: the models tried are GPT-2's architecture with heads of 128, GPT-2's vocabulary and
// positions for the rows' length. First of those with n layers of n heads, from n = 1, the largest
// is found by bisection; then as many more layers of its width as fit, up to twice as many.
// (n = 21 has 2.0e9 parameters, n = 45 18e9, n = 96 175e9.)
// Thread-safety: one call; compiles on the calling thread. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(const Largest largest, FindLargest(options, log));
//   largest.shape.layers, largest.run.parameters
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_LARGEST_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_LARGEST_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "shardformer/config.h"
#include "trainers/lib/answer/dry_run.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/options.h"

namespace colossus {

struct GptShape {
  int64_t layers = 0, heads = 0;
  int64_t hidden() const { return 128 * heads; }
};

absl::StatusOr<ModelConfig> GptOfShape(const GptShape& shape, int64_t positions);

// The largest n in [low, high] for which `fits`, which holds up to some n; low - 1: none.
absl::StatusOr<int64_t> LargestFitting(int64_t low, int64_t high,
                                       absl::FunctionRef<absl::StatusOr<bool>(int64_t)> fits);

struct Largest {
  GptShape shape;
  DryRun run;  // of that shape; where not even the smallest fits, of the smallest
};

absl::StatusOr<Largest> FindLargest(const Options& options, Log& log);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_LARGEST_H_
