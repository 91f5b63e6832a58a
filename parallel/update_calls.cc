#include "parallel/update_calls.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "parallel/sharding/axes.h"
#include "parallel/stages/stage_squares.h"
#include "parallel/update_graph.h"
#include "parallel/zero/chunk_graphs.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

struct UpdateGraphs {
  Graph measure, update;
  std::vector<std::string> gradients;  // outputs of measure that are fetched
  std::vector<Carry> carries;          // of measure
};

// Of the chunks given; `squares`: the output with the sum of squares, empty: none.
absl::StatusOr<UpdateGraphs> UpdateOfChunks(const LocalTraining& training, const Plan& plan,
                                            const TrainingOptions& options,
                                            const std::vector<int>& chunks,
                                            const std::string& squares) {
  const DType gradient = plan.precision.gradient;
  UpdateGraphs graphs;
  ASSIGN_OR_RETURN(graphs.measure, MeasureChunksGraph(training.zero, chunks, gradient,
                                                      options.fetch_gradients, squares));
  ASSIGN_OR_RETURN(graphs.update,
                   UpdateChunksGraph(training.zero, chunks, options.optimizer, gradient));
  for (const ParameterGradients& parameter : training.own()) {
    const ChunkedParameter* chunked = training.zero.Find(parameter.state);
    if (!options.fetch_gradients || !chunked->state.owned()) continue;
    if (std::count(chunks.begin(), chunks.end(), chunked->chunk) == 0) continue;
    graphs.gradients.push_back(WholeGradientName(parameter.state));
  }
  return graphs;
}

// Of the parameters given; `squares`: the output with the sum of squares, empty: none.
absl::StatusOr<UpdateGraphs> UpdateOfParameters(const LocalTraining& training, const Plan& plan,
                                                const TrainingOptions& options,
                                                const Graph& micro_batch,
                                                const std::vector<ParameterGradients>& own,
                                                const std::string& squares) {
  const bool whole = options.fetch_gradients && !training.place.alone_in_stage();
  MeasureOptions measure{plan.precision.gradient, training.gradients(), whole, squares};
  for (const LocalState& state : training.local.states) {
    if (!state.owned()) measure.not_owned.insert(state.info.name);
  }
  UpdateGraphs graphs;
  ASSIGN_OR_RETURN(graphs.measure, MeasureGraph(micro_batch, own, measure));
  ASSIGN_OR_RETURN(graphs.update,
                   UpdateGraph(graphs.measure, training.local.graph, own, options.optimizer,
                               plan.precision.compute, training.local.states));
  for (const ParameterGradients& parameter : own) {
    for (const std::string& name : parameter.outputs) {
      if (!training.Makes(name)) continue;  // received once per step
      graphs.carries.push_back({SumName(name), SumName(name), Carry::From::kLast});
    }
    if (!options.fetch_gradients || measure.not_owned.count(parameter.state) > 0) continue;
    graphs.gradients.push_back(whole ? WholeGradientName(parameter.state)
                                     : GradientName(parameter.state));
  }
  return graphs;
}

// What all stages measure, in the model's order. Graph `sums` gives types.
std::vector<PartGradient> Measured(const LocalTraining& training, const Plan& plan,
                                   const Graph& sums) {
  const DType dtype = plan.precision.gradient;
  const ModelCut& cut = training.pipeline->cut;
  const Mesh& mesh = training.place.mesh;
  std::vector<PartGradient> measured;
  // Stages of different meshes know their own alone.
  const bool own = training.pipeline->meshes != nullptr;
  for (const ZeroChunk& chunk : training.zero.all_chunks()) {
    if (!chunk.updated || (own && !chunk.owned)) continue;
    measured.push_back({cut.PartOf(chunk.block),
                        GradientShardName(chunk),
                        {dtype, {chunk.shard_elements()}},
                        training.zero.AxesOf(chunk)});
  }
  if (!training.zero.all_chunks().empty()) return measured;
  const Graph& graph = training.local.graph;
  const std::vector<std::vector<NodeId>> uses = graph.Uses();
  for (const ParameterGradients& parameter : own ? training.owned() : training.parameters) {
    const ValueId sum = sums.FindOutput(SumName(parameter.outputs[0]));
    const Type type{dtype, sums.value(sum).type.dims};
    const Sharding sharding = training.gradients().Of(parameter.outputs[0], type.rank());
    const NodeId first = uses[graph.FindState(parameter.state)->in].front();
    measured.push_back({cut.PartOf(graph.node(first).block), GradientName(parameter.state), type,
                        InMeshOrder(SplitAxes(sharding), mesh)});
  }
  return measured;
}

// Whatever of the last micro-batch must have run before a parameter can be updated.
int LastPartOf(const ParameterGradients& parameter, const Variant& last) {
  int part = 0;
  for (const std::string& gradient : parameter.outputs) {
    part = std::max(part, last.part_of_output.at(SumName(gradient)));
  }
  return std::max(part, last.last_part_of_state.at(parameter.state));
}

// After which part of the last micro-batch a chunk can be updated: when its gradient is reduced,
// after part `reduced`, and nothing reads or gathers it any more.
int LastPartOf(const ZeroLayout& zero, int chunk, int reduced, const Variant& last) {
  int part = reduced;
  const auto read = last.last_part_of_state.find(zero.chunks()[static_cast<size_t>(chunk)].name);
  if (read != last.last_part_of_state.end()) part = std::max(part, read->second);
  for (const BlockPass& pass : last.calls.passes) {
    const bool gathers = std::count(pass.gathered.begin(), pass.gathered.end(), chunk) > 0;
    if (gathers) part = std::max(part, pass.first_part);
  }
  return part;
}

