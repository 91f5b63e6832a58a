#include "parallel/sharding/convert.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status.h"
#include "collectives/communicator.h"
#include "collectives/cost.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/graph/text.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/shape.h"

namespace colossus {
namespace {

// A sharding as the search sees it: an axis is its number in the mesh, as a character. Axes of size
// 1 are left out, and sums are in the mesh's order.
using Axes = std::string;

struct Layout {
  std::vector<Axes> dims;
  Axes partial;

  std::string Key() const { return absl::StrCat(absl::StrJoin(dims, "/"), "+", partial); }
};

// Of a mesh: from names to characters and back.
class Code {
 public:
  explicit Code(const Mesh& mesh) : mesh_(mesh) {}

  Layout Encode(const Sharding& sharding) const {
    Layout layout;
    for (const AxisNames& axes : sharding.dims) layout.dims.push_back(Encode(axes));
    layout.partial = Encode(sharding.partial);
    std::sort(layout.partial.begin(), layout.partial.end());
    return layout;
  }
  Sharding Decode(const Layout& layout) const {
    Sharding sharding;
    for (const Axes& axes : layout.dims) sharding.dims.push_back(Decode(axes));
    sharding.partial = Decode(layout.partial);
    return sharding;
  }
  AxisNames Decode(const Axes& axes) const {
    AxisNames names;
    for (char axis : axes) names.push_back(mesh_.axes()[axis - kFirst].name);
    return names;
  }
  int64_t SizeOf(const Axes& axes) const {
    int64_t size = 1;
    for (char axis : axes) size *= mesh_.axes()[axis - kFirst].size;
    return size;
  }

 private:
  static constexpr char kFirst = 'A';

  Axes Encode(const AxisNames& names) const {
    Axes axes;
    for (const std::string& name : names) {
      for (size_t i = 0; i < mesh_.axes().size(); ++i) {
        const bool same = mesh_.axes()[i].name == name && mesh_.axes()[i].size > 1;
        if (same) axes.push_back(static_cast<char>(kFirst + static_cast<char>(i)));
      }
    }
    return axes;
  }

  const Mesh& mesh_;
};

bool Contains(const Axes& axes, char axis) { return axes.find(axis) != Axes::npos; }

Axes Without(const Axes& axes, const Axes& removed) {
  Axes rest;
  for (char axis : axes) {
    if (!Contains(removed, axis)) rest.push_back(axis);
  }
  return rest;
}

// All ordered selections of at least one of `axes`.
void AddArrangements(const Axes& axes, const Axes& chosen, std::vector<Axes>& all) {
  for (char axis : axes) {
    if (Contains(chosen, axis)) continue;
    const Axes longer = chosen + axis;
    all.push_back(longer);
    AddArrangements(axes, longer, all);
  }
}
std::vector<Axes> Arrangements(const Axes& axes) {
  std::vector<Axes> all;
  AddArrangements(axes, {}, all);
  return all;
}

struct Step {
  ConversionKind kind;
  Axes axes;
  int dim, split;
  Layout after;
  double seconds = 0, bytes = 0;
};

CollectiveKind KindOf(ConversionKind kind) {
  switch (kind) {
    case ConversionKind::kSlice:
      break;
    case ConversionKind::kAllReduce:
      return CollectiveKind::kAllReduce;
    case ConversionKind::kReduceScatter:
      return CollectiveKind::kReduceScatter;
    case ConversionKind::kAllGather:
      return CollectiveKind::kAllGather;
    case ConversionKind::kAllToAll:
      return CollectiveKind::kAllToAll;
  }
  CHECK(false) << "no collective";
  return CollectiveKind::kBarrier;
}

struct Path {
  std::vector<Step> steps;
  double seconds = 0;
};

class ConversionSearch {
 public:
  ConversionSearch(const Type& global, const Layout& to, const Code& code)
      : global_(global), to_(to), goal_(to.Key()), code_(code) {}

  // Cheapest first; a layout's first arrival is its cheapest.
  absl::StatusOr<Path> Find(const Layout& from) {
    Offer({});
    while (!open_.empty()) {
      const Path path = std::move(open_.extract(open_.begin()).mapped());
      const Layout& at = path.steps.empty() ? from : path.steps.back().after;
      std::string key = at.Key();
      if (key == goal_) return path;
      if (!done_.insert(std::move(key)).second) continue;
      AddReductions(path, at);
      AddGathers(path, at);
      AddSlices(path, at);
    }
    return absl::InternalError("no chain of collectives leads from a sharding to another");
  }

