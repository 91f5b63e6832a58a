#include "trainers/lib/ranks/keep_alive.h"

#include <chrono>

namespace colossus {
namespace {

constexpr std::chrono::seconds kBetweenBeats(2);

}  // namespace

KeepAlive::KeepAlive(RankGroup group) {
  if (group.size() == 1) return;
  thread_ = std::thread([this, group]() mutable {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!end_.wait_for(lock, kBetweenBeats, [&] { return ended_; })) {
      // While all wait in collectives, these signs would hide that one has stopped in its own.
      if (!group.waits()) group.Beat();
    }
  });
}

KeepAlive::~KeepAlive() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  end_.notify_one();
  thread_.join();
}

}  // namespace colossus
