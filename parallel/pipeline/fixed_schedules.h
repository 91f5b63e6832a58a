// The schedules that follow from the shape alone.
//
// Thread-safe. Ownership: the list lives forever.
#ifndef COLOSSUS_PARALLEL_PIPELINE_FIXED_SCHEDULES_H_
#define COLOSSUS_PARALLEL_PIPELINE_FIXED_SCHEDULES_H_

#include <vector>

#include "parallel/pipeline/schedule.h"

namespace colossus {

const std::vector<Schedule>& FixedSchedules();

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_FIXED_SCHEDULES_H_
