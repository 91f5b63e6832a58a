#include "parallel/pipeline/rounds.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace colossus {

Rules RoundRules(const PipelineShape& shape, const std::function<Round(int stage)>& round,
                 bool split_backward) {
  CHECK_EQ(shape.chunks, 1);
  Rules rules;
  rules.split_backward = split_backward;
  std::vector<Round> rounds;
  for (int stage = 0; stage < shape.stages; ++stage) {
    rounds.push_back(round(stage));
    int kept = rounds.back().warm_up + rounds.back().weight_lag;
    rules.memory_bound.push_back(std::min(kept, shape.micro_batches));
  }
  // Within a round: backward, weight gradient, forward.
  rules.must_run_before = ByKey([rounds = std::move(rounds)](const Action& a) -> int64_t {
    const Round& round = rounds[a.stage];
    switch (a.kind) {
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        return 3 * int64_t{a.micro_batch};
      case ActionKind::kBackwardWeight:
        return 3 * int64_t{a.micro_batch + round.weight_lag} + 1;
      case ActionKind::kForward:
        return 3 * int64_t{a.micro_batch - round.warm_up} + 2;
    }
    return 0;
  });
  return rules;
}

}  // namespace colossus
