#include "parallel/pipeline/search/bases.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "parallel/pipeline/wave.h"

namespace colossus {
namespace {

// Every action once, by increasing key within each stage; equal keys in the order of numbers.
StageOrders SortedBy(const PipelineActions& actions,
                     const std::function<int64_t(const Action&)>& key) {
  StageOrders orders;
  for (int stage = 0; stage < actions.shape().stages; ++stage) {
    std::vector<std::pair<int64_t, int>> keyed;
    for (int i = 0; i < actions.per_stage(); ++i) {
      int action = stage * actions.per_stage() + i;
      keyed.emplace_back(key(actions.At(action)), action);
    }
    std::sort(keyed.begin(), keyed.end());
    orders.emplace_back();
    for (const auto& [unused, action] : keyed) orders.back().push_back(action);
  }
  return orders;
}

// Forwards and backwards in groups of `group` micro-batches chunk by chunk, a backward with its
// weight gradient and a forward in turn after `warm_up(stage)` forwards.
StageOrders InGroups(const PipelineActions& actions, int group,
                     const std::function<int(int)>& warm_up) {
  const PipelineShape& shape = actions.shape();
  auto place = [&](int chunk, int micro_batch) {
    int first = micro_batch / group * group;
    int size = std::min(group, shape.micro_batches - first);  // of this group
    return int64_t{first} * shape.chunks + chunk * size + micro_batch - first;
  };
  return SortedBy(actions, [&](const Action& a) -> int64_t {
    if (a.kind == ActionKind::kForward) {
      return 3 * (place(a.chunk, a.micro_batch) - warm_up(a.stage)) + 2;
    }
    int64_t round = 3 * place(shape.chunks - 1 - a.chunk, a.micro_batch);
    return a.kind == ActionKind::kBackwardInput ? round : round + 1;
  });
}

// How many chunks' activations of a stage fit, if all are like the largest.
int Room(const PipelineActions& actions, const PipelineCosts& costs, int stage, double limit) {
  double largest = 0;
  for (int chunk = 0; chunk < actions.shape().chunks; ++chunk) {
    largest = std::max(largest, costs.parts[actions.PartOf(stage, chunk)].activation);
  }
  int all = actions.shape().chunks * actions.shape().micro_batches;
  double room = limit * (1 + kActivationSlack) / largest;
  return room < all ? static_cast<int>(room) : all;
}

void AddNew(StageOrders orders, std::vector<StageOrders>& all) {
  if (orders.empty() || std::find(all.begin(), all.end(), orders) != all.end()) return;
  all.push_back(std::move(orders));
}

// One chunk: warm-ups that grow by `slope` micro-batches from the last stage to the first.
void AddRounds(const PipelineActions& actions, const PipelineCosts& costs, double limit,
               std::vector<StageOrders>& all) {
  int stages = actions.shape().stages;
  for (int slope = 1; slope <= 3; ++slope) {
    for (int more = -2; more <= 1; ++more) {
      AddNew(InGroups(actions, 1,
                      [&](int stage) {
                        int room = Room(actions, costs, stage, limit);
                        return std::clamp(slope * (stages - stage) + more, 1, std::max(room, 1));
                      }),
             all);
    }
  }
}

void AddGroups(const PipelineActions& actions, const PipelineCosts& costs, double limit,
               std::vector<StageOrders>& all) {
  const PipelineShape& shape = actions.shape();
  for (int group : {shape.stages, 2 * shape.stages, shape.micro_batches}) {
    if (group > shape.micro_batches) continue;
    for (int slope : {2, 1, 4, 0}) {
      for (int more : {0, shape.stages / 2, shape.stages, 2 * shape.stages}) {
        AddNew(InGroups(actions, group,
                        [&](int stage) {
                          int first = (shape.chunks - 1) * group + 1;
                          int room = std::max(Room(actions, costs, stage, limit), 1);
                          return std::min(slope * (shape.stages - stage - 1) + first + more, room);
                        }),
               all);
      }
    }
  }
}

// Waves whose chunks live equally long, and those of the offered schedules.
void AddWaves(const PipelineActions& actions, std::vector<StageOrders>& all) {
  std::vector<Wave> waves = {{.steps = {1, 2, 4, 2}, .first_turn = 1, .last_turn = 2}};
  constexpr int kMost = 4;
  for (int a = 1; a <= kMost; ++a) {
    for (int b = 1; b <= kMost; ++b) {
      for (int c = 1; c <= kMost; ++c) {
        int d = b + c - a;
        if (d < 1 || d > kMost) continue;
        for (int turn : {1, 2}) {
          waves.push_back({.steps = {a, b, c, d}, .first_turn = 1, .last_turn = turn});
        }
      }
    }
  }
  for (const Wave& wave : waves) AddNew(WaveOrders(actions, wave), all);
}

}  // namespace

StageOrders OneByOne(const PipelineActions& actions) {
  int chunks = actions.shape().chunks;
  return InGroups(actions, 1, [chunks](int) { return chunks; });
}

std::vector<StageOrders> BaseOrders(const PipelineActions& actions, const PipelineCosts& costs,
                                    double limit) {
  std::vector<StageOrders> all;
  if (actions.shape().chunks == 1) {
    AddRounds(actions, costs, limit, all);
  } else {
    if (actions.shape().chunks == 2 && actions.placement() == PartPlacement::kV) {
      AddWaves(actions, all);
    }
    AddGroups(actions, costs, limit, all);
  }
  AddNew(OneByOne(actions), all);
  return all;
}

}  // namespace colossus
