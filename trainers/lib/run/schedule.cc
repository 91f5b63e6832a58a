#include "trainers/lib/run/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/check.h"
#include "trainers/lib/config/options.h"

namespace colossus {

RateSchedule MakeSchedule(const Options& options, int64_t total) {
  RateSchedule schedule = {.kind = ScheduleKind::kConstant,
                           .peak = options.optimizer.learning_rate,
                           .warmup = options.schedule.warmup_steps,
                           .total = total,
                           .minimum_ratio = options.schedule.minimum_ratio};
  if (options.schedule.kind == "linear") schedule.kind = ScheduleKind::kLinear;
  if (options.schedule.kind == "cosine") schedule.kind = ScheduleKind::kCosine;
  return schedule;
}

double LearningRate(const RateSchedule& s, int64_t update) {
  CHECK_GE(update, 0);
  if (update < s.warmup) {
    return s.peak * static_cast<double>(update) / static_cast<double>(s.warmup);
  }
  if (s.kind == ScheduleKind::kConstant) return s.peak;
  const double span = static_cast<double>(std::max<int64_t>(s.total - s.warmup, 1));
  const double progress = std::min(1.0, static_cast<double>(update - s.warmup) / span);
  const double height = s.kind == ScheduleKind::kLinear
                            ? 1 - progress
                            : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return s.peak * (s.minimum_ratio + (1 - s.minimum_ratio) * height);
}

}  // namespace colossus
