#include "parallel/stages/stage_memory.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "parallel/pipeline/block_memory.h"
#include "parallel/pipeline/schedule_list.h"
#include "shardformer/model.h"
#include "tensor/graph/state.h"

namespace colossus {
namespace {

// Bytes of a parameter and of what goes with it on one rank of a stage. `own`: the plan as the
// stage sees it; `split`: by how much the graph's types are larger than a rank's.
double BytesOfState(const State& state, const Type& type, const Plan& own, double split,
                    const Optimizer& optimizer) {
  const auto elements = static_cast<double>(type.elements()) / split;
  const auto sharers = static_cast<double>(own.AxisSize("data") * own.AxisSize("sequence"));
  const auto shared = [&](int stage) { return own.zero >= stage ? sharers : 1; };
  double bytes = elements * static_cast<double>(SizeOf(type.dtype)) / shared(3);
  if (!state.info.trainable) return bytes;
  for (Role role : StateRoles(optimizer, type.dtype)) {
    if (role == Role::kParameter) continue;
    const auto size = static_cast<double>(SizeOf(StateDType(optimizer, role, type.dtype)));
    bytes += elements * size / shared(1);
  }
  // Sums over micro-batches are whole until they are reduced.
  if (own.micro_batches > 1) {
    return bytes + elements * static_cast<double>(SizeOf(MasterDType(type.dtype)));
  }
  return bytes + elements * static_cast<double>(SizeOf(own.precision.gradient)) / shared(2);
}

// Of one stage.
struct StageBytes {
  BlockMemory memory;
  double split = 1;  // of activations
};

std::shared_ptr<const std::vector<StageBytes>> BytesOfStages(const Plan& plan,
                                                             const ModelConfig& config,
                                                             const Graph& graph,
                                                             const Optimizer& optimizer) {
  auto stages = std::make_shared<std::vector<StageBytes>>();
  const std::vector<std::string> blocks = ModelBlocks(config);
  const bool whole = !plan.same_meshes();
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    const Plan own = plan.OfStage(s);
    const double split = whole ? static_cast<double>(own.AxisSize("tensor")) : 1;
    const auto ranks = static_cast<double>(plan.stages[static_cast<size_t>(s)].ranks.size());
    stages->push_back({BlockMemory::Of(graph, blocks,
                                       [&](const State& state) {
                                         return BytesOfState(state, graph.value(state.in).type,
                                                             own, split, optimizer);
                                       }),
                       whole ? ranks : 1});
    if (!whole) break;  // all alike
  }
  return stages;
}

}  // namespace

std::vector<double> KeptOfParts(const Schedule& schedule, const PipelineShape& shape) {
  const auto most = static_cast<double>(std::min(shape.stages, shape.micro_batches));
  std::vector<double> kept(static_cast<size_t>(shape.parts()), most);
  const bool searched = schedule.name == kSearchedSchedule;
  if (searched && shape.chunks > 1) return kept;
  const absl::StatusOr<const Schedule*> fixed = searched ? FindSchedule("1f1b") : &schedule;
  ScheduleInput input;
  input.shape = shape;
  const absl::StatusOr<Rules> rules = (*fixed)->rules(input);
  if (!rules.ok()) return kept;  // refused where it is run
  const PipelineActions actions(shape, rules->placement, rules->split_backward);
  for (int part = 0; part < shape.parts(); ++part) {
    const auto stage = static_cast<size_t>(actions.StageOf(part));
    kept[static_cast<size_t>(part)] = rules->memory_bound[stage];
  }
  return kept;
}

Balance MemoryBalance(const Plan& plan, const ModelConfig& config, const Graph& graph,
                      std::vector<double> kept_of_parts, const Optimizer& optimizer,
                      std::optional<int64_t> device_bytes) {
  const size_t stages = plan.stages.size(), parts = kept_of_parts.size();
  Balance balance;
  if (device_bytes && *device_bytes < INT64_MAX) {
    balance.most_bytes = static_cast<double>(*device_bytes) * static_cast<double>(stages) /
                         static_cast<double>(parts);
  }
  balance.bytes = [of_stages = BytesOfStages(plan, config, graph, optimizer),
                   kept = std::move(kept_of_parts), stages](int part, size_t first, size_t end) {
    const auto p = static_cast<size_t>(part);
    // Of several chunks it is not known yet which stage holds a part.
    const size_t at = kept.size() == stages ? std::min(p, of_stages->size() - 1) : 0;
    const StageBytes& stage = (*of_stages)[at];
    return stage.memory.states(first, end) +
           kept[p] * stage.memory.activations(first, end) / stage.split;
  };
  return balance;
}

}  // namespace colossus
