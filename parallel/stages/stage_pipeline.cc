#include "parallel/stages/stage_pipeline.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/stages/stage_memory.h"
#include "shardformer/model.h"
#include "tensor/cost/device_rates.h"
#include "tensor/ops/op.h"

namespace colossus {
namespace {

// Actions that `searched` may place: a second or so.
constexpr int64_t kSearchEffort = 2'000'000;

// Each part's seconds, as predicted; activations count alike.
PipelineCosts PredictedCosts(const Graph& graph, const ModelCut& cut, int chunks) {
  const std::vector<Work> works = WorkOfNodes(graph, cut, /*split_backward=*/true);
  PipelineCosts costs;
  costs.parts.resize(static_cast<size_t>(cut.parts));
  for (PartCosts& part : costs.parts) {
    part.activation = part.weight_activation = 1.0 / chunks;
  }
  for (size_t n = 0; n < works.size(); ++n) {
    const Node& node = graph.nodes()[n];
    const Types operands = graph.OperandTypes(node);
    const OpCall call{operands, node.attributes};
    if (node.op->IsView(call)) continue;
    const double seconds = OpSeconds(DeviceRates(), node.op->CostOf(call), operands);
    PartCosts& part = costs.parts[static_cast<size_t>(works[n].part)];
    (works[n].kind == ActionKind::kForward          ? part.forward
     : works[n].kind == ActionKind::kBackwardWeight ? part.backward_weight
                                                    : part.backward_input) += seconds;
  }
  return costs;
}

void TakeTimes(const PipelineCosts& measured, PipelineCosts& costs) {
  costs.communication = measured.communication;
  for (size_t p = 0; p < costs.parts.size() && p < measured.parts.size(); ++p) {
    costs.parts[p].forward = measured.parts[p].forward;
    costs.parts[p].backward_input = measured.parts[p].backward_input;
    costs.parts[p].backward_weight = measured.parts[p].backward_weight;
  }
}

// A stage of more ranks is faster, where the graph is that of all its ranks together.
std::vector<double> SpeedsOf(const Plan& plan, int parts) {
  std::vector<double> speeds;
  if (plan.same_meshes() || parts != static_cast<int>(plan.stages.size())) return speeds;
  for (const StagePlan& stage : plan.stages) {
    speeds.push_back(static_cast<double>(stage.ranks.size()));
  }
  return speeds;
}

// One limit for all stages, the least room: an activation of a stage with more room counts less. Of
// several chunks it is not known yet which stage holds a part: all have the least room.
void SetRoom(const std::vector<double>& room, ScheduleInput& input) {
  if (room.empty()) return;
  input.memory_limit = *std::min_element(room.begin(), room.end());
  if (input.shape.chunks > 1) return;
  for (size_t stage = 0; stage < room.size(); ++stage) {
    PartCosts& part = input.costs.parts[stage];
    part.activation *= input.memory_limit / room[stage];
    part.weight_activation *= input.memory_limit / room[stage];
  }
}

std::optional<std::vector<std::string>> GivenBorders(const Plan& plan, int parts) {
  if (plan.borders.empty() || static_cast<int>(plan.borders.size()) != parts - 1) return {};
  return plan.borders;
}

ModelCut CutOf(const Plan& plan, const ModelConfig& config, const Graph& graph, int parts,
               Balance balance = {}) {
  const std::vector<std::string> blocks = ModelBlocks(config);
  if (const auto borders = GivenBorders(plan, parts)) return CutAtBorders(blocks, *borders);
  balance.speeds = SpeedsOf(plan, parts);
  return CutBalanced(blocks, BlockSeconds(graph, blocks), parts, balance);
}

// Adds this stage's end of a message.
void AddMessageCall(const MessageSegments& segments, int message, int micro_batch,
                    std::vector<BlockCall>& calls) {
  const int segment = segments[static_cast<size_t>(message)];
  if (segment >= 0) calls.push_back({nullptr, micro_batch, 0, segment});
}

void AddWork(const StageVariant& variant, const Work& work, int micro_batch,
             std::vector<BlockCall>& calls) {
  for (size_t p = 0; p < variant.calls.passes.size(); ++p) {
    const BlockPass& pass = variant.calls.passes[p];
    if (variant.works[static_cast<size_t>(pass.first_part)] != work) continue;
    calls.push_back({&variant.calls, micro_batch, p});
  }
}

}  // namespace

absl::StatusOr<StagePipeline> StagePipeline::Make(const Plan& plan, const ModelConfig& config,
                                                  const Graph& graph, int stage,
                                                  const Optimizer& optimizer,
                                                  const PipelineFacts& facts) {
  ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(plan.schedule));
  ScheduleInput input;
  ASSIGN_OR_RETURN(input.shape, ShapeOf(plan));
  const int parts = input.shape.parts();
  Balance balance;
  if (!GivenBorders(plan, parts)) {
    balance = MemoryBalance(plan, config, graph, KeptOfParts(*schedule, input.shape), optimizer,
                            facts.device_bytes);
  }
  ModelCut cut = CutOf(plan, config, graph, parts, std::move(balance));
  input.costs = PredictedCosts(graph, cut, input.shape.chunks);
  if (facts.measured) TakeTimes(*facts.measured, input.costs);
  if (facts.room) SetRoom(*facts.room, input);
  input.objective = Objective::kMakespan;  // stages wait for each other to measure
  input.effort = kSearchEffort;
  Timeline timeline;
  if (facts.timeline) {
    timeline = *facts.timeline;
  } else {
    ASSIGN_OR_RETURN(timeline, Simulate(*schedule, input));
  }
  StagePipeline pipeline = Of(std::move(cut), std::move(timeline), stage);
  pipeline.costs = std::move(input.costs);
  return pipeline;
}

