// StopBetweenMicroBatches: gives up a long update when the run is asked to stop.
//
// Purpose: an observer of the phase that computes gradients. Between micro-batches it looks whether
// a stop is asked for, and ends the update when the rest of it would take longer than the run may
// still use. Parameters change only afterwards, so nothing of the update stays.
// Thread-safety: one thread. Ownership: everything given must outlive it.
//
//   StopBetweenMicroBatches stop(program, asked, /*finish_seconds=*/10, nullptr);
//   auto result = training.RunUpdate(input, stop.needed() ? &stop : nullptr);
//   if (stop.given_up()) ...                  // and result is Cancelled
#ifndef COLOSSUS_TRAINERS_LIB_RUN_STOP_BETWEEN_H_
#define COLOSSUS_TRAINERS_LIB_RUN_STOP_BETWEEN_H_

#include <functional>

#include "absl/status/status.h"
#include "tensor/exec/program.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

class StopBetweenMicroBatches final : public StepObserver {
 public:
  // `stop`: not 0 when the run is to stop; may be empty. `finish_seconds`: the rest that is still
  // waited for. `inner` sees each instruction before this does; may be null. The ranks of `group`
  // give up together, when one of them would; not if `finishes`: as where ranks are in different
  // micro-batches at the same time.
  StopBetweenMicroBatches(Program& program, const std::function<int()>& stop, double finish_seconds,
                          StepObserver* inner, RankGroup group = RankGroup(),
                          bool finishes = false);

  // Whether there is anything to look for in this program, or others to give signs of life to.
  bool needed() const { return group_.size() > 1 || (stop_ != nullptr && micro_batches_ > 1); }
  bool given_up() const { return given_up_; }

  bool waits() const override { return inner_ != nullptr && inner_->waits(); }
  void Before(size_t instruction) override;
  absl::Status After(size_t instruction) override;

 private:
  // Whether this rank would not wait for what is left after `done` micro-batches.
  bool TooLong(int done) const;

  Program& program_;
  const std::function<int()>& stop_;
  const double finish_seconds_;
  StepObserver* const inner_;
  RankGroup group_;
  const bool finishes_;
  int micro_batches_ = 0;
  double start_ = 0;
  bool given_up_ = false;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_STOP_BETWEEN_H_
