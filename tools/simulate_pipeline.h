// The program //tools:simulate_pipeline: a pipeline schedule in virtual time.
//
// Purpose: a schedule's length, bubble and memory from its times, without a model. It runs the
// schedules and the list scheduler that a trainer runs.
// Thread-safety: a function of its arguments.
//
//   bazel run //tools:simulate_pipeline -- --schedule=zb-h1 --stages=8 --micro_batches=24
#ifndef COLOSSUS_TOOLS_SIMULATE_PIPELINE_H_
#define COLOSSUS_TOOLS_SIMULATE_PIPELINE_H_

#include <string>
#include <vector>

#include "base/file_system.h"

namespace colossus {

struct SimulatorOutput {
  int exit_status = 0;  // 0 done, 1 the timeline could not be written, 2 refused
  std::string results;  // for standard output: one line of JSON, or the help
  std::string errors;   // for standard error: one line that says what was refused and what would do
};

// `arguments` without the program's name.
SimulatorOutput RunSimulator(const std::vector<std::string>& arguments, FileSystem& files);

}  // namespace colossus

#endif  // COLOSSUS_TOOLS_SIMULATE_PIPELINE_H_
