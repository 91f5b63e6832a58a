#include "parallel/compile.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status.h"
#include "parallel/micro_batch_graph.h"
#include "parallel/rank_graph.h"
#include "parallel/update_graph.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/segment.h"
#include "tensor/exec/step.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/kernel.h"
#include "tensor/ops/chain.h"
#include "tensor/passes/autodiff.h"
#include "tensor/passes/common_subexpressions.h"
#include "tensor/passes/dead_code.h"
#include "tensor/passes/fusion.h"
#include "tensor/passes/pass.h"
#include "tensor/passes/recompute.h"

namespace colossus {
namespace {

ForwardOptions TrainingForward(const Plan& plan) {
  ForwardOptions forward;
  forward.rows = plan.micro_batch;
  forward.length = plan.sequence_length;
  forward.compute = plan.precision.compute;
  forward.gradients = true;
  forward.packed = plan.packed;
  forward.dropout = plan.dropout;
  return forward;
}

// nullptr: nothing is recomputed.
Pass RecomputePass(const ModelConfig& config, Recomputation recomputation) {
  switch (recomputation) {
    case Recomputation::kNone: return nullptr;
    case Recomputation::kCheap: return RecomputeCheap;
    case Recomputation::kBlock: break;
  }
  std::vector<std::string> blocks;
  for (int64_t layer = 0; layer < config.layers; ++layer) blocks.push_back(LayerBlock(layer));
  return [blocks](const Graph& graph) { return Recompute(graph, blocks); };
}

// Ranks dump beside each other.
CompileOptions OptionsOf(const CompileOptions& options, const MeshPlace& place) {
  CompileOptions own = options;
  if (!own.dump_graphs.empty() && !place.alone()) {
    own.dump_graphs = JoinPath(own.dump_graphs, absl::StrCat("rank-", place.rank));
  }
  return own;
}

absl::Status Dump(const CompileOptions& options, const std::string& name,
                  const std::string& text) {
  if (options.dump_graphs.empty()) return absl::OkStatus();
  FileSystem& files = RealFileSystem();
  RETURN_IF_ERROR(files.MakeDirs(options.dump_graphs));
  return files.WriteFileAtomically(JoinPath(options.dump_graphs, name + ".txt"), text);
}

// The order of the passes is the design:
//  - autodiff first, on the whole graph, so that every later rewrite sees gradients as ordinary
//    nodes;
//  - common subexpressions once, here: what later passes duplicate, they duplicate on purpose;
//  - dead code before recomputation, so that nothing is recomputed for nobody; recomputation marks
//    its clones, and dead code after it drops what they replaced.
absl::StatusOr<Differentiated> Differentiate(const ModelConfig& config, const Plan& plan,
                                             const CompileOptions& options) {
  ForwardOptions whole = TrainingForward(plan);
  whole.rows *= plan.AxisSize("data");
  ASSIGN_OR_RETURN(Graph forward, BuildForward(config, whole));
  ASSIGN_OR_RETURN(Differentiated differentiated,
                   Autodiff(forward, forward.FindOutput("loss_sum"),
                            forward.FindValue("loss_seed")));
  PassPipeline pipeline;
  pipeline.Add("common_subexpressions", CommonSubexpressions);
  pipeline.Add("dead_code", DeadCode);
  if (Pass recompute = RecomputePass(config, plan.recomputation)) {
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

bool ComputesChains(const Device& device, const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op != &ChainOp()) continue;
    const Types operands = graph.OperandTypes(node), results = graph.ResultTypes(node);
    const KernelRequest request{node.op, &node.attributes, operands, results, device.threads()};
    if (!PlanKernel(device.kernels(), request).ok()) return false;
  }
  return true;
}

// Last of all, inside a segment:
//  - after autodiff and recomputation, which look at single ops: a chain has no gradient, and a
//    clone of one would remake more than is needed;
//  - after the micro-batch variants, so that what they add (rounding, the sum so far) joins too;
//  - after the cut: what crosses a border is then an output, so no chain holds nodes of two
//    segments, and a segment means the same with fusion and without.
// A device without a kernel for one of its chains runs a segment op by op.
absl::StatusOr<Segment> Fused(Segment segment, const std::string& name,
                              const CompileOptions& options, const Device& device) {
  if (!options.fusion) return segment;
  PassPipeline pipeline;
  pipeline.Add("fusion", Fusion);
  absl::StatusOr<Rewritten> fused = pipeline.Run(*segment.graph);
  if (!fused.ok()) return Annotate(fused.status(), absl::StrCat("segment ", segment.name));
  if (!ComputesChains(device, fused->graph)) return segment;
  RETURN_IF_ERROR(Dump(options, absl::StrCat(name, ".fused.", segment.name),
                       ToText(fused->graph)));
  segment.graph = std::make_shared<const Graph>(std::move(fused->graph));
  return segment;
}

// Segments of one variant; the segment that makes the loss gives it to the host.
absl::StatusOr<std::vector<int>> AddVariant(const Graph& graph, const std::string& name,
                                            const CompileOptions& options, const Device& device,
                                            StepBuilder& step) {
  ASSIGN_OR_RETURN(std::vector<Segment> segments, CutIntoSegments(graph, CutAtBlocks(graph)));
  std::vector<int> indices;
  for (Segment& cut : segments) {
    ASSIGN_OR_RETURN(Segment segment, Fused(std::move(cut), name, options, device));
    StepSegment added;
    if (segment.graph->FindOutput("loss_sum") != kNoValue) added.fetched = {"loss_sum"};
    for (ValueId feed : segment.graph->feeds()) {
      const std::string& name = segment.graph->value(feed).name;
      const std::string prefix = PreviousName("");
      if (name.compare(0, prefix.size(), prefix) == 0) {
        added.carries.push_back(
            {name, SumName(name.substr(prefix.size())), Carry::From::kPrevious});
      }
    }
    added.segment = std::move(segment);
    indices.push_back(step.AddSegment(std::move(added)));
  }
  return indices;
}

// A model differentiated, as this rank computes it.
struct LocalTraining {
  Partitioned local;
  std::vector<ParameterGradients> parameters;
  MeshPlace place;

