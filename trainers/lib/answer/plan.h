// RunPlan: the job of //trainers:plan.
//
// Purpose: says whether a training run fits the given memory, what its tiers hold and move, and
// what would make it fit; or finds the largest GPT that does. It takes no memory for the model.
// Thread-safety: one call at a time.
//
//   return RunTrainer(Trainer::kPlan, argc, argv, RunPlan);
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_PLAN_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_PLAN_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "trainers/lib/config/main.h"

namespace colossus {

// What is printed: lines, or one JSON object with run.json.
struct Planned {
  bool fits = false;
  std::string text;
};

absl::StatusOr<Planned> PlanRun(FileSystem& files, JobContext& context);

// Prints it; exit status 2 where the run would be refused.
absl::StatusOr<int> RunPlan(JobContext& context);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_PLAN_H_
