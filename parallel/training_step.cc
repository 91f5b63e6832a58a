#include "parallel/training_step.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "parallel/update_calls.h"
#include "parallel/zero/chunk_graphs.h"
#include "parallel/zero/read_chunks.h"
#include "tensor/exec/segment.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

// A segment of `whole` with the sums of earlier micro-batches that it carries on; outputs that are
// no sums go to the host: the loss. `gathered_once`: chunks are gathered for the last micro-batch
// and read by all. `pipeline`: nullptr for one stage.
StepSegment WithCarries(const Graph& whole, Segment segment, const StagePipeline* pipeline,
                        bool gathered_once) {
  StepSegment added;
  for (const Output& output : segment.graph->outputs()) {
    if (whole.FindOutput(output.name) == kNoValue || output.name.starts_with(SumName(""))) continue;
    if (pipeline != nullptr && pipeline->sent.count(output.name) > 0) continue;
    added.fetched.push_back(output.name);
  }
  for (ValueId feed : segment.graph->feeds()) {
    const std::string& name = segment.graph->value(feed).name;
    const std::string prefix = PreviousName("");
    if (name.compare(0, prefix.size(), prefix) == 0) {
      added.carries.push_back({name, SumName(name.substr(prefix.size())), Carry::From::kPrevious});
    } else if (gathered_once && IsGatheredName(name)) {
      added.carries.push_back({name, name, Carry::From::kLast});
    }
  }
  added.segment = std::move(segment);
  return added;
}

// Reduces the gradients of each chunk, once the last micro-batch has made them.
absl::StatusOr<BlockReductions> AddReductions(const LocalTraining& training, const Plan& plan,
                                              const CompileOptions& options, const Device& device,
                                              const Graph& micro_batch, const Variant& last,
                                              StepBuilder& step) {
  BlockReductions reductions;
  reductions.overlap = plan.zero != 1 || plan.update == UpdateTime::kLayerwise;
  const ZeroLayout& zero = training.zero;
  for (size_t c = 0; c < zero.chunks().size(); ++c) {
    const ZeroChunk& chunk = zero.chunks()[c];
    if (!chunk.updated) continue;
    ASSIGN_OR_RETURN(Graph graph,
                     ReduceGraph(micro_batch, zero, static_cast<int>(c), plan.precision.gradient));
    RETURN_IF_ERROR(DumpText(options, absl::StrCat("train.reduce.", c), ToText(graph)));
    StepSegment reduce;
    reduce.link = true;
    int part = 0;
    bool received = false;  // some of it comes from other stages, at the end
    for (int p : chunk.parameters) {
      for (const std::string& gradient : zero.parameters()[p].gradients) {
        const std::string sum = SumName(gradient);
        if (!training.Makes(gradient)) {
          received = true;
          continue;
        }
        reduce.carries.push_back({sum, sum, Carry::From::kLast});
        part = std::max(part, last.part_of_output.at(sum));
      }
    }
    if (received) part = -1;
    ASSIGN_OR_RETURN(reduce.segment, FusedSegment({absl::StrCat("reduce.", c),
                                                   std::make_shared<const Graph>(std::move(graph))},
                                                  "train", options, device));
    reductions.list.push_back({step.AddSegment(std::move(reduce)), part});
  }
  return reductions;
}

// Gradients of parameters that several stages hold, from the stage that makes each to the others.
// Graph `sample` gives types.
std::vector<Message> TiedGradients(const LocalTraining& training, const Graph& sample) {
  std::vector<Message> messages;
  for (const ParameterGradients& parameter : training.parameters) {
    const std::vector<int>& holders = training.uses.of_state.at(parameter.state);
    for (const std::string& gradient : parameter.outputs) {
      const std::string sum = SumName(gradient);
      Message message;
      message.from = training.uses.of_output.at(gradient);
      message.values = {{sum, sample.value(sample.FindOutput(sum)).type}};
      for (int holder : holders) {
        if (holder == message.from) continue;
        message.to = holder;
        messages.push_back(message);
      }
    }
  }
  return messages;
}

