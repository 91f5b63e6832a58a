#include "parallel/stages/split_stages.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/status.h"
#include "parallel/micro_batch_graph.h"
#include "parallel/pipeline/cut.h"
#include "parallel/pipeline/stage_graph.h"
#include "parallel/plan_rules.h"
#include "parallel/sharding/axes.h"
#include "parallel/sharding/propagate.h"
#include "parallel/sharding/rules.h"
#include "tensor/graph/mesh_slice.h"

namespace colossus {
namespace {

// The whole graph as one stage's mesh splits it.
struct OnStage {
  Graph annotated;
  std::map<std::string, Sharding> gradients;
};

absl::StatusOr<OnStage> Annotated(const Graph& graph,
                                  const std::vector<ParameterGradients>& parameters,
                                  const StageRules& stage) {
  OnStage on;
  ASSIGN_OR_RETURN(on.annotated, AnnotateShardings(graph, stage.rules, stage.mesh));
  on.gradients = GradientShardings(on.annotated, parameters);
  return on;
}

// Whole values on the way out, and where nobody cares; else as readers and makers want it.
Sharding BorderSharding(const Graph& annotated, const std::vector<std::optional<Want>>& wants,
                        const std::string& name, const Mesh& mesh) {
  const ValueId v = annotated.FindValue(name);
  const Type& type = annotated.value(v).type;
  const std::optional<Want>& want = wants[static_cast<size_t>(v)];
  if (!want || annotated.FindOutput(name) != kNoValue) return Replicated(type.rank());
  Sharding sharding = want->sharding;
  sharding.partial.clear();
  return CheckSharding(type.dims, sharding, mesh).ok() ? sharding : Replicated(type.rank());
}

void AddBorders(const OnStage& on, const std::vector<Message>& messages, int stage,
                StageMeshes::Stage& own) {
  const std::vector<std::optional<Want>> wants = WantsOf(on.annotated, on.gradients);
  for (const Message& message : messages) {
    if (message.from != stage && message.to != stage) continue;
    for (const SentValue& value : message.values) {
      own.values[value.name] = BorderSharding(on.annotated, wants, value.name, own.mesh);
    }
  }
}

// Gradients of what several stages hold.
void AddArrivals(const OnStage& on, const std::vector<ParameterGradients>& parameters,
                 const StageUses& uses, int stage, StageMeshes::Stage& own) {
  for (const ParameterGradients& parameter : parameters) {
    const std::vector<int>& holders = uses.of_state.at(parameter.state);
    if (holders.size() == 1) continue;
    for (int holder : holders) {
      if (holder != stage) continue;
      for (const std::string& gradient : parameter.outputs) {
        own.values[SumName(gradient)] = ArrivingGradient(on.gradients.at(gradient), own.mesh);
      }
    }
  }
}

StageShare ShareOf(const StagePipeline& pipeline, const StageUses& uses,
                   const std::vector<Work>& works) {
  StageShare share;
  share.stage = pipeline.stage;
  for (const Work& work : works) {
    share.stage_of_node.push_back(pipeline.stage_of[static_cast<size_t>(work.part)]);
  }
  for (const auto& [name, stages] : uses.of_state) {
    for (int stage : stages) {
      if (stage == pipeline.stage) share.states.insert(name);
    }
  }
  for (const auto& [name, stage] : uses.of_output) {
    if (stage == pipeline.stage) share.outputs.insert(name);
  }
  share.messages = pipeline.messages;
  return share;
}

}  // namespace

Sharding ArrivingGradient(const Sharding& parameter, const Mesh& mesh) {
  Sharding arriving = parameter;
  arriving.partial.clear();
  const AxisNames split = SplitAxes(parameter);
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1 && SplitsTokens(axis.name) && !HasAxis(split, axis.name)) {
      arriving.partial.push_back(axis.name);
    }
  }
  return arriving;
}

absl::StatusOr<Partitioned> SplitStages(const Graph& graph,
                                        const std::vector<ParameterGradients>& parameters,
                                        const std::vector<StageRules>& stages,
                                        const MeshPlace& place, bool panels,
                                        StagePipeline& pipeline) {
  const std::vector<Work> works = WorkOfNodes(graph, pipeline.cut, pipeline.split_backward);
  const StageUses uses = FindStageUses(graph, pipeline);
  pipeline.rank = place.rank_of_job();
  pipeline.messages = FindMessages(graph, works, pipeline.stage_of);
  pipeline.outputs_to_all = OutputsToAll(graph, uses, pipeline.stages);
  pipeline.sent.clear();
  for (const Message& message : pipeline.messages) {
    if (message.from != pipeline.stage) continue;
    for (const SentValue& value : message.values) pipeline.sent.insert(value.name);
  }
  auto meshes = std::make_shared<StageMeshes>();
  OnStage own;
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    const StageRules& rules = stages[static_cast<size_t>(stage)];
    StageMeshes::Stage& other = meshes->stages.emplace_back();
    other.mesh = rules.mesh;
    other.first = rules.first;
    ASSIGN_OR_RETURN(OnStage on, Annotated(graph, parameters, rules));
    AddBorders(on, pipeline.messages, stage, other);
    AddArrivals(on, parameters, uses, stage, other);
    if (stage == pipeline.stage) own = std::move(on);
  }
  StageShare share = ShareOf(pipeline, uses, works);
  share.shardings = meshes->stages[static_cast<size_t>(pipeline.stage)].values;
  pipeline.meshes = meshes;
  ASSIGN_OR_RETURN(const Graph stage_graph, StageGraph(own.annotated, share));
  PartitionOptions options;
  options.mesh = &place.mesh;
  options.rank = place.rank;
  options.panels = panels;
  options.gradients = std::move(own.gradients);
  for (const std::string& name : pipeline.sent) options.outputs[name] = share.shardings.at(name);
  return Partition(stage_graph, options);
}

absl::StatusOr<Partitioned> SplitStages(const Graph& graph,
                                        const std::vector<ParameterGradients>& parameters,
                                        const Plan& plan, const ModelConfig& config,
                                        const MeshPlace& place, StagePipeline& pipeline) {
  std::vector<StageRules> stages;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Plan own = plan.OfStage(static_cast<int>(s));
    StageRules& stage = stages.emplace_back();
    ASSIGN_OR_RETURN(stage.mesh, PlanMesh(own, config));
    stage.first = plan.stages[s].ranks.front();
    stage.rules = PlanRules(own, config, stage.mesh);
  }
  return SplitStages(graph, parameters, stages, place, plan.tensor_layout == TensorLayout::k2d,
                     pipeline);
}

}  // namespace colossus
