// MeasureStep: how long the instructions of a placed program take.
//
// Purpose: an observer that a placement can be made again by (Program::PlaceAgain): seconds of
// every instruction by itself, where it ran, and the speed of copies. Streams are drained after
// each instruction, so a measured update does not overlap and takes longer. Messages between stages
// of a pipeline are left out: their time is that of the other stage's work.
// Thread-safety: one thread. Ownership: the program must outlive it.
//
//   MeasureStep measure(*program);
//   for (int phase : {0, 1, 2}) RETURN_IF_ERROR(program->RunPhase(phase, feeds, &measure));
//   ASSIGN_OR_RETURN(bool changed, program->PlaceAgain(measure.times()));
#ifndef COLOSSUS_TENSOR_EXEC_STEP_TIMES_H_
#define COLOSSUS_TENSOR_EXEC_STEP_TIMES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/program.h"

namespace colossus {

class MeasureStep final : public StepObserver {
 public:
  // REQUIRES: a placed program.
  explicit MeasureStep(Program& program);

  void Before(size_t instruction) override;
  absl::Status After(size_t instruction) override;

  // Of all instructions seen; of one that was seen again, the last time.
  StepTimes times() const;

 private:
  struct Copies {
    double bytes = 0, seconds = 0;
    // 0: none.
    double rate() const { return seconds > 0 ? bytes / seconds : 0; }
  };

  bool IsMessage(const Instruction& instruction) const;

  Program& program_;
  StepTimes times_;
  Copies link_, disk_read_, disk_write_;
  double start_ = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_STEP_TIMES_H_
