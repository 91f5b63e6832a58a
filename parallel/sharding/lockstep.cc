#include "parallel/sharding/lockstep.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "parallel/sharding/axes.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/kernels/kernel.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/collective.h"
#include "tensor/testing/collective_definition.h"

namespace colossus {
namespace {

// Calls visit(flat index in the whole, flat index in the part) for every element of a box.
template <typename Visit>
void ForEachElement(const Dims& whole, const Dims& origin, const Dims& extent, Visit visit) {
  const Dims strides = RowMajorStrides(whole);
  const int64_t count = ElementCount(extent);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0;
    for (size_t d = extent.size(); d-- > 0;) {
      at += (origin[d] + rest % extent[d]) * strides[d];
      rest /= extent[d];
    }
    visit(at, i);
  }
}

HostTensor CutOut(const HostTensor& whole, const Dims& origin, const Dims& extent) {
  HostTensor part(Type{whole.type().dtype, extent});
  ForEachElement(whole.type().dims, origin, extent,
                 [&](int64_t at, int64_t i) { part.Set(i, whole.Get(at)); });
  return part;
}

using Values = std::vector<HostTensor>;  // of one rank, by value id

absl::Status RunLocal(const Graph& graph, const Node& node, Values& values) {
  const Types operands = graph.OperandTypes(node), results = graph.ResultTypes(node);
  ASSIGN_OR_RETURN(PlannedKernel kernel, PlanKernel(ReferenceKernels(), {node.op, &node.attributes,
                                                                         operands, results, 1}));
  std::vector<const void*> x;
  std::vector<void*> y;
  for (ValueId v : node.operands) x.push_back(values[v].raw());
  for (ValueId v : node.results) {
    values[v] = HostTensor(graph.value(v).type);
    y.push_back(values[v].raw());
  }
  HostTensor workspace(Type{DType::kU8, {kernel.workspace_bytes}});
  kernel.run({x, y, workspace.raw()});
  return absl::OkStatus();
}

// Each group once, by the rank that comes first in it.
void RunCollective(const std::vector<Graph>& graphs, size_t n, const Mesh& mesh,
                   std::vector<Values>& values) {
  const Node& node = graphs[0].nodes()[n];
  const AxisNames axes = node.attributes.StringList("axes");
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (mesh.IndexIn(rank, axes) != 0) continue;
    const std::vector<int> group = mesh.Group(rank, axes);
    CHECK_EQ(static_cast<int64_t>(group.size()), node.attributes.Int("parts"));
    std::vector<std::vector<HostTensor>> x;
    for (int member : group) {
      x.emplace_back();
      for (ValueId v : node.operands) x.back().push_back(values[member][v]);
    }
    std::vector<std::vector<HostTensor>> y =
        DefineCollective(*node.op, node.attributes, std::move(x));
    for (size_t i = 0; i < group.size(); ++i) {
      for (size_t r = 0; r < node.results.size(); ++r) {
        values[group[i]][node.results[r]] = std::move(y[i][r]);
      }
    }
  }
}

absl::StatusOr<Values> StartOf(const Graph& graph, const HostTensors& inputs) {
  Values values(graph.values().size());
  for (size_t v = 0; v < values.size(); ++v) {
    const Value& value = graph.values()[v];
    if (value.producer != kNoNode) continue;
    auto input = inputs.find(value.name);
    if (input == inputs.end() || input->second.type() != value.type) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", value.name, "' of type ", ToString(value.type), " is missing"));
    }
    values[v] = input->second;
  }
  return values;
}

bool SameNode(const Node& a, const Node& b) {
  return a.op == b.op && a.operands == b.operands && a.results == b.results && a.block == b.block;
}

// The rank that differs from `rank` by standing at 0 along every axis that is not in `axes`.
int FirstAlike(int rank, const AxisNames& axes, const Mesh& mesh) {
  AxisNames others;
  for (const MeshAxis& axis : mesh.axes()) {
    if (!HasAxis(axes, axis.name)) others.push_back(axis.name);
  }
  return mesh.Group(rank, others).front();
}

}  // namespace

absl::StatusOr<std::vector<HostTensors>> RunLockstep(const std::vector<Graph>& graphs,
                                                     const std::vector<HostTensors>& inputs,
                                                     const Mesh& mesh) {
  std::vector<Values> values;
  for (size_t rank = 0; rank < graphs.size(); ++rank) {
    ASSIGN_OR_RETURN(Values start, StartOf(graphs[rank], inputs[rank]));
    values.push_back(std::move(start));
  }
  for (size_t n = 0; n < graphs[0].nodes().size(); ++n) {
    for (const Graph& graph : graphs) {
      if (n < graph.nodes().size() && SameNode(graph.nodes()[n], graphs[0].nodes()[n])) continue;
      return absl::InternalError(absl::StrCat("node ", n, " differs between ranks"));
    }
    if (IsCollective(*graphs[0].nodes()[n].op)) {
      RunCollective(graphs, n, mesh, values);
      continue;
    }
    for (size_t rank = 0; rank < graphs.size(); ++rank) {
      RETURN_IF_ERROR(RunLocal(graphs[rank], graphs[rank].nodes()[n], values[rank]));
    }
  }
  std::vector<HostTensors> out(graphs.size());
  for (size_t rank = 0; rank < graphs.size(); ++rank) {
    for (const Output& output : graphs[rank].outputs()) {
      out[rank][output.name] = values[rank][output.value];
    }
    for (const State& state : graphs[rank].states()) {
      out[rank][state.info.name] = values[rank][state.out];
    }
  }
  return out;
}

HostTensor PartOf(const HostTensor& whole, const Sharding& sharding, const Mesh& mesh, int rank) {
  absl::StatusOr<Slice> slice = SliceOf(whole.type().dims, sharding, mesh, rank);
  CHECK_OK(slice.status());
  return CutOut(whole, slice->origin, slice->extent);
}

HostTensor Join(const std::vector<HostTensor>& parts, const Sharding& sharding, const Dims& dims,
                const Mesh& mesh) {
  AxisNames axes = SplitAxes(sharding);
  axes.insert(axes.end(), sharding.partial.begin(), sharding.partial.end());
  HostTensor whole(Type{parts[0].type().dtype, dims});
  std::vector<double> sums(static_cast<size_t>(whole.type().elements()), 0);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const int first = FirstAlike(rank, axes, mesh);
    if (first != rank) {
      CHECK(parts[rank] == parts[first]) << "ranks " << rank << " and " << first << " differ";
      continue;
    }
    absl::StatusOr<Slice> slice = SliceOf(dims, sharding, mesh, rank);
    CHECK_OK(slice.status());
    ForEachElement(dims, slice->origin, slice->extent,
                   [&](int64_t at, int64_t i) { sums[at] += parts[rank].Get(i); });
  }
  for (size_t i = 0; i < sums.size(); ++i) whole.Set(static_cast<int64_t>(i), sums[i]);
  return whole;
}

}  // namespace colossus
