#include "parallel/pipeline/schedule_list.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "parallel/pipeline/fixed_schedules.h"
#include "parallel/pipeline/schedules.h"

namespace colossus {

const std::vector<Schedule>& AllSchedules() {
  static const auto* const kSchedules = [] {
    auto* list = new std::vector<Schedule>(FixedSchedules());
    list->push_back({kSearchedSchedule, "built from times and a memory limit", 1, SearchedRules});
    return list;
  }();
  return *kSchedules;
}

absl::StatusOr<const Schedule*> FindSchedule(absl::string_view name) {
  std::vector<std::string> names;
  for (const Schedule& schedule : AllSchedules()) {
    if (schedule.name == name) return &schedule;
    names.emplace_back(schedule.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown schedule '", name, "'",
                                                 NearestNameHint(name, names), "; there are ",
                                                 absl::StrJoin(names, ", ")));
}

}  // namespace colossus
