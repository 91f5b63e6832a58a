// All schedules by name.
//
// Thread-safe. Ownership: the list lives forever.
//
//   ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule("zb-v"));
#ifndef COLOSSUS_PARALLEL_PIPELINE_SCHEDULE_LIST_H_
#define COLOSSUS_PARALLEL_PIPELINE_SCHEDULE_LIST_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parallel/pipeline/schedule.h"

namespace colossus {

// The one that goes by times and a memory limit.
inline constexpr absl::string_view kSearchedSchedule = "searched";

const std::vector<Schedule>& AllSchedules();

// InvalidArgument lists the names there are, and the one that was probably meant.
absl::StatusOr<const Schedule*> FindSchedule(absl::string_view name);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SCHEDULE_LIST_H_