  GradientLayout gradients() const { return {place.mesh, local.outputs}; }
};

// After autodiff and the passes that look at the whole model, so that gradients and clones are
// split like everything else; before the micro-batch variants, which add up local parts.
absl::StatusOr<LocalTraining> SplitTraining(const ModelConfig& config, const Plan& plan,
                                            const CompileOptions& options, Differentiated whole,
                                            MeshPlace place) {
  LocalTraining training;
  ASSIGN_OR_RETURN(training.local, RankGraph(std::move(whole.graph), whole.parameters, plan, config,
                                             plan.sequence_length, place));
  training.parameters = std::move(whole.parameters);
  training.place = std::move(place);
  if (training.place.alone()) return training;
  RETURN_IF_ERROR(Dump(options, "train.rank", ToText(training.local.graph)));
  return training;
}

absl::Status AddMicroBatches(const LocalTraining& training, const Plan& plan,
                             const CompileOptions& options, const Device& device,
                             StepBuilder& step, Graph& sample) {
  auto add = [&](MicroBatchVariant variant, const std::string& name,
                 Graph& graph) -> absl::StatusOr<std::vector<int>> {
    ASSIGN_OR_RETURN(graph,
                     MicroBatchGraph(training.local.graph, training.parameters, variant,
                                     plan.precision.gradient, training.gradients()));
    RETURN_IF_ERROR(Dump(options, "train.micro_batch_" + name, ToText(graph)));
    return AddVariant(graph, "train.micro_batch_" + name, options, device, step);
  };
  if (plan.micro_batches == 1) {
    ASSIGN_OR_RETURN(std::vector<int> only, add(MicroBatchVariant::kOnly, "only", sample));
    for (int segment : only) step.AddCall(segment, 0, kAccumulatePhase);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::vector<int> first, add(MicroBatchVariant::kFirst, "first", sample));
  Graph rest_graph;
  ASSIGN_OR_RETURN(std::vector<int> rest, add(MicroBatchVariant::kRest, "rest", rest_graph));
  for (int segment : first) step.AddCall(segment, 0, kAccumulatePhase);
  for (int64_t m = 1; m < plan.micro_batches; ++m) {
    for (int segment : rest) step.AddCall(segment, static_cast<int>(m), kAccumulatePhase);
  }
  return absl::OkStatus();
}

absl::Status AddMeasureAndUpdate(const LocalTraining& training, const Plan& plan,
                                 const TrainingOptions& options, const Graph& micro_batch,
                                 const Device& device, StepBuilder& step) {
  const bool whole = options.fetch_gradients && !training.place.alone();
  ASSIGN_OR_RETURN(Graph measure,
                   MeasureGraph(micro_batch, training.parameters,
                                {plan.precision.gradient, training.gradients(), whole}));
  ASSIGN_OR_RETURN(Graph update, UpdateGraph(measure, training.local.graph, training.parameters,
                                             options.optimizer, plan.precision.compute));
  RETURN_IF_ERROR(Dump(options.compile, "train.measure", ToText(measure)));
  RETURN_IF_ERROR(Dump(options.compile, "train.update", ToText(update)));
  StepSegment measured;
  measured.fetched = {"sum_squares"};
  for (const ParameterGradients& parameter : training.parameters) {
    for (const std::string& name : parameter.outputs) {
      measured.carries.push_back({SumName(name), SumName(name), Carry::From::kLast});
    }
    if (!options.fetch_gradients) continue;
    measured.fetched.push_back(whole ? WholeGradientName(parameter.state)
                                     : GradientName(parameter.state));
  }
  ASSIGN_OR_RETURN(
      measured.segment,
      Fused({"measure", std::make_shared<const Graph>(std::move(measure))}, "train",
            options.compile, device));
  StepSegment updated;
  updated.segment = {"update", std::make_shared<const Graph>(std::move(update))};
  step.AddCall(step.AddSegment(std::move(measured)), -1, kMeasurePhase);
  step.AddCall(step.AddSegment(std::move(updated)), -1, kUpdatePhase);
  return absl::OkStatus();
}

// A forward graph as one segment whose outputs are all fetched, and this rank's states.
struct ForwardPart {
  StepSegment segment;
  std::vector<LocalState> states;
};

// `forward`: with the rows of a rank along "data".
absl::StatusOr<ForwardPart> CompilePart(const ModelConfig& config, ForwardOptions forward,
                                        const Plan& plan, const MeshPlace& place,
                                        const std::string& name, const CompileOptions& options,
                                        const Device& device) {
  forward.rows *= plan.AxisSize("data");
  ASSIGN_OR_RETURN(Graph built, BuildForward(config, forward));
  PassPipeline pipeline;
  pipeline.Add("common_subexpressions", CommonSubexpressions);
  pipeline.Add("dead_code", DeadCode);
  PassOptions pass_options;
  pass_options.dump_folder = options.dump_graphs;
  pass_options.dump_prefix = name + ".";
  ASSIGN_OR_RETURN(Rewritten rewritten, pipeline.Run(built, pass_options));
  ASSIGN_OR_RETURN(Partitioned local, RankGraph(std::move(rewritten.graph), {}, plan, config,
                                                forward.length, place));
  if (!place.alone()) RETURN_IF_ERROR(Dump(options, name + ".rank", ToText(local.graph)));
  ForwardPart part;
  part.states = std::move(local.states);
  for (const Output& output : local.graph.outputs()) part.segment.fetched.push_back(output.name);
  ASSIGN_OR_RETURN(part.segment.segment,
                   Fused({name, std::make_shared<const Graph>(std::move(local.graph))}, "infer",
                         options, device));
  return part;
}

// Its feeds have the names of the micro-batches', and wait for it alone.
absl::Status AddValidation(const ModelConfig& config, const Plan& plan, const MeshPlace& place,
                           const CompileOptions& options, const Device& device,
                           StepBuilder& step) {
  ForwardOptions forward = TrainingForward(plan);
  forward.gradients = false;
  forward.dropout = false;
  ASSIGN_OR_RETURN(ForwardPart part,
                   CompilePart(config, forward, plan, place, "validate", options, device));
  step.AddCall(step.AddSegment(std::move(part.segment)), kValidateMicroBatch, kValidatePhase);
  return absl::OkStatus();
}

// This rank's part of every state of the program: an optimizer's states lie as their parameters.
std::vector<LocalState> StatesOf(const Program& program, const std::vector<LocalState>& parameters,
                                 const Optimizer& optimizer, DType compute) {
  std::vector<LocalState> states;
  for (const LocalState& parameter : parameters) {
    for (Role role : StateRoles(optimizer, compute)) {
      const StateHome* home = program.plan().FindState(StateName(role, parameter.info.name));
      if (home == nullptr) continue;  // of a frozen parameter
      states.push_back({home->info, home->type, parameter.sharding, parameter.slice});
    }
  }
  return states;
}

}  // namespace

absl::StatusOr<CompiledTraining> CompileTraining(const ModelConfig& config, const Plan& plan,
                                                 const TrainingOptions& all_options, Device& device,
                                                 int rank) {
  RETURN_IF_ERROR(Validate(plan, config));
  CompiledTraining training;
  ASSIGN_OR_RETURN(training.place, MeshPlace::Of(plan, config, rank));
  TrainingOptions options = all_options;
  options.compile = OptionsOf(all_options.compile, training.place);
  ASSIGN_OR_RETURN(Differentiated differentiated, Differentiate(config, plan, options.compile));
  ASSIGN_OR_RETURN(LocalTraining local,
                   SplitTraining(config, plan, options.compile, std::move(differentiated),
                                 training.place));
  for (const LocalState& state : local.local.states) training.parameters.push_back(state.info);
  for (const ParameterGradients& parameter : local.parameters) {
    training.with_gradients.push_back(parameter.state);
  }
  // Cut into segments last: every pass above sees the whole graph.
  std::vector<std::string> phases = {"accumulate", "measure", "update"};
  if (options.validation) phases.push_back("validate");
  StepBuilder builder(phases);
  Graph micro_batch;
  RETURN_IF_ERROR(AddMicroBatches(local, plan, options.compile, device, builder, micro_batch));
  RETURN_IF_ERROR(AddMeasureAndUpdate(local, plan, options, micro_batch, device, builder));
  if (options.validation) {
    RETURN_IF_ERROR(
        AddValidation(config, plan, training.place, options.compile, device, builder));
  }
  ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
  ASSIGN_OR_RETURN(training.program,
                   Program::Compile(std::move(step), device, options.compile.program));
  RETURN_IF_ERROR(Dump(options.compile, "train.memory_plan", ToText(training.program->plan())));
  training.states = StatesOf(*training.program, local.local.states, options.optimizer,
                             plan.precision.compute);
  return training;
}

absl::StatusOr<RankProgram> CompileForward(const ModelConfig& config,
                                           const ForwardOptions& forward, const Plan& plan,
                                           const CompileOptions& all_options, Device& device,
                                           int rank) {
  Plan sized = plan;
  sized.sequence_length = forward.length;
  RankProgram run;
  ASSIGN_OR_RETURN(run.place, MeshPlace::Of(sized, config, rank));
  const CompileOptions options = OptionsOf(all_options, run.place);
  ASSIGN_OR_RETURN(ForwardPart part, CompilePart(config, forward, sized, run.place, "forward",
                                                 options, device));
  run.states = std::move(part.states);
  StepBuilder builder({"run"});
  builder.AddCall(builder.AddSegment(std::move(part.segment)), 0, 0);
  ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
  ASSIGN_OR_RETURN(run.program, Program::Compile(std::move(step), device, options.program));
  RETURN_IF_ERROR(Dump(options, "forward.memory_plan", ToText(run.program->plan())));
  return run;
}

absl::StatusOr<std::unique_ptr<Program>> CompileForward(const ModelConfig& config,
                                                        const ForwardOptions& forward,
                                                        const CompileOptions& options,
                                                        Device& device) {
  ASSIGN_OR_RETURN(RankProgram run, CompileForward(config, forward, Plan(), options, device, 0));
  return std::move(run.program);
}

absl::StatusOr<RankProgram> CompileDecoder(const ModelConfig& config, const DecoderShape& shape,
                                           const Plan& plan, const CompileOptions& all_options,
                                           Device& device, int rank) {
  if (plan.AxisSize("sequence") > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: mesh axis sequence=", plan.AxisSize("sequence"),
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
  RETURN_IF_ERROR(Dump(options, "decode.memory_plan", ToText(run.program->plan())));
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
