// TrainingTrace: the trace of a training step of a chain of equal layers, to test placements on.
//
// Purpose: has what real steps have and placements care about: phases accumulate, measure, update
// and validate; layers whose saved inputs are used again in backward, with parameters, workspaces
// and gradients that wait for the update; a running total and feeds that follow the update to
// where it runs. Sizes and times are as asked, so results can be computed by hand.
// Thread-safety: plain functions. Ownership: plain values.
//
//   StepTrace trace = TrainingTrace({.layers = 48});
#ifndef COLOSSUS_GEMINI_TESTING_TRAINING_TRACE_H_
#define COLOSSUS_GEMINI_TESTING_TRAINING_TRACE_H_

#include <cstdint>
#include <random>

#include "tensor/exec/placement.h"

namespace colossus {

struct TrainingTraceOptions {
  int layers = 12;
  int micro_batches = 1;
  int parameters = 2;                  // per layer, one instruction each
  int64_t parameter_bytes = 1 << 20;   // of one, in 16 bits; master and moments have twice as many
  int64_t activation_bytes = 1 << 18;  // between layers
  int64_t workspace_bytes = 1 << 18;   // of an instruction
  double seconds = 1e-3;               // of an instruction forward; backward takes twice as long
  bool validate = true;
};

StepTrace TrainingTrace(const TrainingTraceOptions& options);

// Any trace that obeys the rules of placement.h, with uses on a link stream and instructions that
// may run on the host.
StepTrace RandomTrace(std::mt19937_64& random);

// Most bytes of homes and stays at any instruction.
TierBytes PeakBytes(const StepTrace& trace, const Placement& placement);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_TESTING_TRAINING_TRACE_H_
