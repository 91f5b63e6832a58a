#include "tensor/testing/sharded_op.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/ops/factor_rule.h"
#include "tensor/ops/sharded_call.h"

namespace colossus {
namespace {

Types TypesOf(const std::vector<HostTensor>& tensors) {
  Types types;
  for (const HostTensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

// Where two factors have an axis, it stays with the one that is not kExpand.
Sharding ByFactors(const FactorRule& rule, const ValueFactors& dims,
                   const std::vector<AxisNames>& factor_axes) {
  Sharding sharding{std::vector<AxisNames>(dims.size()), {}};
  std::set<std::string> used;
  for (bool expand : {false, true}) {
    for (size_t d = 0; d < dims.size(); ++d) {
      for (int f : dims[d]) {
        if ((rule.factors[f].kind == FactorKind::kExpand) != expand) continue;
        for (const std::string& axis : factor_axes[f]) {
          if (used.insert(axis).second) sharding.dims[d].push_back(axis);
        }
      }
    }
  }
  return sharding;
}

struct Lowering {
  ShardedCall::Spec spec;
  bool expands = false;
};

absl::StatusOr<Lowering> Describe(const ShardedOp& split, const Mesh& mesh) {
  Lowering lowering;
  ShardedCall::Spec& spec = lowering.spec;
  spec.op = split.op;
  spec.attributes = split.attributes;
  spec.operand_types = TypesOf(split.operands);
  spec.rule = split.op->Factors({spec.operand_types, spec.attributes});
  spec.factor_axes.resize(spec.rule.factors.size());
  for (const auto& [label, axes] : split.axes) {
    const int factor = spec.rule.Find(label);
    CHECK(factor >= 0) << label << " is not in " << spec.rule.ToString();
    spec.factor_axes[factor] = axes;
    lowering.expands |= spec.rule.factors[factor].kind == FactorKind::kExpand && !axes.empty();
  }
  lowering.expands |= !split.x_shardings.empty();
  spec.x_shardings = split.x_shardings;
  for (size_t i = spec.x_shardings.size(); i < split.operands.size(); ++i) {
    spec.x_shardings.push_back(ByFactors(spec.rule, spec.rule.operands[i], spec.factor_axes));
  }
  spec.wanted = split.wanted;
  spec.mesh = &mesh;
  return lowering;
}

absl::Status Lower(const Lowering& lowering, ShardedCall& call, GraphBuilder& graph) {
  if (lowering.expands) return call.op().Expand(call, graph);
  ASSIGN_OR_RETURN(Attributes attributes, call.LocalAttributes({}));
  const ValueIds y = graph.Apply(call.op(), call.operands(), attributes);
  for (int i = 0; i < call.y_count(); ++i) call.Set(i, y[i], call.LocalResult(i, {}));
  return graph.status();
}

// The rank's graph; its results' shardings.
absl::StatusOr<Graph> LocalGraph(const Lowering& lowering, int rank,
                                 std::vector<Sharding>& shardings) {
  GraphBuilder graph("local");
  graph.SetBlock("split");
  ShardedCall::Spec spec = lowering.spec;
  spec.rank = rank;
  for (size_t i = 0; i < spec.operand_types.size(); ++i) {
    ASSIGN_OR_RETURN(Type local, LocalType(spec.operand_types[i], spec.x_shardings[i], *spec.mesh));
    spec.x.push_back(graph.Feed(absl::StrCat("x", i), local));
  }
  ShardedCall call(std::move(spec));
  RETURN_IF_ERROR(Lower(lowering, call, graph));
  shardings.clear();
  for (int i = 0; i < call.y_count(); ++i) {
    graph.Output(absl::StrCat("y", i), call.y(i));
    shardings.push_back(call.y_sharding(i));
  }
  return std::move(graph).Build();
}

absl::StatusOr<std::vector<Graph>> GraphsOf(const Lowering& lowering, const Mesh& mesh,
                                            std::vector<Sharding>& shardings) {
  std::vector<Graph> graphs;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    ASSIGN_OR_RETURN(Graph graph, LocalGraph(lowering, rank, shardings));
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

}  // namespace

absl::StatusOr<std::vector<Graph>> LowerSharded(const ShardedOp& split, const Mesh& mesh) {
  ASSIGN_OR_RETURN(Lowering lowering, Describe(split, mesh));
  std::vector<Sharding> shardings;
  return GraphsOf(lowering, mesh, shardings);
}

absl::StatusOr<ShardedRun> RunSharded(const ShardedOp& split, const Mesh& mesh,
                                      KernelList kernels) {
  ASSIGN_OR_RETURN(Lowering lowering, Describe(split, mesh));
  ShardedRun run;
  ASSIGN_OR_RETURN(run.graphs, GraphsOf(lowering, mesh, run.shardings));
  std::mt19937_64 unused;
  std::vector<HostTensors> inputs(mesh.ranks());
  for (size_t i = 0; i < split.operands.size(); ++i) {
    const std::vector<HostTensor> parts =
        TakeApart(split.operands[i], lowering.spec.x_shardings[i], mesh, unused, false);
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      inputs[rank][absl::StrCat("x", i)] = parts[rank];
    }
  }
  ASSIGN_OR_RETURN(run.runs, RunGraphsOnRanks(mesh, run.graphs, inputs, kernels));
  ASSIGN_OR_RETURN(Types results, split.op->Infer({lowering.spec.operand_types, split.attributes}));
  for (size_t i = 0; i < results.size(); ++i) {
    ASSIGN_OR_RETURN(HostTensor result, PutTogether(results[i], run.shardings[i], mesh,
                                                    OutputOf(run.runs, absl::StrCat("y", i))));
    run.results.push_back(std::move(result));
  }
  return run;
}

std::vector<HostTensor> RunWhole(const ShardedOp& split) {
  const Types types = TypesOf(split.operands);
  absl::StatusOr<Types> results = split.op->Infer({types, split.attributes});
  CHECK_OK(results.status());
  std::vector<HostTensor> y;
  std::vector<const void*> sources;
  std::vector<void*> targets;
  for (const HostTensor& x : split.operands) sources.push_back(x.raw());
  for (const Type& type : *results) y.emplace_back(type);
  for (HostTensor& tensor : y) targets.push_back(tensor.raw());
  KernelArgs args{sources, targets};
  const Reference* reference = FindReference(split.op->name());
  CHECK(reference != nullptr) << split.op->name();
  reference->run(ReferenceCall(split.attributes, types, *results, args));
  return y;
}

}  // namespace colossus
