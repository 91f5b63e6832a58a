// Signs of life: that a rank that works long between collectives is not taken for one that hangs.
//
// Purpose: ranks that wait end the job when another gives no sign of life for half a minute. While
// updates run, every instruction is one (Heartbeat); reading data, compiling and writing files by
// rank 0 alone have no such places, so a thread gives them (KeepAlive), but not while the rank
// itself waits for others.
// Thread-safety: one thread a rank. Ownership: the group's communicator must outlive them.
//
//   KeepAlive alive(group);                       // until it goes
//   Heartbeat beat(group);                        // an observer
//   training.RunUpdate(input, group.size() > 1 ? &beat : nullptr);
#ifndef COLOSSUS_TRAINERS_LIB_RANKS_KEEP_ALIVE_H_
#define COLOSSUS_TRAINERS_LIB_RANKS_KEEP_ALIVE_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "tensor/exec/program.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// Nothing on one rank.
class KeepAlive {
 public:
  explicit KeepAlive(RankGroup group);
  ~KeepAlive();
  KeepAlive(const KeepAlive&) = delete;
  KeepAlive& operator=(const KeepAlive&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;
};

class Heartbeat final : public StepObserver {
 public:
  // `inner` sees each instruction before this does; may be null.
  explicit Heartbeat(RankGroup group, StepObserver* inner = nullptr)
      : group_(group), inner_(inner) {}

  bool waits() const override { return inner_ != nullptr && inner_->waits(); }
  void Before(size_t instruction) override {
    if (inner_ != nullptr) inner_->Before(instruction);
  }
  absl::Status After(size_t instruction) override {
    group_.Beat();
    return inner_ != nullptr ? inner_->After(instruction) : absl::OkStatus();
  }

 private:
  RankGroup group_;
  StepObserver* const inner_;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RANKS_KEEP_ALIVE_H_