// Adds the segments that measure and update what is done with part `part`. `behind_link`: their
// gradients are reduced by link segments.
absl::Status AddLayerUpdate(const TrainingOptions& options, const Device& device, int part,
                            bool behind_link, UpdateGraphs graphs, StepBuilder& step,
                            BlockReductions& updates) {
  const std::string measure = absl::StrCat("measure.", part);
  const std::string update = absl::StrCat("update.", part);
  RETURN_IF_ERROR(DumpText(options.compile, "train." + measure, ToText(graphs.measure)));
  RETURN_IF_ERROR(DumpText(options.compile, "train." + update, ToText(graphs.update)));
  StepSegment measured;
  measured.may_run_on_host = true;
  measured.fetched = std::move(graphs.gradients);
  measured.fetched.push_back(LayerSquaresName(absl::StrCat(part)));
  measured.carries = std::move(graphs.carries);
  ASSIGN_OR_RETURN(measured.segment,
                   FusedSegment({measure,
                                 std::make_shared<const Graph>(std::move(graphs.measure))},
                                "train", options.compile, device));
  updates.list.push_back({step.AddSegment(std::move(measured)), part, /*link=*/false, behind_link});
  StepSegment updated;
  updated.may_run_on_host = true;
  updated.segment = {update, std::make_shared<const Graph>(std::move(graphs.update))};
  updates.list.push_back({step.AddSegment(std::move(updated)), part, /*link=*/false, behind_link});
  return absl::OkStatus();
}

// Each chunk as soon as its gradient is reduced and nothing of the step needs it as it was.
// `updates`: the reductions of all chunks that are updated.
absl::StatusOr<BlockReductions> AddChunkUpdates(const LocalTraining& training, const Plan& plan,
                                                const TrainingOptions& options,
                                                const Device& device, const Variant& last,
                                                BlockReductions updates, StepBuilder& step) {
  const std::vector<int> chunks = UpdatedChunks(training.zero);
  CHECK_EQ(chunks.size(), updates.list.size());
  std::map<int, std::vector<int>> by_part;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const int part = LastPartOf(training.zero, chunks[i], updates.list[i].part, last);
    by_part[part].push_back(chunks[i]);
  }
  for (const auto& [part, own] : by_part) {
    const std::string squares = LayerSquaresName(absl::StrCat(part));
    ASSIGN_OR_RETURN(UpdateGraphs graphs, UpdateOfChunks(training, plan, options, own, squares));
    RETURN_IF_ERROR(AddLayerUpdate(options, device, part, /*behind_link=*/true, std::move(graphs),
                                   step, updates));
  }
  return updates;
}

}  // namespace

absl::StatusOr<BlockReductions> AddLayerUpdates(const LocalTraining& training, const Plan& plan,
                                                const TrainingOptions& options,
                                                const Device& device, const Graph& micro_batch,
                                                const Variant& last, BlockReductions reductions,
                                                StepBuilder& step) {
  if (!training.zero.chunks().empty()) {
    return AddChunkUpdates(training, plan, options, device, last, std::move(reductions), step);
  }
  std::map<int, std::vector<ParameterGradients>> by_part;
  for (const ParameterGradients& parameter : training.own()) {
    by_part[LastPartOf(parameter, last)].push_back(parameter);
  }
  for (const auto& [part, own] : by_part) {
    const std::string squares = LayerSquaresName(absl::StrCat(part));
    ASSIGN_OR_RETURN(UpdateGraphs graphs,
                     UpdateOfParameters(training, plan, options, micro_batch, own, squares));
    RETURN_IF_ERROR(AddLayerUpdate(options, device, part, /*behind_link=*/false,
                                   std::move(graphs), step, reductions));
  }
  return reductions;
}

absl::Status AddMeasureAndUpdate(const LocalTraining& training, const Plan& plan,
                                 const TrainingOptions& options, const Graph& micro_batch,
                                 const Device& device, StepBuilder& step) {
  const std::string squares = training.pipeline ? "" : "sum_squares";
  ASSIGN_OR_RETURN(
      UpdateGraphs graphs,
      training.zero.chunks().empty()
          ? UpdateOfParameters(training, plan, options, micro_batch, training.own(), squares)
          : UpdateOfChunks(training, plan, options, UpdatedChunks(training.zero), squares));
  RETURN_IF_ERROR(DumpText(options.compile, "train.measure", ToText(graphs.measure)));
  RETURN_IF_ERROR(DumpText(options.compile, "train.update", ToText(graphs.update)));
  StepSegment measured;
  measured.may_run_on_host = true;
  measured.fetched = std::move(graphs.gradients);
  if (!training.pipeline) measured.fetched.push_back("sum_squares");
  measured.carries = std::move(graphs.carries);
  if (!graphs.measure.outputs().empty()) {
    ASSIGN_OR_RETURN(
        measured.segment,
        FusedSegment({"measure", std::make_shared<const Graph>(std::move(graphs.measure))}, "train",
                     options.compile, device));
    step.AddCall(step.AddSegment(std::move(measured)), -1, kMeasurePhase);
  }
  if (training.pipeline) {
    RETURN_IF_ERROR(AddStageSquares(StageSquares::Of(Measured(training, plan, micro_batch)),
                                    training.place.mesh, *training.pipeline, kMeasurePhase, step));
  }
  StepSegment updated;
  updated.may_run_on_host = true;
  updated.segment = {"update", std::make_shared<const Graph>(std::move(graphs.update))};
  step.AddCall(step.AddSegment(std::move(updated)), -1, kUpdatePhase);
  return absl::OkStatus();
}

}  // namespace colossus
