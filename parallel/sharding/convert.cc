#include "parallel/sharding/convert.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/graph/text.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/shape.h"

namespace colossus {
namespace {

bool Contains(const AxisNames& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

AxisNames Without(const AxisNames& axes, const AxisNames& removed) {
  AxisNames rest;
  for (const std::string& axis : axes) {
    if (!Contains(removed, axis)) rest.push_back(axis);
  }
  return rest;
}

AxisNames Joined(AxisNames axes, const AxisNames& more) {
  axes.insert(axes.end(), more.begin(), more.end());
  return axes;
}

// Without axes of size 1, and with `partial` in the mesh's order.
Sharding Normal(const Sharding& sharding, const Mesh& mesh) {
  auto real = [&](const AxisNames& axes) {
    AxisNames kept;
    for (const std::string& axis : axes) {
      if (mesh.SizeOf(axis) > 1) kept.push_back(axis);
    }
    return kept;
  };
  Sharding normal;
  for (const AxisNames& axes : sharding.dims) normal.dims.push_back(real(axes));
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1 && Contains(sharding.partial, axis.name)) normal.partial.push_back(axis.name);
  }
  return normal;
}

// All ordered selections of at least one of `axes`.
void AddArrangements(const AxisNames& axes, const AxisNames& chosen, std::vector<AxisNames>& all) {
  for (const std::string& axis : axes) {
    if (Contains(chosen, axis)) continue;
    all.push_back(Joined(chosen, {axis}));
    AddArrangements(axes, AxisNames(all.back()), all);
  }
}
std::vector<AxisNames> Arrangements(const AxisNames& axes) {
  std::vector<AxisNames> all;
  AddArrangements(axes, {}, all);
  return all;
}

bool IsPrefix(const AxisNames& prefix, const AxisNames& axes) {
  return prefix.size() <= axes.size() && std::equal(prefix.begin(), prefix.end(), axes.begin());
}

class ConversionSearch {
 public:
  ConversionSearch(const Type& global, const Sharding& to, const Mesh& mesh)
      : global_(global), to_(to), mesh_(mesh) {}

  // Cheapest first; a state's first arrival is its cheapest.
  absl::StatusOr<Conversion> Find(const Sharding& from) {
    Offer({});
    while (!open_.empty()) {
      auto next = open_.extract(open_.begin());
      const Conversion path = std::move(next.mapped());
      const Sharding at = path.steps.empty() ? from : path.steps.back().after;
      if (at == to_) return path;
      if (!done_.emplace(ToText(at), true).second) continue;
      Expand(path, at);
    }
    return absl::InternalError(absl::StrCat("no way from ", ToText(from), " to ", ToText(to_)));
  }

 private:
  void Expand(const Conversion& path, const Sharding& at) {
    AddReductions(path, at);
    AddGathers(path, at);
    AddSlices(path, at);
  }

  void AddReductions(const Conversion& path, const Sharding& at) {
    for (const AxisNames& axes : Arrangements(Without(at.partial, to_.partial))) {
      Sharding after = at;
      after.partial = Without(at.partial, axes);
      // The order of ranks in a sum is the mesh's.
      if (Normal({{}, axes}, mesh_).partial == axes) {
        Step(path, at, {ConversionKind::kAllReduce, axes, -1, -1, after});
      }
      for (size_t d = 0; d < at.dims.size(); ++d) {
        Sharding scattered = after;
        scattered.dims[d] = Joined(at.dims[d], axes);
        Step(path, at, {ConversionKind::kReduceScatter, axes, static_cast<int>(d), -1, scattered});
      }
    }
  }

  void AddGathers(const Conversion& path, const Sharding& at) {
    for (size_t d = 0; d < at.dims.size(); ++d) {
      for (size_t kept = 0; kept < at.dims[d].size(); ++kept) {
        const AxisNames axes(at.dims[d].begin() + kept, at.dims[d].end());
        Sharding after = at;
        after.dims[d].resize(kept);
        Step(path, at, {ConversionKind::kAllGather, axes, static_cast<int>(d), -1, after});
        for (size_t e = 0; e < at.dims.size(); ++e) {
          if (e == d) continue;
          Sharding moved = after;
          moved.dims[e] = Joined(at.dims[e], axes);
          Step(path, at,
               {ConversionKind::kAllToAll, axes, static_cast<int>(d), static_cast<int>(e), moved});
        }
      }
    }
  }

  // Only towards the goal: other slices would have to be undone.
  void AddSlices(const Conversion& path, const Sharding& at) {
    AxisNames used = at.partial;
    for (const AxisNames& axes : at.dims) used = Joined(used, axes);
    for (size_t d = 0; d < at.dims.size(); ++d) {
      if (!IsPrefix(at.dims[d], to_.dims[d])) continue;
      AxisNames axes;
      for (size_t i = at.dims[d].size(); i < to_.dims[d].size(); ++i) {
        if (Contains(used, to_.dims[d][i])) break;
        axes.push_back(to_.dims[d][i]);
        Sharding after = at;
        after.dims[d] = Joined(at.dims[d], axes);
        Step(path, at, {ConversionKind::kSlice, axes, static_cast<int>(d), -1, after});
      }
    }
  }