StagePipeline StagePipeline::Of(ModelCut cut, Timeline timeline, int stage) {
  StagePipeline pipeline;
  pipeline.cut = std::move(cut);
  pipeline.stage_of = StagesOf(timeline.actions());
  pipeline.stages = timeline.shape.stages;
  pipeline.stage = stage;
  pipeline.split_backward = timeline.split_backward;
  pipeline.timeline = std::move(timeline);
  return pipeline;
}

StagePipeline StagePipeline::MakeForward(const Plan& plan, const ModelConfig& config,
                                         const Graph& graph, int stage) {
  StagePipeline pipeline;
  pipeline.stages = static_cast<int>(plan.stages.size());
  pipeline.stage = stage;
  pipeline.cut = CutOf(plan, config, graph, pipeline.stages);
  pipeline.stage_of.resize(static_cast<size_t>(pipeline.stages));
  std::iota(pipeline.stage_of.begin(), pipeline.stage_of.end(), 0);
  return pipeline;
}

StageUses FindStageUses(const Graph& graph, const StagePipeline& pipeline) {
  StageUses uses;
  const auto stage_of_node = [&](NodeId n) {
    return pipeline.stage_of[static_cast<size_t>(pipeline.cut.PartOf(graph.node(n).block))];
  };
  const std::vector<std::vector<NodeId>> readers = graph.Uses();
  for (const State& state : graph.states()) {
    std::set<int> stages;
    for (NodeId reader : readers[state.in]) stages.insert(stage_of_node(reader));
    // What nobody reads lies with the first stage.
    if (stages.empty()) stages.insert(0);
    uses.of_state[state.info.name].assign(stages.begin(), stages.end());
  }
  for (const Output& output : graph.outputs()) {
    const NodeId maker = graph.value(output.value).producer;
    uses.of_output[output.name] = maker == kNoNode ? 0 : stage_of_node(maker);
  }
  return uses;
}

std::vector<Message> OutputsToAll(const Graph& graph, const StageUses& uses, int stages) {
  std::vector<Message> messages;
  for (const Output& output : graph.outputs()) {
    Message message;
    message.from = uses.of_output.at(output.name);
    message.values = {{output.name, graph.value(output.value).type}};
    for (message.to = 0; message.to < stages; ++message.to) {
      if (message.to != message.from) messages.push_back(message);
    }
  }
  return messages;
}

void SetStages(const StageUses& uses, const StagePipeline& pipeline,
               std::vector<LocalState>& states) {
  for (LocalState& state : states) {
    state.stages = uses.of_state.at(state.info.name);
    state.stage = pipeline.stage;
  }
}

