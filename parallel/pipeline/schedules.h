// The schedules that are offered, each in the file of its name.
//
// Purpose: the declarations that schedule_list.cc and fixed_schedules.cc list.
// Thread-safety: functions of their arguments. Ownership: none.
#ifndef COLOSSUS_PARALLEL_PIPELINE_SCHEDULES_H_
#define COLOSSUS_PARALLEL_PIPELINE_SCHEDULES_H_

#include "absl/status/statusor.h"
#include "parallel/pipeline/schedule.h"

namespace colossus {

absl::StatusOr<Rules> GPipeRules(const ScheduleInput& input);
absl::StatusOr<Rules> OneForwardOneBackwardRules(const ScheduleInput& input);
absl::StatusOr<Rules> InterleavedRules(const ScheduleInput& input);
absl::StatusOr<Rules> LoopedRules(const ScheduleInput& input);
absl::StatusOr<Rules> ZbH1Rules(const ScheduleInput& input);
absl::StatusOr<Rules> ZbH2Rules(const ScheduleInput& input);
absl::StatusOr<Rules> ZbVRules(const ScheduleInput& input);
absl::StatusOr<Rules> VHalfRules(const ScheduleInput& input);
absl::StatusOr<Rules> VMinRules(const ScheduleInput& input);
absl::StatusOr<Rules> SearchedRules(const ScheduleInput& input);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SCHEDULES_H_