  void Step(const Conversion& path, const Sharding& at, ConversionStep step) {
    if (!CheckSharding(global_.dims, step.after, mesh_).ok()) return;  // parts would not be equal
    if (done_.count(ToText(step.after))) return;
    step.seconds = Seconds(step, at);
    Conversion longer = path;
    longer.seconds += step.seconds;
    longer.steps.push_back(step);
    Offer(std::move(longer));
  }

  void Offer(Conversion path) {
    open_.emplace(std::make_tuple(path.seconds, path.steps.size(), offered_++), std::move(path));
  }

  double Bytes(const Sharding& sharding) const {
    double bytes = static_cast<double>(global_.bytes());
    for (const AxisNames& axes : sharding.dims) bytes /= static_cast<double>(mesh_.SizeOf(axes));
    return bytes;
  }

  double Seconds(const ConversionStep& step, const Sharding& before) const {
    constexpr double kLatency = 5e-6, kLink = 4e9, kCopy = 20e9;  // seconds, bytes per second
    const double parts = static_cast<double>(mesh_.SizeOf(step.axes));
    const double rounds = std::ceil(std::log2(parts)), moved = (parts - 1) / parts / kLink;
    switch (step.kind) {
      case ConversionKind::kSlice:
        return kLatency / 10 + Bytes(step.after) / kCopy;
      case ConversionKind::kAllReduce:
        return 2 * (rounds * kLatency + Bytes(before) * moved);
      case ConversionKind::kReduceScatter:
        return rounds * kLatency + Bytes(before) * moved;
      case ConversionKind::kAllGather:
        return rounds * kLatency + Bytes(step.after) * moved;
      case ConversionKind::kAllToAll:
        return rounds * kLatency + Bytes(before) * moved;
    }
    CHECK(false) << "unknown step";
    return 0;
  }

  const Type& global_;
  const Sharding to_;
  const Mesh& mesh_;
  // By seconds, steps and order of arrival.
  std::map<std::tuple<double, size_t, int64_t>, Conversion> open_;
  std::map<std::string, bool> done_;
  int64_t offered_ = 0;
};

// Several slices one after another are one.
ValueId EmitSlices(GraphBuilder& graph, ValueId x, absl::Span<const ConversionStep> steps,
                   const Mesh& mesh, int rank) {
  const Dims& dims = graph.type(x).dims;
  Ints starts(dims.size(), 0), limits(dims.begin(), dims.end());
  if (dims.empty()) return x;  // after an error
  for (const ConversionStep& step : steps) {
    const int64_t extent = (limits[step.dim] - starts[step.dim]) / mesh.SizeOf(step.axes);
    starts[step.dim] += extent * mesh.IndexIn(rank, step.axes);
    limits[step.dim] = starts[step.dim] + extent;
  }
  return Slice(graph, x, std::move(starts), std::move(limits));
}

ValueId EmitCollective(GraphBuilder& graph, ValueId x, const ConversionStep& step,
                       const Mesh& mesh) {
  const int64_t parts = mesh.SizeOf(step.axes);
  switch (step.kind) {
    case ConversionKind::kSlice:
      break;
    case ConversionKind::kAllReduce:
      return AllReduce(graph, x, step.axes, parts);
    case ConversionKind::kReduceScatter:
      return ReduceScatter(graph, x, step.axes, parts, step.dim);
    case ConversionKind::kAllGather:
      return AllGather(graph, x, step.axes, parts, step.dim);
    case ConversionKind::kAllToAll:
      return AllToAll(graph, x, step.axes, parts, step.split, step.dim);
  }
  CHECK(false) << "no collective";
  return kNoValue;
}

}  // namespace

absl::string_view Name(ConversionKind kind) {
  switch (kind) {
    case ConversionKind::kSlice:
      return "slice";
    case ConversionKind::kAllReduce:
      return "all_reduce";
    case ConversionKind::kReduceScatter:
      return "reduce_scatter";
    case ConversionKind::kAllGather:
      return "all_gather";
    case ConversionKind::kAllToAll:
      return "all_to_all";
  }
  CHECK(false) << "unknown kind";
  return "";
}

absl::StatusOr<Conversion> PlanConversion(const Type& global, const Sharding& from,
                                          const Sharding& to, const Mesh& mesh) {
  RETURN_IF_ERROR(CheckSharding(global.dims, from, mesh));
  RETURN_IF_ERROR(CheckSharding(global.dims, to, mesh));
  const Sharding start = Normal(from, mesh), goal = Normal(to, mesh);
  for (const std::string& axis : goal.partial) {
    if (!Contains(start.partial, axis)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a value ", ToText(from), " does not become partial over '", axis, "'"));
    }
  }
  return ConversionSearch(global, goal, mesh).Find(start);
}

absl::StatusOr<ValueId> ConvertSharding(GraphBuilder& graph, ValueId local, const Type& global,
                                        const Sharding& from, const Sharding& to, const Mesh& mesh,
                                        int rank) {
  ASSIGN_OR_RETURN(Conversion conversion, PlanConversion(global, from, to, mesh));
  const absl::Span<const ConversionStep> steps = conversion.steps;
  for (size_t i = 0; i < steps.size();) {
    size_t slices = 0;
    while (i + slices < steps.size() && steps[i + slices].kind == ConversionKind::kSlice) ++slices;
    local = slices > 0 ? EmitSlices(graph, local, steps.subspan(i, slices), mesh, rank)
                       : EmitCollective(graph, local, steps[i], mesh);
    i += std::max<size_t>(slices, 1);
  }
  return local;
}

}  // namespace colossus
