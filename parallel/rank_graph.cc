#include "parallel/rank_graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "parallel/plan_rules.h"
#include "parallel/sharding/axes.h"
#include "parallel/sharding/rules.h"
#include "tensor/graph/mesh_slice.h"

namespace colossus {
namespace {

// Everything whole.
absl::StatusOr<Partitioned> Unsplit(Graph graph, const Mesh& mesh) {
  Partitioned whole;
  for (const State& state : graph.states()) {
    const Type& type = graph.value(state.in).type;
    const Sharding sharding = Replicated(type.rank());
    ASSIGN_OR_RETURN(Slice slice, SliceOf(type.dims, sharding, mesh, 0));
    whole.states.push_back({state.info, type, sharding, std::move(slice)});
  }
  for (ValueId feed : graph.feeds()) {
    whole.feeds[graph.value(feed).name] = Replicated(graph.value(feed).type.rank());
  }
  for (const Output& output : graph.outputs()) {
    whole.outputs[output.name] = Replicated(graph.value(output.value).type.rank());
  }
  whole.graph = std::move(graph);
  return whole;
}

}  // namespace

absl::StatusOr<MeshPlace> MeshPlace::Of(const Plan& plan, const ModelConfig& config, int rank) {
  if (rank < 0 || rank >= plan.ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: rank ", rank, " of a mesh with ", plan.ranks(), " ranks"));
  }
  MeshPlace place;
  place.own_mesh = !plan.same_meshes();
  if (place.own_mesh) {
    place.stage_of_mesh = plan.StageOfRank(rank);
    place.first = plan.stages[static_cast<size_t>(place.stage_of_mesh)].ranks.front();
  }
  ASSIGN_OR_RETURN(place.mesh, PlanMesh(plan.OfStage(place.stage_of_mesh), config));
  place.rank = rank - place.first;
  return place;
}

absl::StatusOr<Partitioned> RankGraph(Graph graph,
                                      const std::vector<ParameterGradients>& parameters,
                                      const Plan& plan, const ModelConfig& config,
                                      const MeshPlace& place) {
  if (place.alone_in_stage()) return Unsplit(std::move(graph), place.mesh);
  ASSIGN_OR_RETURN(Graph annotated,
                   AnnotateShardings(graph, PlanRules(plan, config, place.mesh), place.mesh));
  PartitionOptions options;
  options.mesh = &place.mesh;
  options.rank = place.rank;
  options.panels = plan.tensor_layout == TensorLayout::k2d;
  options.gradients = GradientShardings(annotated, parameters);
  return Partition(annotated, options);
}

HostTensor PositionsOf(const HostTensor& rows, int32_t padding, const Plan& plan,
                       const MeshPlace& place) {
  if (plan.whole_rows()) return rows;
  const std::vector<int64_t> order = plan.Order();
  const Dims& dims = rows.type().dims;
  CHECK(dims.size() == 2 && dims[1] == plan.sequence_length) << ToString(rows.type());
  const int64_t extent = plan.padded_length() / plan.AxisSize("sequence");
  const int64_t first = place.mesh.IndexIn(place.rank, PiecesOf("sequence", place.mesh)) * extent;
  HostTensor own(Type{DType::kI32, {dims[0], extent}});
  const absl::Span<const int32_t> from = rows.data<int32_t>();
  const absl::Span<int32_t> to = own.data<int32_t>();
  for (int64_t i = 0; i < extent; ++i) {
    const int64_t token = order.empty() ? first + i : order[first + i];
    for (int64_t r = 0; r < dims[0]; ++r) {
      to[r * extent + i] = token < dims[1] ? from[r * dims[1] + token] : padding;
    }
  }
  return own;
}

HostTensor CutOut(const HostTensor& whole, const Slice& slice) {
  const Dims& dims = whole.type().dims;
  CHECK_EQ(slice.extent.size(), dims.size());
  HostTensor part(Type{whole.type().dtype, slice.extent});
  if (dims.empty()) return whole;
  if (part.type().elements() == 0) return part;
  std::memset(part.raw(), 0, part.type().bytes());
  const int64_t size = SizeOf(whole.type().dtype);
  const Dims strides = RowMajorStrides(dims);
  const size_t last = dims.size() - 1;
  const int64_t run = std::min(slice.extent[last], dims[last] - slice.origin[last]);
  if (run <= 0) return part;
  const int64_t runs = part.type().elements() / slice.extent[last];
  const char* src = static_cast<const char*>(whole.raw());
  char* dst = static_cast<char*>(part.raw());
  for (int64_t r = 0; r < runs; ++r) {
    int64_t rest = r, from = slice.origin[last];
    bool inside = true;
    for (size_t d = last; d-- > 0;) {
      const int64_t at = slice.origin[d] + rest % slice.extent[d];
      inside = inside && at < dims[d];
      from += at * strides[d];
      rest /= slice.extent[d];
    }
    if (inside) std::memcpy(dst + r * slice.extent[last] * size, src + from * size, run * size);
  }
  return part;
}

}  // namespace colossus
