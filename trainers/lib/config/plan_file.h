// --plan=FILE: a plan (parallel/plan_toml.h) as part of the layer of files.
//
// What the plan says becomes the keys that mean the same: [plan] zero is plan.zero, micro_batches
// times micro_batch times the ranks along data is batch.global_batch, and so on. What it leaves out
// is left to the configuration.
// Thread-safe: a function of its arguments.
//
//   ASSIGN_OR_RETURN(std::vector<Assignment> values, ParsePlanFile("best.toml", text));
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_PLAN_FILE_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_PLAN_FILE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/lib/config/assignment.h"

namespace colossus {

// Errors as ParsePlan; InvalidArgument also for what this build does not run, with file and line.
absl::StatusOr<std::vector<Assignment>> ParsePlanFile(absl::string_view path,
                                                      absl::string_view text);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_PLAN_FILE_H_
