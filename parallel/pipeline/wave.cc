#include "parallel/pipeline/wave.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "parallel/pipeline/compact.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {
namespace {

constexpr int kPeriod = 6;  // slots

// Slots of micro-batch 0 on a stage, in the order of Wave::steps.
using Slots = std::array<int, 4>;

std::vector<Slots> SlotsOf(int stages, const Wave& wave, int middle_turn) {
  std::vector<Slots> slots(stages);
  const std::array<int, 4>& steps = wave.steps;
  int bottom = (stages - 1) * steps[0] + wave.first_turn;
  int top = bottom + (stages - 1) * steps[1] + middle_turn;
  int back = top + (stages - 1) * steps[2] + wave.last_turn;
  for (int s = 0; s < stages; ++s) {
    int up = stages - 1 - s;
    slots[s] = {s * steps[0], bottom + up * steps[1], top + s * steps[2], back + up * steps[3]};
  }
  return slots;
}

bool Distinct(const std::vector<Slots>& slots) {
  for (const Slots& stage : slots) {
    unsigned taken = 0;
    for (int slot : stage) {
      unsigned bit = 1u << (slot % kPeriod);
      if ((taken & bit) != 0) return false;
      taken |= bit;
    }
  }
  return true;
}

// First slots after the backwards of chunk 1 and chunk 0 that no action of the stage has.
std::array<int, 2> WeightSlots(const Slots& slots) {
  unsigned taken = 0;
  for (int slot : slots) taken |= 1u << (slot % kPeriod);
  std::array<int, 2> weights = {slots[2] + 1, slots[3] + 1};
  for (int& slot : weights) {
    while ((taken & 1u << (slot % kPeriod)) != 0) ++slot;
    taken |= 1u << (slot % kPeriod);
  }
  return weights;
}

}  // namespace

StageOrders WaveOrders(const PipelineActions& actions, const Wave& wave) {
  const PipelineShape& shape = actions.shape();
  CHECK(shape.chunks == 2 && actions.placement() == PartPlacement::kV && actions.split_backward());
  std::vector<Slots> slots;
  for (int turn = 1; turn <= kPeriod; ++turn) {
    slots = SlotsOf(shape.stages, wave, turn);
    if (Distinct(slots)) break;
    slots.clear();
  }
  if (slots.empty()) return {};
  StageOrders orders;
  for (int stage = 0; stage < shape.stages; ++stage) {
    std::array<int, 2> weights = WeightSlots(slots[stage]);
    std::vector<std::pair<int, int>> timed;  // slot, action
    auto add = [&](ActionKind kind, int chunk, int slot) {
      for (int m = 0; m < shape.micro_batches; ++m) {
        timed.emplace_back(slot + kPeriod * m, actions.Index({kind, m, chunk, stage}));
      }
    };
    add(ActionKind::kForward, 0, slots[stage][0]);
    add(ActionKind::kForward, 1, slots[stage][1]);
    add(ActionKind::kBackwardInput, 1, slots[stage][2]);
    add(ActionKind::kBackwardInput, 0, slots[stage][3]);
    add(ActionKind::kBackwardWeight, 1, weights[0]);
    add(ActionKind::kBackwardWeight, 0, weights[1]);
    std::sort(timed.begin(), timed.end());
    orders.emplace_back();
    for (const auto& [slot, action] : timed) orders.back().push_back(action);
  }
  return orders;
}

Rules WaveRules(const PipelineShape& shape, const Wave& wave, double memory_bound) {
  PipelineActions actions(shape, PartPlacement::kV, /*split_backward=*/true);
  StageOrders pattern = WaveOrders(actions, wave);
  CHECK(!pattern.empty()) << "no pattern for " << ToString(shape);
  PipelineCosts slots = UniformCosts(shape, StageCosts());
  CompactOptions options;
  options.weights = CompactOptions::Weights::kAfterForwards;
  StageOrders orders =
      Compact(SchedulerOf(actions, slots), actions, slots, pattern, memory_bound, options);
  Rules rules;
  rules.placement = PartPlacement::kV;
  rules.split_backward = true;
  rules.must_run_before = InOrder(actions, orders);
  rules.memory_bound.assign(shape.stages,
                            std::min(memory_bound, static_cast<double>(shape.micro_batches)));
  return rules;
}

}  // namespace colossus
