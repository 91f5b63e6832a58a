// The learning rate of each update.
//
// Thread-safe: functions of their arguments. Updates that were applied are counted, from 0: a
// skipped one does not advance it, and neither accumulation nor ranks appear in it.
//
//   RateSchedule schedule = {.kind = ScheduleKind::kCosine, .peak = 1e-3, .warmup = 100, .total =
//   1000}; LearningRate(schedule, 550);   // 5e-4
#ifndef COLOSSUS_TRAINERS_LIB_RUN_SCHEDULE_H_
#define COLOSSUS_TRAINERS_LIB_RUN_SCHEDULE_H_

#include <cstdint>

#include "trainers/lib/config/options.h"

namespace colossus {

enum class ScheduleKind { kConstant, kLinear, kCosine };

struct RateSchedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double peak = 0;     // learning rate after the warm-up
  int64_t warmup = 0;  // updates; update k < warmup has peak * k / warmup
  int64_t total = 0;   // updates of the whole run
  double minimum_ratio =
      0;  // share of the peak that is reached at update `total`, one past the last
};

// `total` is the number of updates of the whole run, resumed parts included.
RateSchedule MakeSchedule(const Options& options, int64_t total);

// REQUIRES: update >= 0. From `total` on it stays at the minimum.
double LearningRate(const RateSchedule& schedule, int64_t update);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_SCHEDULE_H_
