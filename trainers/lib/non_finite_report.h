// What is said of an update whose loss or gradient norm is no finite number.
//
// Thread-safe: a function of its arguments.
//
//   NonFiniteReport report = ReportNonFinite(result, found, rows, micro_batch, layers);
#ifndef COLOSSUS_TRAINERS_LIB_NON_FINITE_REPORT_H_
#define COLOSSUS_TRAINERS_LIB_NON_FINITE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/training_program.h"
#include "tensor/exec/non_finite.h"
#include "trainers/lib/sampler.h"

namespace colossus {

struct NonFiniteReport {
  std::string what;    // no sentence: "the loss (nan) or ... is not finite; first: NaN in ..."
  std::string remedy;  // a sentence without its point
};

// `found`: of the computation of the same update once more. `rows`: of the update, `micro_batch`
// rows in each micro-batch; rows of the training data are named by their number. `layers` of the
// model.
NonFiniteReport ReportNonFinite(const UpdateResult& result, const std::optional<NonFinite>& found,
                                const UpdateRows& rows, int64_t micro_batch, int64_t layers);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_NON_FINITE_REPORT_H_