 private:
  void AddReductions(const Path& path, const Layout& at) {
    for (const Axes& axes : Arrangements(Without(at.partial, to_.partial))) {
      Layout after = at;
      after.partial = Without(at.partial, axes);
      // The order of ranks in a sum is the mesh's.
      if (std::is_sorted(axes.begin(), axes.end())) {
        Add(path, at, {ConversionKind::kAllReduce, axes, -1, -1, after});
      }
      for (size_t d = 0; d < at.dims.size(); ++d) {
        Layout scattered = after;
        scattered.dims[d] += axes;
        Add(path, at, {ConversionKind::kReduceScatter, axes, static_cast<int>(d), -1, scattered});
      }
    }
  }

  void AddGathers(const Path& path, const Layout& at) {
    for (size_t d = 0; d < at.dims.size(); ++d) {
      for (size_t kept = 0; kept < at.dims[d].size(); ++kept) {
        const Axes axes = at.dims[d].substr(kept);
        Layout after = at;
        after.dims[d].resize(kept);
        Add(path, at, {ConversionKind::kAllGather, axes, static_cast<int>(d), -1, after});
        for (size_t e = 0; e < at.dims.size(); ++e) {
          if (e == d) continue;
          Layout moved = after;
          moved.dims[e] += axes;
          Add(path, at,
              {ConversionKind::kAllToAll, axes, static_cast<int>(d), static_cast<int>(e), moved});
        }
      }
    }
  }

  // Only towards the goal: other slices would have to be undone.
  void AddSlices(const Path& path, const Layout& at) {
    Axes used = at.partial;
    for (const Axes& axes : at.dims) used += axes;
    for (size_t d = 0; d < at.dims.size(); ++d) {
      if (to_.dims[d].compare(0, at.dims[d].size(), at.dims[d]) != 0) continue;
      Layout after = at;
      for (size_t i = at.dims[d].size(); i < to_.dims[d].size(); ++i) {
        if (Contains(used, to_.dims[d][i])) break;
        after.dims[d] += to_.dims[d][i];
        Add(path, at,
            {ConversionKind::kSlice, after.dims[d].substr(at.dims[d].size()), static_cast<int>(d),
             -1, after});
      }
    }
  }

  void Add(const Path& path, const Layout& at, Step step) {
    for (size_t d = 0; d < at.dims.size(); ++d) {
      if (global_.dims[d] % code_.SizeOf(step.after.dims[d]) != 0) return;  // parts are not equal
    }
    if (done_.count(step.after.Key())) return;
    step.seconds = Seconds(step, at);
    step.bytes = SentBytes(step, at);
    Path longer = path;
    longer.seconds += step.seconds;
    longer.steps.push_back(std::move(step));
    Offer(std::move(longer));
  }

  void Offer(Path path) {
    open_.emplace(std::make_tuple(path.seconds, path.steps.size(), offered_++), std::move(path));
  }

  // On a rank.
  int64_t Elements(const Layout& layout) const {
    int64_t elements = global_.elements();
    for (const Axes& axes : layout.dims) elements /= code_.SizeOf(axes);
    return elements;
  }
  double Bytes(const Layout& layout) const {
    return static_cast<double>(Elements(layout) * SizeOf(global_.dtype));
  }

  double Seconds(const Step& step, const Layout& before) const {
    // Of a node, in seconds: of two ways the shorter. Of copies, bytes per second.
    constexpr double kStart = 5e-7, kCopy = 20e9;
    if (step.kind == ConversionKind::kSlice) return kStart + Bytes(step.after) / kCopy;
    const bool grows = step.kind == ConversionKind::kAllGather;
    return kStart + CollectiveSeconds(KindOf(step.kind), global_.dtype,
                                      Elements(grows ? step.after : before),
                                      static_cast<int>(code_.SizeOf(step.axes)));
  }

  double SentBytes(const Step& step, const Layout& before) const {
    if (step.kind == ConversionKind::kSlice) return 0;
    const double parts = static_cast<double>(code_.SizeOf(step.axes));
    const bool grows = step.kind == ConversionKind::kAllGather;
    const double turns = step.kind == ConversionKind::kAllReduce ? 2 : 1;
    return turns * Bytes(grows ? step.after : before) * (parts - 1) / parts;
  }

  const Type& global_;
  const Layout& to_;
  const std::string goal_;
  const Code& code_;
  // By seconds, steps and order of arrival.
  std::map<std::tuple<double, size_t, int64_t>, Path> open_;
  std::set<std::string> done_;
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
  const Code code(mesh);
  const Layout start = code.Encode(from), goal = code.Encode(to);
  const Axes missing = Without(goal.partial, start.partial);
  if (!missing.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a value ", ToText(from), " does not become partial over '", code.Decode(missing)[0], "'"));
  }
  ASSIGN_OR_RETURN(Path path, ConversionSearch(global, goal, code).Find(start));
  Conversion conversion;
  conversion.seconds = path.seconds;
  for (const Step& step : path.steps) {
    conversion.steps.push_back({step.kind, code.Decode(step.axes), step.dim, step.split,
                                code.Decode(step.after), step.seconds, step.bytes});
    conversion.bytes += step.bytes;
  }
  return conversion;
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