// Sends what the last micro-batch has summed up.
absl::Status AddTiedCalls(const LocalTraining& training, const Graph& sample,
                          std::vector<BlockCall>& calls, StepBuilder& step) {
  if (training.pipeline->meshes) {
    for (size_t i = 0; i < training.tied.size(); ++i) {
      const TiedSum& tied = training.tied[i];
      const auto made = training.made_sums.find(tied.gradient);
      RETURN_IF_ERROR(AddTiedSum(
          tied, made == training.made_sums.end() ? Sharding() : made->second, *training.pipeline,
          training.place, absl::StrCat("tied.", i), calls, step));
    }
    return absl::OkStatus();
  }
  const std::vector<Message> messages = TiedGradients(training, sample);
  const StagePipeline& pipeline = *training.pipeline;
  for (size_t i = 0; i < messages.size(); ++i) {
    ASSIGN_OR_RETURN(std::optional<StepSegment> end,
                     EndOf(messages[i], pipeline, absl::StrCat("tied.", i)));
    if (!end) continue;
    const std::string& sum = messages[i].values[0].name;
    if (messages[i].from == pipeline.stage) end->carries.push_back({sum, sum, Carry::From::kLast});
    calls.push_back({nullptr, -1, 0, step.AddSegment(*std::move(end))});
  }
  return absl::OkStatus();
}

// The variants of an accumulation, and the graph of the one that makes the finished sums.
struct MicroBatches {
  const Variant& Of(int micro_batch, int64_t count) const {
    return micro_batch + 1 == count ? last : micro_batch == 0 ? first : rest;
  }
  std::vector<std::pair<const BlockVariant*, int>> Order(int64_t count) const {
    std::vector<std::pair<const BlockVariant*, int>> order;
    for (int m = 0; m < count; ++m) order.emplace_back(&Of(m, count).calls, m);
    return order;
  }

  Variant first, rest, last;  // of several; of a single one only `last`
  Graph last_graph;
};

absl::StatusOr<MicroBatches> AddVariants(const LocalTraining& training, const Plan& plan,
                                         const CompileOptions& options, const Device& device,
                                         StepBuilder& step) {
  const StagePipeline* pipeline = training.pipeline ? &*training.pipeline : nullptr;
  const bool vertical = plan.accumulation_order == AccumulationOrder::kVertical;
  auto add = [&](MicroBatchVariant variant, const std::string& name,
                 Graph& graph) -> absl::StatusOr<Variant> {
    ASSIGN_OR_RETURN(graph, MicroBatchGraph(training.local.graph, training.parameters, variant,
                                            plan.precision.gradient, training.gradients()));
    RETURN_IF_ERROR(DumpText(options, "train.micro_batch_" + name, ToText(graph)));
    return AddVariant(graph, training.zero, pipeline, "train.micro_batch_" + name, options, device,
                      step, /*gathered_once=*/vertical);
  };
  MicroBatches made;
  Graph graph;
  if (plan.micro_batches == 1) {
    ASSIGN_OR_RETURN(made.last, add(MicroBatchVariant::kOnly, "only", made.last_graph));
    return made;
  }
  ASSIGN_OR_RETURN(made.first, add(MicroBatchVariant::kFirst, "first", graph));
  // Where sums are not rounded, the last one is as those before it.
  const bool rounds = plan.precision.gradient != MasterDType(plan.precision.compute);
  if (!rounds || plan.micro_batches > 2) {
    ASSIGN_OR_RETURN(made.rest, add(MicroBatchVariant::kRest, "rest", made.last_graph));
    made.last = made.rest;
  }
  if (rounds) {
    ASSIGN_OR_RETURN(made.last, add(MicroBatchVariant::kLast, "last", made.last_graph));
  }
  return made;
}

// A variant before it is cut.
struct VariantCut {
  std::optional<Graph> chunked;  // that reads chunks instead of parameters
  std::vector<int> part_of;
  std::vector<Work> works;  // of a pipeline
  std::vector<BlockPass> passes;
};

