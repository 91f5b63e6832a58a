// Parity: a model against reference values.
//
// Purpose: the job of //trainers:parity. Runs the golden's inputs forward, backward and through
// the stored optimizer steps, compares outputs, loss, every gradient, the losses after the steps
// and parameters, prints the largest error of each kind beside its limit.
// Thread-safety: a plain function.
//
// Returns 1 if anything is beyond tolerance × the golden's limits.
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_PARITY_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_PARITY_H_

#include "absl/status/statusor.h"
#include "trainers/lib/config/main.h"

namespace colossus {

absl::StatusOr<int> RunParity(JobContext& context);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_PARITY_H_
