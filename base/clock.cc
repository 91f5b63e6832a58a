#include "base/clock.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/check.h"

namespace colossus {
double RealClock::Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double VirtualClock::Seconds() {
  const std::lock_guard lock(mutex_);
  return now_;
}

void VirtualClock::AdvanceTo(double seconds) {
  CHECK(!std::isnan(seconds)) << "time is NaN";
  const std::lock_guard lock(mutex_);
  now_ = std::max(now_, seconds);
}

void VirtualClock::AdvanceBy(double seconds) {
  CHECK_GE(seconds, 0);
  const std::lock_guard lock(mutex_);
  now_ += seconds;
}

}  // namespace colossus
