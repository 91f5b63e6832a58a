// RunTrainer: what every trainer's main() does before and after its job.
//
// Purpose: reads the configuration, answers --help, prints errors, and turns a status into the exit
// status: 0 done, 1 failed while running, 2 refused: a configuration that is wrong, or any error
// before the job says it has begun.
// Thread-safety: call once, first thing in main(): it may replace the process by the same program
// with a variable of the OpenMP run-time set (main.cc says why).
//
//   int main(int argc, char** argv) {
//     return RunTrainer(Trainer::kParity, argc, argv, RunParity);
//   }
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_MAIN_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_MAIN_H_

#include <functional>

#include "absl/status/statusor.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"

namespace colossus {

// What a job is given, and tells. `begun`: the job sets it once everything is checked and memory
// is taken; errors from then on are failures, not refusals.
// `first`: this process has rank 0, alone or of several: what comes out of the job is shown, and
// files are written, by it alone.
struct JobContext {
  const Config& config;
  Log& log;
  bool begun = false;
  bool first = true;
};

// Returns the exit status of a job that ran (0, or another that it means), or an error.
using Job = std::function<absl::StatusOr<int>(JobContext&)>;

int RunTrainer(Trainer trainer, int argc, char** argv, const Job& job);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_MAIN_H_