absl::StatusOr<VariantCut> CutVariant(const Graph& graph, const ZeroLayout& zero,
                                      const StagePipeline* pipeline, const std::string& name,
                                      const CompileOptions& options) {
  VariantCut cut;
  std::vector<int> groups;
  if (pipeline != nullptr) {
    GraphCut pieces = CutGraph(graph, pipeline->cut, pipeline->split_backward, pipeline->sent);
    cut.part_of = std::move(pieces.piece_of);
    cut.works = std::move(pieces.works);
    for (size_t p = 0; p < cut.works.size(); ++p) {
      const bool same = p > 0 && cut.works[p] == cut.works[p - 1];
      groups.push_back(p == 0 ? 0 : groups.back() + (same ? 0 : 1));
    }
  } else {
    cut.part_of = CutAtBlocks(graph);
    groups.assign(cut.part_of.empty() ? 0 : static_cast<size_t>(cut.part_of.back()) + 1, 0);
  }
  if (zero.chunks().empty()) {
    cut.passes = PassPerPart(static_cast<int>(groups.size()));
    return cut;
  }
  ASSIGN_OR_RETURN(ChunkedGraph chunked, ReadChunks(graph, zero, std::move(cut.part_of), groups));
  RETURN_IF_ERROR(DumpText(options, name + ".chunks", ToText(chunked.graph)));
  cut.chunked = std::move(chunked.graph);
  cut.part_of = std::move(chunked.part_of);
  cut.passes = std::move(chunked.passes);
  return cut;
}

// `sums`: gets the graph that makes the finished sums.
absl::Status AddMicroBatches(const LocalTraining& training, const Plan& plan,
                             const TrainingOptions& options, const Device& device,
                             StepBuilder& step, Graph& sums, PipelineCalls* known) {
  ASSIGN_OR_RETURN(MicroBatches made, AddVariants(training, plan, options.compile, device, step));
  if (!training.tied.empty()) {
    ASSIGN_OR_RETURN(made.last_graph,
                     WithArrivingSums(made.last_graph, training.tied, *training.pipeline));
  }
  ASSIGN_OR_RETURN(BlockReductions reductions,
                   AddReductions(training, plan, options.compile, device, made.last_graph,
                                 made.last, step));
  if (plan.update == UpdateTime::kLayerwise) {
    ASSIGN_OR_RETURN(reductions,
                     AddLayerUpdates(training, plan, options, device, made.last_graph, made.last,
                                     std::move(reductions), step));
  }
  if (training.pipeline) {
    const StagePipeline& pipeline = *training.pipeline;
    ASSIGN_OR_RETURN(MessageSegments segments,
                     AddMessageSegments(made.last.messages, pipeline, "", /*fetched=*/false, step));
    const auto variant = [&](int m) -> const StageVariant& {
      return made.Of(m, plan.micro_batches);
    };
    std::vector<BlockCall> calls =
        TrainingCalls(pipeline, made.last.messages, segments, variant);
    if (known != nullptr) *known = PipelineCalls::Of(calls, segments, variant);
    RETURN_IF_ERROR(AddTiedCalls(training, made.last_graph, calls, step));
    AddBlockCalls(step, calls, kAccumulatePhase, reductions, &made.last.calls,
                  static_cast<int>(plan.micro_batches) - 1);
  } else if (plan.accumulation_order == AccumulationOrder::kVertical) {
    AddBlockCalls(step, VerticalCalls(made.Order(plan.micro_batches)), kAccumulatePhase, reductions,
                  &made.last.calls, static_cast<int>(plan.micro_batches) - 1);
  } else {
    AddBlockCalls(step, made.Order(plan.micro_batches), kAccumulatePhase, reductions);
  }
  sums = std::move(made.last_graph);
  return absl::OkStatus();
}

}  // namespace

std::string LayerSquaresName(absl::string_view part) {
  return absl::StrCat("sum_squares.", part);
}

std::vector<ParameterGradients> LocalTraining::own() const {
  if (!pipeline) return parameters;
  std::vector<ParameterGradients> held;
  for (const ParameterGradients& parameter : parameters) {
    const std::vector<int>& stages = uses.of_state.at(parameter.state);
    if (std::count(stages.begin(), stages.end(), pipeline->stage) > 0) held.push_back(parameter);
  }
  return held;
}

