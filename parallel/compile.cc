#include "parallel/compile.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/file_system.h"
#include "base/status.h"
#include "parallel/choose_recomputation.h"
#include "parallel/fit_schedule.h"
#include "parallel/micro_batch_graph.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/rank_graph.h"
#include "parallel/recompute_layers.h"
#include "parallel/stages/split_stages.h"
#include "parallel/stages/stage_pipeline.h"
#include "parallel/stages/tied_sums.h"
#include "parallel/training_step.h"
#include "parallel/zero/block_calls.h"
#include "parallel/zero/layout.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/segment.h"
#include "tensor/exec/step.h"
#include "tensor/graph/text.h"
#include "tensor/passes/autodiff.h"
#include "tensor/passes/common_subexpressions.h"
#include "tensor/passes/dead_code.h"
#include "tensor/passes/pass.h"
#include "tensor/passes/recompute.h"

namespace colossus {
namespace {

ForwardOptions TrainingForward(const Plan& plan) {
  ForwardOptions forward;
  forward.rows = plan.micro_batch;
  forward.length = plan.sequence_length;  // of tokens; the graph's is set by ToMesh
  forward.compute = plan.precision.compute;
  forward.gradients = true;
  forward.packed = plan.packed;
  forward.dropout = plan.dropout;
  return forward;
}

// From what a rank along "data" is given to the whole mesh: all rows, positions in the plan's order
// and widths padded so that they can be split.
ForwardOptions ToMesh(ForwardOptions forward, const Plan& plan) {
  forward.rows *= plan.AxisSize("data");
  forward.vocabulary_multiple = forward.mlp_multiple = plan.AxisMultiple("tensor");
  // A cache has its tokens in order.
  if (plan.whole_rows() || forward.cache_capacity > 0) return forward;
  forward.padding = plan.padded_length() - forward.length;
  forward.length = plan.padded_length();
  forward.order = plan.Order();
  return forward;
}

std::vector<std::string> LayerBlocks(const ModelConfig& config) {
  std::vector<std::string> blocks;
  for (int64_t layer = 0; layer < config.layers; ++layer) blocks.push_back(LayerBlock(layer));
  return blocks;
}

// nullptr: nothing is recomputed.
Pass RecomputePass(const ModelConfig& config, const Plan& plan, const CompileOptions& options) {
  std::vector<std::string> blocks = LayerBlocks(config);
  switch (plan.recomputation) {
    case Recomputation::kNone:
      return nullptr;
    case Recomputation::kCheap:
      return [](const Graph& graph) { return RecomputeCheap(graph); };
    case Recomputation::kSelective:
      return [](const Graph& graph) { return RecomputeSelective(graph); };
    case Recomputation::kOptimal:
      return [blocks = std::move(blocks), rates = options.program.rates,
              budget = plan.recompute_budget_bytes](const Graph& graph) {
        return RecomputeWithin(graph, blocks, rates, budget);
      };
    case Recomputation::kBlock:
    case Recomputation::kAuto:  // has been decided
      break;
  }
  return [blocks = std::move(blocks)](const Graph& graph) { return Recompute(graph, blocks); };
}

// Ranks dump beside each other.
CompileOptions OptionsOf(const CompileOptions& options, const MeshPlace& place) {
  CompileOptions own = options;
  if (!own.dump_graphs.empty() && !place.alone()) {
    own.dump_graphs = JoinPath(own.dump_graphs, absl::StrCat("rank-", place.rank_of_job()));
  }
  return own;
}

// The order of the passes is the design:
//  - autodiff first, on the whole graph, so that every later rewrite sees gradients as ordinary
//    nodes;
//  - common subexpressions once, here: what later passes duplicate, they duplicate on purpose;
//  - dead code before recomputation, so that nothing is recomputed for nobody; recomputation marks
//    its clones, and dead code after it drops what they replaced.
absl::StatusOr<Differentiated> Differentiate(const ModelConfig& config, const Plan& plan,
                                             const CompileOptions& options) {
  ASSIGN_OR_RETURN(Graph forward, BuildForward(config, ToMesh(TrainingForward(plan), plan)));
  ASSIGN_OR_RETURN(Differentiated differentiated, Autodiff(forward, forward.FindOutput("loss_sum"),
                                                           forward.FindValue("loss_seed")));
  PassPipeline pipeline;
  pipeline.Add("common_subexpressions", CommonSubexpressions);
  pipeline.Add("dead_code", DeadCode);
  if (Pass recompute = RecomputePass(config, plan, options)) {
    pipeline.Add("recompute", std::move(recompute));
    pipeline.Add("dead_code_after_recompute", DeadCode);
  }
  PassOptions pass_options;
  pass_options.dump_folder = options.dump_graphs;
  pass_options.dump_prefix = "train.";
  ASSIGN_OR_RETURN(Rewritten rewritten, pipeline.Run(differentiated.graph, pass_options));
  // Values have new ids: from here on gradients are found by the outputs' names.
  differentiated.graph = std::move(rewritten.graph);
  return differentiated;
}

// Of each stage its own graph, on its own mesh. The graph is cut before it is partitioned, since no
// layout of a value would do for two meshes.
absl::Status SplitOwnMeshes(const ModelConfig& config, const Plan& plan,
                            const TrainingOptions& options, const Graph& whole,
                            LocalTraining& training) {
  ASSIGN_OR_RETURN(training.pipeline,
                   StagePipeline::Make(plan, config, whole, training.place.stage(),
                                       options.optimizer, options.pipeline));
  training.uses = FindStageUses(whole, *training.pipeline);
  training.tied = FindTiedSums(whole, training.parameters, training.uses);
  ASSIGN_OR_RETURN(training.local, SplitStages(whole, training.parameters, plan, config,
                                               training.place, *training.pipeline));
  const int stage = training.pipeline->stage;
  const StageMeshes& meshes = *training.pipeline->meshes;
  for (const TiedSum& tied : training.tied) {
    if (std::count(tied.holders.begin(), tied.holders.end(), stage) == 0) continue;
    Sharding& arriving = training.local.outputs[tied.gradient];
    training.made_sums[tied.gradient] = arriving;
    arriving = meshes.Of(stage, {SumName(tied.gradient), tied.type}).sharding;
  }
  return absl::OkStatus();
}

// After autodiff and the passes that look at the whole model, so that gradients and clones are
// split like everything else; before the micro-batch variants, which add up local parts.
absl::StatusOr<LocalTraining> SplitTraining(const ModelConfig& config, const Plan& plan,
                                            const TrainingOptions& options, Differentiated whole,
                                            MeshPlace place) {
  LocalTraining training;
  for (const State& state : whole.graph.states()) {
    training.job.push_back({state.info, whole.graph.value(state.in).type.dtype});
  }
  training.parameters = std::move(whole.parameters);
  training.place = std::move(place);
  if (training.place.own_mesh) {
    RETURN_IF_ERROR(SplitOwnMeshes(config, plan, options, whole.graph, training));
  } else {
    ASSIGN_OR_RETURN(training.local, RankGraph(std::move(whole.graph), training.parameters, plan,
                                               config, training.place));
  }
  if (training.place.alone()) return training;
  RETURN_IF_ERROR(DumpText(options.compile, "train.rank", ToText(training.local.graph)));
  // A stage owns what its part of the model reads; of one mesh the graph stays whole until it is
  // cut.
  if (plan.stages.size() > 1 && !training.place.own_mesh) {
    ASSIGN_OR_RETURN(training.pipeline,
                     StagePipeline::Make(plan, config, training.local.graph,
                                         training.place.stage(), options.optimizer,
                                         options.pipeline));
    training.uses = FindStageUses(training.local.graph, *training.pipeline);
  }
  if (training.pipeline) SetStages(training.uses, *training.pipeline, training.local.states);
  if (ZeroLayout::Applies(training.place.mesh)) {
    ASSIGN_OR_RETURN(training.zero,
                     ZeroLayout::Make(training.local, training.parameters, training.place.mesh,
                                      training.place.rank,
                                      {plan.zero, plan.precision.compute, plan.chunk_elements}));
    RETURN_IF_ERROR(DumpText(options.compile, "train.chunks", training.zero.ToText()));
  }
  std::erase_if(training.local.states, [](const LocalState& state) { return !state.held(); });
  return training;
}

// A forward graph of this rank. `forward`: with the rows of a rank along "data". `stages`: of
// different meshes; if they have not been cut yet, they are.
absl::StatusOr<Partitioned> ForwardGraph(const ModelConfig& config, ForwardOptions forward,
                                         const Plan& plan, const MeshPlace& place,
                                         const std::string& name, const CompileOptions& options,
                                         StagePipeline* stages = nullptr) {
  forward = ToMesh(std::move(forward), plan);
  ASSIGN_OR_RETURN(Graph built, BuildForward(config, forward));
  PassPipeline pipeline;
  pipeline.Add("common_subexpressions", CommonSubexpressions);
  pipeline.Add("dead_code", DeadCode);
  PassOptions pass_options;
  pass_options.dump_folder = options.dump_graphs;
  pass_options.dump_prefix = name + ".";
  ASSIGN_OR_RETURN(Rewritten rewritten, pipeline.Run(built, pass_options));
  Partitioned local;
  if (place.own_mesh) {
    if (stages->stage_of.empty()) {
      *stages = StagePipeline::MakeForward(plan, config, rewritten.graph, place.stage());
    }
    ASSIGN_OR_RETURN(local, SplitStages(rewritten.graph, {}, plan, config, place, *stages));
    SetStages(FindStageUses(rewritten.graph, *stages), *stages, local.states);
  } else {
    ASSIGN_OR_RETURN(local, RankGraph(std::move(rewritten.graph), {}, plan, config, place));
  }
  if (!place.alone()) RETURN_IF_ERROR(DumpText(options, name + ".rank", ToText(local.graph)));
  return local;
}

// The same as one segment whose outputs are all fetched, and this rank's states.
struct ForwardPart {
  StepSegment segment;
  std::vector<LocalState> states;
};

absl::StatusOr<ForwardPart> CompilePart(const ModelConfig& config, const ForwardOptions& forward,
                                        const Plan& plan, const MeshPlace& place,
                                        const std::string& name, const CompileOptions& options,
                                        const Device& device) {
  ASSIGN_OR_RETURN(Partitioned local, ForwardGraph(config, forward, plan, place, name, options));
  ForwardPart part;
  part.states = std::move(local.states);
  for (const Output& output : local.graph.outputs()) part.segment.fetched.push_back(output.name);
  ASSIGN_OR_RETURN(part.segment.segment,
                   FusedSegment({name, std::make_shared<const Graph>(std::move(local.graph))},
                                "infer", options, device));
  return part;
}

// Its feeds have the names of the micro-batches', and wait for it alone. Cut into blocks only where
// these are gathered one by one.
absl::Status AddValidation(const ModelConfig& config, const Plan& plan,
                           const LocalTraining& training, const CompileOptions& options,
                           const Device& device, StepBuilder& step) {
  ForwardOptions forward = TrainingForward(plan);
  forward.gradients = false;
  forward.dropout = false;
  if (training.zero.chunks().empty() && !training.pipeline) {
    ASSIGN_OR_RETURN(ForwardPart part, CompilePart(config, forward, plan, training.place,
                                                   "validate", options, device));
    step.AddCall(step.AddSegment(std::move(part.segment)), kValidateMicroBatch, kValidatePhase);
    return absl::OkStatus();
  }
  std::optional<StagePipeline> pipeline = training.pipeline;
  ASSIGN_OR_RETURN(Partitioned local,
                   ForwardGraph(config, forward, plan, training.place, "validate", options,
                                pipeline ? &*pipeline : nullptr));
  if (pipeline) {
    return AddForwardStages(local.graph, training.zero, *pipeline, "validate", options, device,
                            kValidateMicroBatch, kValidatePhase, step);
  }
  ASSIGN_OR_RETURN(Variant variant, AddVariant(local.graph, training.zero, nullptr, "validate",
                                               options, device, step));
  AddBlockCalls(step, {{&variant.calls, kValidateMicroBatch}}, kValidatePhase);
  return absl::OkStatus();
}

// This rank's part of every state of the job: an optimizer's states lie as their parameters.
std::vector<LocalState> StatesOf(const Program& program, const LocalTraining& training,
                                 const Optimizer& optimizer) {
  std::vector<LocalState> states;
  for (const LocalState& parameter : training.local.states) {
    const ChunkedParameter* chunked = training.zero.Find(parameter.info.name);
    for (Role role : StateRoles(optimizer, parameter.type.dtype)) {
      const std::string& name =
          chunked == nullptr ? parameter.info.name : training.zero.chunks()[chunked->chunk].name;
      const StateHome* home = program.plan().FindState(StateName(role, name));
      if (home == nullptr) continue;  // of a frozen parameter
      LocalState state = parameter;
      state.info.name = StateName(role, parameter.info.name);
      state.info.role = role;
      state.type.dtype = home->type.dtype;
      states.push_back(std::move(state));
    }
  }
  return states;
}

// Those of all stages: what is not updated is a parameter alone.
std::vector<JobState> JobStatesOf(const LocalTraining& training, const Optimizer& optimizer) {
  std::set<std::string> updated;
  for (const ParameterGradients& parameter : training.parameters) updated.insert(parameter.state);
  std::vector<JobState> states;
  for (const JobState& parameter : training.job) {
    for (Role role : StateRoles(optimizer, parameter.dtype)) {
      if (role != Role::kParameter && updated.count(parameter.info.name) == 0) continue;
      JobState state = parameter;
      state.dtype = StateDType(optimizer, role, parameter.dtype);
      state.info.name = StateName(role, parameter.info.name);
      state.info.role = role;
      states.push_back(std::move(state));
    }
  }
  return states;
}

// A forward graph of this rank's stage as the calls of a phase; `states`: this stage's.
absl::Status AddForwardPipeline(const ModelConfig& config, const ForwardOptions& forward,
                                const Plan& plan, const MeshPlace& place, const std::string& name,
                                const CompileOptions& options, const Device& device,
                                StepBuilder& step, std::vector<LocalState>& states) {
  StagePipeline pipeline;
  ASSIGN_OR_RETURN(Partitioned local,
                   ForwardGraph(config, forward, plan, place, name, options, &pipeline));
  if (!place.own_mesh) {
    pipeline = StagePipeline::MakeForward(plan, config, local.graph, place.stage());
    SetStages(FindStageUses(local.graph, pipeline), pipeline, local.states);
  }
  std::erase_if(local.states, [](const LocalState& state) { return !state.held(); });
  states = std::move(local.states);
  return AddForwardStages(local.graph, ZeroLayout(), pipeline, name, options, device,
                          /*micro_batch=*/0, /*phase=*/0, step);
}

absl::StatusOr<std::unique_ptr<Program>> CompileInOrder(const ModelConfig& config, Plan plan,
                                                        AccumulationOrder order,
                                                        const LocalTraining& local,
                                                        const TrainingOptions& options,
                                                        Device& device, PipelineCalls& calls) {
  plan.accumulation_order = order;
  std::vector<std::string> phases = {"accumulate", "measure", "update"};
  if (options.validation) phases.push_back("validate");
  StepBuilder builder(phases);
  builder.PhaseFollows(kMeasurePhase);
  builder.PhaseFollows(kUpdatePhase);
  RETURN_IF_ERROR(AddTrainingCalls(local, plan, options, device, builder, &calls));
  if (options.validation) {
    RETURN_IF_ERROR(AddValidation(config, plan, local, options.compile, device, builder));
  }
  ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
  return Program::Compile(std::move(step), device, options.compile.program);
}

// The order where there is nothing to compare, and why.
struct FixedOrder {
  AccumulationOrder order = AccumulationOrder::kHorizontal;
  std::string why;  // empty: the plan says so
};

// None: both may be compared.
std::optional<FixedOrder> OrderWithoutChoice(const Plan& plan, const LocalTraining& local,
                                             const ProgramOptions& options) {
  if (plan.accumulation_order != AccumulationOrder::kAuto) {
    return FixedOrder{plan.accumulation_order, ""};
  }
  if (plan.update == UpdateTime::kLayerwise) {
    return FixedOrder{AccumulationOrder::kVertical,
                      "in the other order layer-wise updates would keep gradients of all layers"};
  }
  if (local.pipeline) {
    return FixedOrder{AccumulationOrder::kHorizontal, "a pipeline's schedule orders micro-batches"};
  }
  if (!local.place.alone()) {
    return FixedOrder{AccumulationOrder::kHorizontal, "on several ranks all must have the same"};
  }
  if (options.placer == nullptr) {
    return FixedOrder{AccumulationOrder::kHorizontal, "nothing streams"};
  }
  if (plan.micro_batches == 1) return FixedOrder{};
  return std::nullopt;
}

// Which blocks a pipeline's stages have, where the plan leaves it open.
std::string BordersText(const ModelConfig& config, const StagePipeline& pipeline) {
  return absl::StrCat("borders not given: by predicted times parts begin at ",
                      absl::StrJoin(BordersOf(ModelBlocks(config), pipeline.cut), ","),
                      "; they are with stages ", absl::StrJoin(pipeline.stage_of, ","));
}

// What a searched order went by. `fits`: the room for it was enough.
std::string ScheduleText(const StagePipeline& pipeline, const PipelineFacts& facts, bool fits) {
  const TimelineFigures figures = Measure(pipeline.timeline, pipeline.costs);
  std::string text = absl::StrFormat(
      "schedule=searched went by %s times: %.4g s an update, bubbles %.1f%%",
      facts.measured ? "measured" : "predicted", figures.makespan, 100 * figures.bubble_rate);
  if (!facts.room || facts.room->empty()) return text;
  absl::StrAppend(&text, "; stages keep at most ",
                  absl::StrJoin(*facts.room, ", ",
                                [](std::string* out, double kept) {
                                  absl::StrAppendFormat(out, "%.3g", kept);
                                }),
                  " micro-batches' activations, ",
                  fits ? "since the device has no room for more"
                       : "as 1f1b does: the rest is up to placement");
  return text;
}

std::string OrderText(AccumulationOrder order, absl::string_view why) {
  return absl::StrCat("accumulation_order=auto chose ", Name(order), ": ", why);
}

// Of the orders that an automatic one may be, the one that moves less: vertical keeps more
// activations, horizontal more sums of gradients, and loads what it does not keep once for every
// micro-batch. On several ranks horizontal, since all must have the same. Fills of `training` the
// order of a pipeline and the choice.
absl::StatusOr<std::unique_ptr<Program>> CompileBestOrder(const ModelConfig& config,
                                                          const Plan& plan,
                                                          const LocalTraining& local,
                                                          const TrainingOptions& options,
                                                          Device& device,
                                                          CompiledTraining& training) {
  auto compile = [&](AccumulationOrder order) {
    return CompileInOrder(config, plan, order, local, options, device, training.calls);
  };
  auto chose = [&](AccumulationOrder order, absl::string_view why) {
    training.choices.push_back(OrderText(order, why));
  };
  if (const auto fixed = OrderWithoutChoice(plan, local, options.compile.program)) {
    if (!fixed->why.empty() && plan.micro_batches > 1) chose(fixed->order, fixed->why);
    return compile(fixed->order);
  }
  constexpr AccumulationOrder kHorizontal = AccumulationOrder::kHorizontal;
  constexpr AccumulationOrder kVertical = AccumulationOrder::kVertical;
  absl::StatusOr<std::unique_ptr<Program>> horizontal = compile(kHorizontal);
  if (horizontal.ok() && BytesOverLink(**horizontal) == 0) {
    chose(kHorizontal, "nothing moves over the link");
    return horizontal;
  }
  absl::StatusOr<std::unique_ptr<Program>> vertical = compile(kVertical);
  if (!horizontal.ok() && !vertical.ok()) return horizontal;
  auto moves = [](const absl::StatusOr<std::unique_ptr<Program>>& program) {
    return program.ok() ? absl::StrCat("moves ", BytesOverLink(**program), " bytes over the link")
                        : "does not fit";
  };
  const bool take = vertical.ok() &&
                    (!horizontal.ok() || BytesOverLink(**vertical) < BytesOverLink(**horizontal));
  chose(take ? kVertical : kHorizontal,
        absl::StrCat("an update ", moves(take ? vertical : horizontal), ", ",
                     Name(take ? kHorizontal : kVertical), " ",
                     moves(take ? horizontal : vertical)));
  return take ? std::move(vertical) : std::move(horizontal);
}

}  // namespace

int64_t BytesOverLink(const Program& training) {
  TierTraffic traffic;
  for (int phase : {kAccumulatePhase, kMeasurePhase, kUpdatePhase}) {
    traffic += TrafficOf(training.plan(), phase);
  }
  return Total(traffic.host_to_device) + Total(traffic.device_to_host);
}

absl::StatusOr<LayerBytes> BytesOfLayers(const ModelConfig& config, const Plan& plan,
                                         const CompileOptions& options) {
  Plan kept = plan;
  kept.recomputation = Recomputation::kNone;
  ASSIGN_OR_RETURN(const Differentiated whole, Differentiate(config, kept, options));
  return BytesOfLayers(whole.graph, LayerBlocks(config), options.program.rates);
}

absl::StatusOr<CompiledTraining> CompileTraining(const ModelConfig& config, const Plan& given,
                                                 const TrainingOptions& all_options, Device& device,
                                                 int rank) {
  RETURN_IF_ERROR(Validate(given, config));
  CompiledTraining training;
  Plan plan = given.OfStage(given.StageOfRank(rank));
  TrainingOptions options = all_options;
  PipelineFacts& facts = options.pipeline;
  if (!facts.device_bytes) facts.device_bytes = device.capacity_bytes();
  if (IsChosen(plan)) {
    ASSIGN_OR_RETURN(RecomputationChoice choice,
                     ChooseRecomputation(config, plan, options, device));
    plan = std::move(choice.plan);
    training.choices.push_back(std::move(choice.why));
  }
  ScheduleFit fit;
  if (IsSearched(plan) && !facts.room) {
    ASSIGN_OR_RETURN(fit, FitSchedule(config, plan, options, device));
    facts.room = fit.room;
  }
  training.recomputation = plan.recomputation;
  training.recompute_budget_bytes = plan.recompute_budget_bytes;
  ASSIGN_OR_RETURN(training.place, MeshPlace::Of(plan, config, rank));
  options.compile = OptionsOf(all_options.compile, training.place);
  ASSIGN_OR_RETURN(Differentiated differentiated, Differentiate(config, plan, options.compile));
  ASSIGN_OR_RETURN(LocalTraining local, SplitTraining(config, plan, options,
                                                      std::move(differentiated), training.place));
  for (const JobState& parameter : local.job) training.parameters.push_back(parameter.info);
  for (const ParameterGradients& parameter : local.parameters) {
    training.with_gradients.push_back(parameter.state);
  }
  if (local.pipeline && plan.borders.empty()) {
    training.choices.push_back(BordersText(config, *local.pipeline));
  }
  ASSIGN_OR_RETURN(training.program,
                   CompileBestOrder(config, plan, local, options, device, training));
  RETURN_IF_ERROR(DumpText(options.compile, "train.memory_plan", ToText(training.program->plan())));
  training.states = StatesOf(*training.program, local, options.optimizer);
  training.job_states = JobStatesOf(local, options.optimizer);
  training.zero = std::move(local.zero);
  training.pipeline = std::move(local.pipeline);
  if (IsSearched(plan)) {
    training.choices.push_back(ScheduleText(*training.pipeline, facts, fit.fits));
  }
  return training;
}

absl::StatusOr<RankProgram> CompileForward(const ModelConfig& config, const ForwardOptions& forward,
                                           const Plan& plan, const CompileOptions& all_options,
                                           Device& device, int rank) {
  Plan sized = plan.OfStage(plan.StageOfRank(rank));
  sized.sequence_length = forward.length;
  RankProgram run;
  ASSIGN_OR_RETURN(run.place, MeshPlace::Of(sized, config, rank));
  const CompileOptions options = OptionsOf(all_options, run.place);
  StepBuilder builder({"run"});
  if (sized.stages.size() > 1) {
    RETURN_IF_ERROR(AddForwardPipeline(config, forward, sized, run.place, "forward", options,
                                       device, builder, run.states));
  } else {
    ASSIGN_OR_RETURN(ForwardPart part,
                     CompilePart(config, forward, sized, run.place, "forward", options, device));
    run.states = std::move(part.states);
    builder.AddCall(builder.AddSegment(std::move(part.segment)), 0, 0);
  }
  ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
  ASSIGN_OR_RETURN(run.program, Program::Compile(std::move(step), device, options.program));
  RETURN_IF_ERROR(DumpText(options, "forward.memory_plan", ToText(run.program->plan())));
  return run;
}

absl::StatusOr<std::unique_ptr<Program>> CompileForward(const ModelConfig& config,
                                                        const ForwardOptions& forward,
                                                        const CompileOptions& options,
                                                        Device& device) {
  ASSIGN_OR_RETURN(RankProgram run, CompileForward(config, forward, Plan(), options, device, 0));
  return std::move(run.program);
}

absl::Status SetParameters(const RankProgram& run, const TypedReader& read) {
  for (const LocalState& state : run.states) {
    if (state.info.role != Role::kParameter) continue;
    ASSIGN_OR_RETURN(const HostTensor values, read(state.info, state.type.dtype));
    RETURN_IF_ERROR(run.program->WriteState(
        state.info.name, run.place.alone() ? values : CutOut(values, state.slice)));
  }
  return absl::OkStatus();
}

absl::StatusOr<RankProgram> CompileDecoder(const ModelConfig& config, const DecoderShape& shape,
                                           const Plan& plan, const CompileOptions& all_options,
                                           Device& device, int rank) {
  if (plan.AxisSize("sequence") > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: mesh axis sequence=", plan.AxisSize("sequence"),
                     " does not go with generation; use tensor"));
  }
  if (plan.stages.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("plan: mesh axis stage=", plan.AxisSize("stage"),
                                                   " does not go with generation; use tensor"));
  }
  ForwardOptions forward;
  forward.rows = shape.rows;
  forward.compute = shape.compute;
  forward.loss = false;
  forward.logits = true;
  forward.cache_capacity = shape.capacity;
  RankProgram run;
  ASSIGN_OR_RETURN(run.place, MeshPlace::Of(plan, config, rank));
  const CompileOptions options = OptionsOf(all_options, run.place);
  StepBuilder builder({"prefill", "decode"});
  // A phase is its own micro-batch: both have feeds of the same names, of other sizes. Parameters
  // and caches are states, which the segments of a step share by name.
  for (int phase : {kPrefillPhase, kDecodePhase}) {
    forward.length = phase == kPrefillPhase ? shape.chunk : 1;
    const std::string name = phase == kPrefillPhase ? "prefill" : "decode";
    ASSIGN_OR_RETURN(ForwardPart part,
                     CompilePart(config, forward, plan, run.place, name, options, device));
    run.states = std::move(part.states);  // the same in both
    builder.AddCall(builder.AddSegment(std::move(part.segment)), phase, phase);
  }
  ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
  ASSIGN_OR_RETURN(run.program, Program::Compile(std::move(step), device, options.program));
  RETURN_IF_ERROR(DumpText(options, "decode.memory_plan", ToText(run.program->plan())));
  return run;
}

absl::StatusOr<std::unique_ptr<Program>> CompileDecoder(const ModelConfig& config,
                                                        const DecoderShape& shape,
                                                        const CompileOptions& options,
                                                        Device& device) {
  ASSIGN_OR_RETURN(RankProgram run, CompileDecoder(config, shape, Plan(), options, device, 0));
  return std::move(run.program);
}

}  // namespace colossus
