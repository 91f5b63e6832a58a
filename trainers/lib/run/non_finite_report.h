// What is said of an update whose loss or gradient norm is no finite number.
//
// Thread-safe: a function of its arguments.
//
//   NonFiniteReport report = ReportNonFinite(result, found, rows, share, layers, ranks);
#ifndef COLOSSUS_TRAINERS_LIB_RUN_NON_FINITE_REPORT_H_
#define COLOSSUS_TRAINERS_LIB_RUN_NON_FINITE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/training_program.h"
#include "trainers/lib/data/sampler.h"
#include "trainers/lib/ranks/first_non_finite.h"

namespace colossus {

struct NonFiniteReport {
  std::string what;    // no sentence: "the loss (nan) or ... is not finite; first: NaN in ..."
  std::string remedy;  // a sentence without its point
};

// `found`: of the computation of the same update once more. `rows`: of the update; `share`: those
// of the rank where it was found. Rows of the training data are named by their number. `layers` of
// the model, `ranks` of the run.
NonFiniteReport ReportNonFinite(const UpdateResult& result,
                                const std::optional<FoundOnRank>& found, const UpdateRows& rows,
                                const BatchShare& share, int64_t layers, int ranks);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_NON_FINITE_REPORT_H_
