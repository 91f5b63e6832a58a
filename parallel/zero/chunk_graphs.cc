#include "parallel/zero/chunk_graphs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "parallel/micro_batch_graph.h"
#include "parallel/sharding/axes.h"
#include "parallel/sharding/convert.h"
#include "parallel/square_sums.h"
#include "parallel/update_graph.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/element_segments.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/pack.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

// The sum over the uses of a parameter: within the model too, where uses differ in what is missing.
ValueId SumOfUses(GraphBuilder& builder, const Graph& micro_batch, const ZeroLayout& layout,
                  const ZeroChunk& chunk, const ChunkedParameter& parameter) {
  ValueId sum = kNoValue;
  for (size_t u = 0; u < parameter.gradients.size(); ++u) {
    const std::string name = SumName(parameter.gradients[u]);
    const ValueId made = micro_batch.FindOutput(name);
    CHECK(made != kNoValue) << name;
    ValueId use = builder.Feed(name, micro_batch.value(made).type);
    const AxisNames& axes = parameter.model_axes[u];
    if (axes != chunk.model_axes) {
      use = AllReduce(builder, use, axes, layout.mesh().SizeOf(axes), "sum",
                      absl::StrCat("reduce/", parameter.gradients[u]));
    }
    sum = sum == kNoValue ? use : Add(builder, sum, use);
  }
  return sum;
}

// May be made in place.
ValueId Gathered(GraphBuilder& builder, ValueId shard, const ZeroChunk& chunk) {
  return AllGatherInPlace(builder, shard, chunk.zero_axes, chunk.shards, chunk.shard,
                          absl::StrCat(builder.block(), "/whole/", chunk.name));
}

// Whether ranks update whole chunks, each the same.
bool UpdatesWhole(const ZeroLayout& layout) { return layout.options().stage == 0; }

std::string UpdatedWith(const ZeroLayout& layout, const ZeroChunk& chunk) {
  return UpdatesWhole(layout) ? GradientName(chunk.name) : GradientShardName(chunk);
}

// From a chunk's whole gradient those of its parameters, put together from all ranks' parts.
absl::Status AddWholeGradients(GraphBuilder& builder, const ZeroLayout& layout,
                               const ZeroChunk& chunk, ValueId gradient) {
  std::vector<PackedTensor> places;
  for (int p : chunk.parameters) {
    const ChunkedParameter& parameter = layout.parameters()[p];
    places.push_back({parameter.first, parameter.state.type.dims});
  }
  const ValueIds parts = Unpack(builder, gradient, places);
  for (size_t i = 0; i < parts.size(); ++i) {
    const LocalState& state = layout.parameters()[chunk.parameters[i]].state;
    const Type global{builder.type(parts[i]).dtype, state.slice.global};
    // Gathers are the same on all ranks.
    ASSIGN_OR_RETURN(ValueId whole,
                     ConvertSharding(builder, parts[i], global, state.sharding,
                                     Replicated(global.rank()), layout.mesh(), /*rank=*/0));
    builder.Output(WholeGradientName(state.info.name), whole);
  }
  return absl::OkStatus();
}

// Chunks in runs of those of one block: a node per run that measures and one that updates
// (update_graph.cc).
std::vector<std::vector<const ZeroChunk*>> RunsOfBlocks(const ZeroLayout& layout,
                                                        const std::vector<int>& chunks) {
  std::vector<std::vector<const ZeroChunk*>> runs;
  for (int c : chunks) {
    const ZeroChunk& chunk = layout.chunks()[static_cast<size_t>(c)];
    CHECK(chunk.updated) << chunk.name;
    if (runs.empty() || runs.back()[0]->block != chunk.block ||
        runs.back().size() == static_cast<size_t>(kMaxUpdated)) {
      runs.emplace_back();
    }
    runs.back().push_back(&chunk);
  }
  return runs;
}

// The states of a chunk at the start, by role.
StateValues AddStates(GraphBuilder& builder, const ZeroLayout& layout, const ZeroChunk& chunk,
                      const Optimizer& optimizer) {
  StateValues values;
  for (Role role : StateRoles(optimizer, chunk.dtype)) {
    Type type = layout.StateType(chunk, role);
    type.dtype = StateDType(optimizer, role, chunk.dtype);
    values[role] = builder.AddState(layout.StateInfoOf(chunk, role), type);
  }
  return values;
}

// Which elements of which parameters lie in elements [low, high) of a chunk.
std::vector<ElementSegment> SegmentsOf(const ZeroLayout& layout, const ZeroChunk& chunk,
                                       int64_t low, int64_t high) {
  std::vector<ElementSegment> segments;
  for (int p : chunk.parameters) {
    const ChunkedParameter& parameter = layout.parameters()[p];
    const LocalState& state = parameter.state;
    const int64_t first = std::max(low, parameter.first);
    const int64_t last = std::min(high, parameter.first + state.type.elements());
    if (first >= last) continue;
    segments.push_back({.site = state.info.name,
                        .at = first - low,
                        .count = last - first,
                        .first = first - parameter.first,
                        .dims = state.type.dims,
                        .origin = state.slice.origin,
                        .global = state.info.global_dims});
  }
  return segments;
}

}  // namespace

std::string GradientShardName(const ZeroChunk& chunk) {
  return absl::StrCat("shard/", GradientName(chunk.name));
}

