#include "parallel/training_step.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "parallel/update_graph.h"
#include "parallel/zero/chunk_graphs.h"
#include "parallel/zero/read_chunks.h"
#include "tensor/exec/segment.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

// A segment with the sums of earlier micro-batches that it carries on; the one that makes the loss
// gives it to the host. `gathered_once`: chunks are gathered for the last micro-batch and read by
// all.
StepSegment WithCarries(Segment segment, bool gathered_once) {
  StepSegment added;
  if (segment.graph->FindOutput("loss_sum") != kNoValue) added.fetched = {"loss_sum"};
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
  reductions.overlap = plan.zero != 1;
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
    for (int p : chunk.parameters) {
      for (const std::string& gradient : zero.parameters()[p].gradients) {
        const std::string sum = SumName(gradient);
        reduce.carries.push_back({sum, sum, Carry::From::kLast});
        part = std::max(part, last.part_of_output.at(sum));
      }
    }
    ASSIGN_OR_RETURN(reduce.segment, FusedSegment({absl::StrCat("reduce.", c),
                                                   std::make_shared<const Graph>(std::move(graph))},
                                                  "train", options, device));
    reductions.list.push_back({step.AddSegment(std::move(reduce)), part});
  }
  return reductions;
}

// The variants of an accumulation, and the graph of the one that makes the finished sums.
struct MicroBatches {
  std::vector<std::pair<const BlockVariant*, int>> Order(int64_t count) const {
    std::vector<std::pair<const BlockVariant*, int>> order;
    for (int m = 0; m < count; ++m) {
      order.emplace_back(m + 1 == count ? &last.calls : m == 0 ? &first.calls : &rest.calls, m);
    }
    return order;
  }

  Variant first, rest, last;  // of several; of a single one only `last`
  Graph last_graph;
};