absl::StatusOr<std::optional<StepSegment>> EndOf(const Message& message,
                                                 const StagePipeline& pipeline,
                                                 absl::string_view name) {
  const bool sends = message.from == pipeline.stage;
  if (!sends && message.to != pipeline.stage) return std::optional<StepSegment>();
  if (pipeline.meshes) {
    return sends ? SendSegment(message, *pipeline.meshes, pipeline.rank, name)
                 : ReceiveSegment(message, *pipeline.meshes, pipeline.rank, name);
  }
  ASSIGN_OR_RETURN(StepSegment segment, sends ? SendSegment(message, pipeline.stages, name)
                                              : ReceiveSegment(message, pipeline.stages, name));
  return std::optional<StepSegment>(std::move(segment));
}

absl::StatusOr<MessageSegments> AddMessageSegments(const std::vector<Message>& messages,
                                                   const StagePipeline& pipeline,
                                                   absl::string_view name, bool fetched,
                                                   StepBuilder& step) {
  MessageSegments segments;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    segments.push_back(-1);
    ASSIGN_OR_RETURN(std::optional<StepSegment> end,
                     EndOf(message, pipeline, absl::StrCat(name, ".", i)));
    if (!end) continue;
    for (const SentValue& value : message.values) {
      if (fetched && message.to == pipeline.stage) end->fetched.push_back(value.name);
    }
    segments.back() = step.AddSegment(*std::move(end));
  }
  return segments;
}

PipelineCalls PipelineCalls::Of(const std::vector<BlockCall>& calls,
                                const MessageSegments& segments,
                                const std::function<const StageVariant&(int)>& variant) {
  PipelineCalls known;
  known.message_count = static_cast<int>(segments.size());
  for (size_t m = 0; m < segments.size(); ++m) {
    if (segments[m] >= 0) known.messages[segments[m]] = static_cast<int>(m);
  }
  for (const BlockCall& call : calls) {
    if (call.variant == nullptr) {
      known.order[{call.link, call.micro_batch}] = call.order;
      continue;
    }
    const BlockPass& pass = call.variant->passes[call.pass];
    for (int part = pass.first_part; part <= pass.last_part; ++part) {
      const int segment = call.variant->segments[static_cast<size_t>(part)];
      known.order[{segment, call.micro_batch}] = call.order;
      known.works[segment] = variant(call.micro_batch).works[static_cast<size_t>(part)];
    }
  }
  return known;
}

std::vector<BlockCall> TrainingCalls(const StagePipeline& pipeline,
                                     const std::vector<Message>& messages,
                                     const MessageSegments& segments,
                                     const std::function<const StageVariant&(int)>& variant) {
  const PipelineActions actions = pipeline.timeline.actions();
  std::vector<BlockCall> calls;
  int64_t order = 0;
  for (const PipelineEvent& event : OrderEvents(pipeline.timeline, messages)) {
    const size_t before = calls.size();
    if (event.message >= 0) {
      AddMessageCall(segments, event.message, event.micro_batch, calls);
    } else if (actions.StageAt(event.action) == pipeline.stage) {
      AddWork(variant(event.micro_batch),
              {actions.KindAt(event.action), actions.PartAt(event.action)}, event.micro_batch,
              calls);
    }
    for (size_t i = before; i < calls.size(); ++i) calls[i].order = order;
    ++order;
  }
  return calls;
}

std::vector<BlockCall> ForwardCalls(const StageVariant& variant, const StagePipeline& pipeline,
                                    const MessageSegments& segments, const MessageSegments& to_all,
                                    int micro_batch) {
  std::vector<BlockCall> calls;
  for (int part = 0; part < pipeline.cut.parts; ++part) {
    const Work work{ActionKind::kForward, part};
    if (pipeline.OnStage(part)) AddWork(variant, work, micro_batch, calls);
    for (size_t i = 0; i < variant.messages.size(); ++i) {
      if (variant.messages[i].work == work) {
        AddMessageCall(segments, static_cast<int>(i), micro_batch, calls);
      }
    }
  }
  for (size_t i = 0; i < to_all.size(); ++i) {
    AddMessageCall(to_all, static_cast<int>(i), micro_batch, calls);
  }
  return calls;
}

}  // namespace colossus
