#include "parallel/pipeline/fixed_schedules.h"

#include <vector>

#include "parallel/pipeline/schedules.h"

namespace colossus {

const std::vector<Schedule>& FixedSchedules() {
  static const auto* const kSchedules = new std::vector<Schedule>{
      {"gpipe", "all forwards, then all backwards", 1, GPipeRules},
      {"1f1b", "a backward as soon as possible, then a forward", 1, OneForwardOneBackwardRules},
      {"interleaved", "1f1b with several chunks a stage", 2, InterleavedRules},
      {"looped", "chunk by chunk, all micro-batches in each", 2, LoopedRules},
      {"zb-h1", "1f1b with weight gradients put off, same memory", 1, ZbH1Rules},
      {"zb-h2", "weight gradients put off, twice the memory", 1, ZbH2Rules},
      {"zb-v", "2 chunks in a V: the memory of 1f1b, no bubble if all times are equal", 2,
       ZbVRules},
      {"v-half", "2 chunks in a V, half the memory of 1f1b", 2, VHalfRules},
      {"v-min", "2 chunks in a V, a third of the memory of 1f1b", 2, VMinRules},
  };
  return *kSchedules;
}

}  // namespace colossus