absl::StatusOr<Graph> ReduceGraph(const Graph& micro_batch, const ZeroLayout& layout, int index,
                                  DType gradient) {
  const ZeroChunk& chunk = layout.chunks()[index];
  CHECK(chunk.updated) << chunk.name;
  GraphBuilder builder(absl::StrCat("reduce.", chunk.name));
  builder.SetBlock("reduce");
  ValueIds sums;
  std::vector<int64_t> places;
  for (int p : chunk.parameters) {
    const ChunkedParameter& parameter = layout.parameters()[p];
    ValueId sum = SumOfUses(builder, micro_batch, layout, chunk, parameter);
    // Nothing is summed after this.
    if (chunk.shards == 1 && chunk.model_axes.empty()) sum = Convert(builder, sum, gradient);
    sums.push_back(sum);
    places.push_back(parameter.first);
  }
  ValueId flat = Pack(builder, std::move(sums), std::move(places), chunk.elements);
  flat = AllReduce(builder, flat, chunk.model_axes, layout.mesh().SizeOf(chunk.model_axes), "sum",
                   absl::StrCat("reduce/model/", chunk.name));
  flat = ReduceScatter(builder, flat, chunk.zero_axes, chunk.shards, /*dim=*/0,
                       absl::StrCat("reduce/shard/", chunk.name));
  const ValueId shard = Convert(builder, flat, gradient);
  builder.Output(GradientShardName(chunk), shard);
  if (UpdatesWhole(layout))
    builder.Output(GradientName(chunk.name), Gathered(builder, shard, chunk));
  return std::move(builder).Build();
}

std::vector<int> UpdatedChunks(const ZeroLayout& layout) {
  std::vector<int> updated;
  for (size_t c = 0; c < layout.chunks().size(); ++c) {
    if (layout.chunks()[c].updated) updated.push_back(static_cast<int>(c));
  }
  return updated;
}

absl::StatusOr<Graph> MeasureChunksGraph(const ZeroLayout& layout, const std::vector<int>& chunks,
                                         DType gradient, bool whole_gradients,
                                         const std::string& squares) {
  GraphBuilder builder("measure");
  builder.SetBlock("measure");
  SquareSums sums(builder, layout.mesh());
  std::vector<std::pair<const ZeroChunk*, ValueId>> shards;
  for (const std::vector<const ZeroChunk*>& run : RunsOfBlocks(layout, chunks)) {
    std::vector<MeasuredGradient> measured;
    for (const ZeroChunk* chunk : run) {
      if (squares.empty() && !(whole_gradients && chunk->owned)) continue;
      const ValueId shard =
          builder.Feed(GradientShardName(*chunk), {gradient, {chunk->shard_elements()}});
      shards.emplace_back(chunk, shard);
      measured.push_back({layout.AxesOf(*chunk), shard});
    }
    if (!squares.empty()) sums.Add(measured);
  }
  if (!squares.empty()) builder.Output(squares, sums.Total());
  for (const auto& [chunk, shard] : shards) {
    if (!whole_gradients) continue;
    const ValueId whole = Gathered(builder, shard, *chunk);
    RETURN_IF_ERROR(AddWholeGradients(builder, layout, *chunk, whole));
  }
  return std::move(builder).Build();
}

absl::StatusOr<Graph> UpdateChunksGraph(const ZeroLayout& layout, const std::vector<int>& chunks,
                                        const Optimizer& optimizer, DType gradient) {
  GraphBuilder builder("update");
  builder.SetBlock("update");
  const UpdateScalars scalars = FeedUpdateScalars(builder, optimizer, layout.options().compute);
  for (const std::vector<const ZeroChunk*>& run : RunsOfBlocks(layout, chunks)) {
    std::vector<StateValues> before;
    std::vector<UpdateOperands> operands;
    for (const ZeroChunk* chunk : run) {
      before.push_back(AddStates(builder, layout, *chunk, optimizer));
      UpdateOperands own;
      own.states = before.back();
      const int64_t elements = UpdatesWhole(layout) ? chunk->elements : chunk->shard_elements();
      own.gradient = builder.Feed(UpdatedWith(layout, *chunk), {gradient, {elements}});
      own.weight_decay = chunk->decayed ? optimizer.weight_decay : 0;
      const int64_t low = UpdatesWhole(layout) ? 0 : chunk->shard * elements;
      own.elements = SegmentsOf(layout, *chunk, low, low + elements);
      // A parameter that is its own master and whole on every rank: only the shard is updated.
      const Role master =
          MasterDType(chunk->dtype) == chunk->dtype ? Role::kParameter : Role::kMaster;
      if (builder.type(own.states[master]).elements() != elements) {
        own.states[master] = Unpack(builder, own.states[master],
                                    {{chunk->shard * chunk->shard_elements(), {elements}}})[0];
      }
      operands.push_back(std::move(own));
    }
    std::vector<StateValues> after = ApplyUpdate(builder, optimizer, operands, scalars);
    for (size_t i = 0; i < run.size(); ++i) {
      for (auto& [role, end] : after[i]) {
        const ValueId start = before[i].at(role);
        if (builder.type(end) != builder.type(start)) end = Gathered(builder, end, *run[i]);
        builder.UpdateState(start, end);
      }
    }
  }
  return std::move(builder).Build();
}

}  // namespace colossus