std::vector<ParameterGradients> LocalTraining::owned() const {
  std::vector<ParameterGradients> first;
  for (const ParameterGradients& parameter : own()) {
    if (!pipeline || uses.of_state.at(parameter.state).front() == pipeline->stage) {
      first.push_back(parameter);
    }
  }
  return first;
}

absl::StatusOr<Variant> AddVariant(const Graph& graph, const ZeroLayout& zero,
                                   const StagePipeline* pipeline, const std::string& name,
                                   const CompileOptions& options, const Device& device,
                                   StepBuilder& step, bool gathered_once) {
  Variant variant;
  ASSIGN_OR_RETURN(VariantCut cut, CutVariant(graph, zero, pipeline, name, options));
  const Graph& read = cut.chunked ? *cut.chunked : graph;
  ASSIGN_OR_RETURN(std::vector<Segment> segments, CutIntoSegments(read, cut.part_of));
  variant.works = std::move(cut.works);
  if (pipeline != nullptr) {
    variant.messages = pipeline->meshes
                           ? pipeline->messages
                           : FindMessages(segments, variant.works, pipeline->stage_of);
  }
  for (Segment& segment : segments) {
    const size_t part = variant.calls.segments.size();
    if (pipeline != nullptr && !pipeline->OnStage(variant.works[part].part)) {
      variant.calls.segments.push_back(-1);
      continue;
    }
    for (const Output& output : segment.graph->outputs()) {
      variant.part_of_output[output.name] = static_cast<int>(part);
    }
    for (const State& state : segment.graph->states()) {
      variant.last_part_of_state[state.info.name] = static_cast<int>(part);
    }
    ASSIGN_OR_RETURN(Segment fused, FusedSegment(std::move(segment), name, options, device));
    variant.calls.segments.push_back(
        step.AddSegment(WithCarries(graph, std::move(fused), pipeline, gathered_once)));
  }
  variant.calls.passes = std::move(cut.passes);
  for (size_t p = 0; p < variant.calls.passes.size(); ++p) {
    const BlockPass& pass = variant.calls.passes[p];
    variant.calls.gathers.push_back(-1);
    if (pass.gathered.empty()) continue;
    if (variant.calls.segments[static_cast<size_t>(pass.first_part)] < 0) continue;
    StepSegment gather;
    ASSIGN_OR_RETURN(gather.segment, GatherSegment(zero, pass, static_cast<int>(p)));
    gather.link = true;
    variant.calls.gathers.back() = step.AddSegment(std::move(gather));
  }
  return variant;
}

absl::Status AddForwardStages(const Graph& graph, const ZeroLayout& zero,
                              const StagePipeline& pipeline, const std::string& name,
                              const CompileOptions& options, const Device& device, int micro_batch,
                              int phase, StepBuilder& step) {
  ASSIGN_OR_RETURN(Variant variant,
                   AddVariant(graph, zero, &pipeline, name, options, device, step));
  const std::vector<Message> outputs =
      pipeline.meshes ? pipeline.outputs_to_all
                      : OutputsToAll(graph, FindStageUses(graph, pipeline), pipeline.stages);
  ASSIGN_OR_RETURN(MessageSegments segments,
                   AddMessageSegments(variant.messages, pipeline, name, /*fetched=*/false, step));
  ASSIGN_OR_RETURN(MessageSegments to_all, AddMessageSegments(outputs, pipeline, name + ".out",
                                                              /*fetched=*/true, step));
  AddBlockCalls(step, ForwardCalls(variant, pipeline, segments, to_all, micro_batch), phase, {},
                nullptr, micro_batch);
  return absl::OkStatus();
}

absl::Status AddTrainingCalls(const LocalTraining& training, const Plan& plan,
                              const TrainingOptions& options, const Device& device,
                              StepBuilder& step, PipelineCalls* known) {
  Graph sums;
  RETURN_IF_ERROR(AddMicroBatches(training, plan, options, device, step, sums, known));
  if (plan.update == UpdateTime::kLayerwise) return absl::OkStatus();
  return AddMeasureAndUpdate(training, plan, options, sums, device, step);
}

}  // namespace colossus