absl::StatusOr<MicroBatches> AddVariants(const LocalTraining& training, const Plan& plan,
                                         const CompileOptions& options, const Device& device,
                                         StepBuilder& step) {
  const bool vertical = plan.accumulation_order == AccumulationOrder::kVertical;
  auto add = [&](MicroBatchVariant variant, const std::string& name,
                 Graph& graph) -> absl::StatusOr<Variant> {
    ASSIGN_OR_RETURN(graph, MicroBatchGraph(training.local.graph, training.parameters, variant,
                                            plan.precision.gradient, training.gradients()));
    RETURN_IF_ERROR(DumpText(options, "train.micro_batch_" + name, ToText(graph)));
    return AddVariant(graph, training.zero, "train.micro_batch_" + name, options, device, step,
                      /*gathered_once=*/vertical);
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

// `sums`: gets the graph that makes the finished sums.
absl::Status AddMicroBatches(const LocalTraining& training, const Plan& plan,
                             const CompileOptions& options, const Device& device, StepBuilder& step,
                             Graph& sums) {
  ASSIGN_OR_RETURN(MicroBatches made, AddVariants(training, plan, options, device, step));
  ASSIGN_OR_RETURN(BlockReductions reductions, AddReductions(training, plan, options, device,
                                                             made.last_graph, made.last, step));
  if (plan.accumulation_order == AccumulationOrder::kVertical) {
    AddBlockCalls(step, VerticalCalls(made.Order(plan.micro_batches)), kAccumulatePhase, reductions,
                  &made.last.calls, static_cast<int>(plan.micro_batches) - 1);
  } else {
    AddBlockCalls(step, made.Order(plan.micro_batches), kAccumulatePhase, reductions);
  }
  sums = std::move(made.last_graph);
  return absl::OkStatus();
}

struct UpdateGraphs {
  Graph measure, update;
  std::vector<std::string> gradients;  // outputs of measure that are fetched
  std::vector<Carry> carries;          // of measure
};

absl::StatusOr<UpdateGraphs> UpdateOfChunks(const LocalTraining& training, const Plan& plan,
                                            const TrainingOptions& options) {
  const DType gradient = plan.precision.gradient;
  UpdateGraphs graphs;
  ASSIGN_OR_RETURN(graphs.measure,
                   MeasureChunksGraph(training.zero, gradient, options.fetch_gradients));
  ASSIGN_OR_RETURN(graphs.update, UpdateChunksGraph(training.zero, options.optimizer, gradient));
  for (const ParameterGradients& parameter : training.parameters) {
    if (options.fetch_gradients) graphs.gradients.push_back(WholeGradientName(parameter.state));
  }
  return graphs;
}

absl::StatusOr<UpdateGraphs> UpdateOfParameters(const LocalTraining& training, const Plan& plan,
                                                const TrainingOptions& options,
                                                const Graph& micro_batch) {
  const bool whole = options.fetch_gradients && !training.place.alone();
  UpdateGraphs graphs;
  ASSIGN_OR_RETURN(graphs.measure,
                   MeasureGraph(micro_batch, training.parameters,
                                {plan.precision.gradient, training.gradients(), whole}));
  ASSIGN_OR_RETURN(graphs.update,
                   UpdateGraph(graphs.measure, training.local.graph, training.parameters,
                               options.optimizer, plan.precision.compute, training.local.states));
  for (const ParameterGradients& parameter : training.parameters) {
    for (const std::string& name : parameter.outputs) {
      graphs.carries.push_back({SumName(name), SumName(name), Carry::From::kLast});
    }
    if (!options.fetch_gradients) continue;
    graphs.gradients.push_back(whole ? WholeGradientName(parameter.state)
                                     : GradientName(parameter.state));
  }
  return graphs;
}

absl::Status AddMeasureAndUpdate(const LocalTraining& training, const Plan& plan,
                                 const TrainingOptions& options, const Graph& micro_batch,
                                 const Device& device, StepBuilder& step) {
  ASSIGN_OR_RETURN(UpdateGraphs graphs,
                   training.zero.chunks().empty()
                       ? UpdateOfParameters(training, plan, options, micro_batch)
                       : UpdateOfChunks(training, plan, options));
  RETURN_IF_ERROR(DumpText(options.compile, "train.measure", ToText(graphs.measure)));
  RETURN_IF_ERROR(DumpText(options.compile, "train.update", ToText(graphs.update)));
  StepSegment measured;
  measured.may_run_on_host = true;
  measured.fetched = std::move(graphs.gradients);
  measured.fetched.push_back("sum_squares");
  measured.carries = std::move(graphs.carries);
  ASSIGN_OR_RETURN(
      measured.segment,
      FusedSegment({"measure", std::make_shared<const Graph>(std::move(graphs.measure))}, "train",
                   options.compile, device));
  StepSegment updated;
  updated.may_run_on_host = true;
  updated.segment = {"update", std::make_shared<const Graph>(std::move(graphs.update))};
  step.AddCall(step.AddSegment(std::move(measured)), -1, kMeasurePhase);
  step.AddCall(step.AddSegment(std::move(updated)), -1, kUpdatePhase);
  return absl::OkStatus();
}

}  // namespace

// Segments of one variant, and those that gather its chunks.
absl::StatusOr<Variant> AddVariant(const Graph& graph, const ZeroLayout& zero,
                                   const std::string& name, const CompileOptions& options,
                                   const Device& device, StepBuilder& step, bool gathered_once) {
  Variant variant;
  ChunkedGraph chunked;
  if (!zero.chunks().empty()) {
    ASSIGN_OR_RETURN(chunked, ReadChunks(graph, zero));
    RETURN_IF_ERROR(DumpText(options, name + ".chunks", ToText(chunked.graph)));
  }
  const Graph& read = zero.chunks().empty() ? graph : chunked.graph;
  ASSIGN_OR_RETURN(std::vector<Segment> segments, CutIntoSegments(read, CutAtBlocks(read)));
  for (Segment& cut : segments) {
    const int part = static_cast<int>(variant.calls.segments.size());
    for (const Output& output : cut.graph->outputs()) variant.part_of_output[output.name] = part;
    ASSIGN_OR_RETURN(Segment segment, FusedSegment(std::move(cut), name, options, device));
    variant.calls.segments.push_back(
        step.AddSegment(WithCarries(std::move(segment), gathered_once)));
  }
  variant.calls.passes = zero.chunks().empty() ? PassPerPart(static_cast<int>(segments.size()))
                                               : std::move(chunked.passes);
  for (size_t p = 0; p < variant.calls.passes.size(); ++p) {
    const BlockPass& pass = variant.calls.passes[p];
    variant.calls.gathers.push_back(-1);
    if (pass.gathered.empty()) continue;
    StepSegment gather;
    ASSIGN_OR_RETURN(gather.segment, GatherSegment(zero, pass, static_cast<int>(p)));
    gather.link = true;
    variant.calls.gathers.back() = step.AddSegment(std::move(gather));
  }
  return variant;
}

absl::Status AddTrainingCalls(const LocalTraining& training, const Plan& plan,
                              const TrainingOptions& options, const Device& device,
                              StepBuilder& step) {
  Graph micro_batch;
  RETURN_IF_ERROR(AddMicroBatches(training, plan, options.compile, device, step, micro_batch));
  return AddMeasureAndUpdate(training, plan, options, micro_batch, device, step);
}

}  // namespace colossus
