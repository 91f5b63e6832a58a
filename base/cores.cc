#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace colossus {

int Cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  // More cores than the set can hold.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace colossus
