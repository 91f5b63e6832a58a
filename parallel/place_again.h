// PlaceAgain: a placement by what the warm-up step measured, on the ranks that run the same step.
//
// Purpose: the first placement goes by predicted times. After an update that was measured
// (tensor/exec/step_times.h) every rank places again by the slowest rank's times, so that ranks
// which run the same step get the same plan: all ranks, or those of a pipeline's stage. No bit
// depends on it. The same whenever a step takes much longer or shorter than its plan says.
// Thread-safety: a plain function, called by all ranks.
//
//   MeasureStep measure(training.program());
//   ASSIGN_OR_RETURN(UpdateResult result, training.RunUpdate(input, &measure));
//   ASSIGN_OR_RETURN(bool changed, PlaceAgain(training.program(), measure.times(), &world));
#ifndef COLOSSUS_PARALLEL_PLACE_AGAIN_H_
#define COLOSSUS_PARALLEL_PLACE_AGAIN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/program.h"

namespace colossus {

// Of the collectives of a program, in order: ops, types, names and attributes.
uint64_t CollectiveHash(const Program& program);

// Whether the plan changed; never if the program is not placed, which needs no times. `ranks`:
// those that run the same step; nullptr: this one alone. Error: Internal, before anything changes,
// if their collectives are not the same, or only some are placed; else as Program::PlaceAgain.
absl::StatusOr<bool> PlaceAgain(Program& program, const StepTimes& times, Communicator* ranks);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PLACE_AGAIN_H_
