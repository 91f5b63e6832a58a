#include "tensor/passes/fusion.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tensor/ops/chain.h"

namespace colossus {
namespace {

constexpr size_t kMaxResults = 4;

// What chains compute fast: floats up to 32 bits and what compares them.
bool Fits(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 ||
         dtype == DType::kBool;
}

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : old_(graph),
        rewriter_(graph),
        uses_(graph.Uses()),
        leaves_(graph.values().size(), false),
        region_of_(graph.nodes().size(), -1) {
    for (const Output& output : graph.outputs()) leaves_[output.value] = true;
    for (const State& state : graph.states()) leaves_[state.out] = true;
  }

  absl::StatusOr<Rewritten> Run() {
    for (size_t n = 0; n < old_.nodes().size(); ++n) {
      if (MayJoin(old_.nodes()[n])) Grow(static_cast<NodeId>(n));
    }
    for (size_t n = 0; n < old_.nodes().size(); ++n) {
      const NodeId node = static_cast<NodeId>(n);
      if (region_of_[n] < 0) {
        rewriter_.Keep(node);
        continue;
      }
      const Region& region = regions_[region_of_[n]];
      if (region.back() != node) continue;
      if (region.size() == 1) rewriter_.Keep(node);
      else Emit(region);
    }
    return std::move(rewriter_).Finish();
  }

 private:
  using Region = std::vector<NodeId>;  // ascending

  const Type& type(ValueId v) const { return old_.value(v).type; }

  bool MayJoin(const Node& node) const {
    if (!IsChainable(*node.op, node.attributes)) return false;
    if (type(node.results[0]).elements() == 0) return false;
    if (!Fits(type(node.results[0]).dtype)) return false;
    // A conversion to bool has no fast loop.
    if (node.op->name() == "convert" && type(node.results[0]).dtype == DType::kBool) return false;
    // Dropout's key and first row are no part of the iteration space.
    const auto end = node.op->name() == "dropout" ? node.operands.begin() + 1 : node.operands.end();
    return std::all_of(node.operands.begin(), end,
                       [&](ValueId v) { return Fits(type(v).dtype); });
  }

  // Starts a region with the node and takes in those that make its operands, as far as they may.
  void Grow(NodeId n) {
    const Node& node = old_.node(n);
    Region region = {n};
    region_of_[n] = static_cast<int>(regions_.size());
    for (ValueId v : node.operands) {
      const NodeId producer = old_.value(v).producer;
      if (producer == kNoNode || region_of_[producer] < 0) continue;
      if (region_of_[producer] == region_of_[n]) continue;
      const Node& made = old_.node(producer);
      if (made.block != node.block || made.clone != node.clone) continue;
      if (type(v).dims != type(node.results[0]).dims) continue;
      Region joined = regions_[region_of_[producer]];
      joined.insert(joined.end(), region.begin(), region.end());
      std::sort(joined.begin(), joined.end());
      if (!Legal(joined)) continue;
      regions_[region_of_[producer]].clear();
      for (NodeId member : joined) region_of_[member] = region_of_[n];
      region = std::move(joined);
    }
    regions_.push_back(std::move(region));
  }

  // Whether the nodes may run as one where the last of them stands.
  bool Legal(const Region& region) const {
    auto outside = [&](NodeId n) { return !std::binary_search(region.begin(), region.end(), n); };
    for (NodeId member : region) {
      for (NodeId reader : uses_[old_.node(member).results[0]]) {
        if (reader < region.back() && outside(reader)) return false;
      }
    }
    return region.size() <= kMaxChainSteps && Operands(region).size() <= kMaxChainOperands &&
           Results(region).size() <= kMaxResults;
  }

  // What the region reads, in the order in which it reads it.
  ValueIds Operands(const Region& region) const {
    ValueIds operands;
    for (NodeId member : region) {
      for (ValueId v : old_.node(member).operands) {
        const NodeId producer = old_.value(v).producer;
        if (producer != kNoNode && std::binary_search(region.begin(), region.end(), producer)) {
          continue;
        }
        if (std::find(operands.begin(), operands.end(), v) == operands.end()) operands.push_back(v);
      }
    }
    return operands;
  }

  // Members whose value is needed outside, or nowhere.
  Region Results(const Region& region) const {
    Region results;
    for (NodeId member : region) {
      const ValueId v = old_.node(member).results[0];
      const bool inside = std::all_of(uses_[v].begin(), uses_[v].end(), [&](NodeId reader) {
        return std::binary_search(region.begin(), region.end(), reader);
      });
      if (leaves_[v] || !inside || uses_[v].empty()) results.push_back(member);
    }
    return results;
  }

  void Emit(const Region& region) {
    const ValueIds operands = Operands(region);
    ChainProgram program;
    program.operands = static_cast<int>(operands.size());
    for (NodeId member : region) {
      const Node& node = old_.node(member);
      ChainStep step{node.op, {}, node.attributes};
      for (ValueId v : node.operands) step.values.push_back(IndexOf(v, operands, region));
      program.steps.push_back(std::move(step));
    }
    std::vector<std::string> names;
    const Region results = Results(region);
    for (NodeId member : results) {
      program.results.push_back(IndexOf(old_.node(member).results[0], operands, region) -
                                program.operands);
      names.push_back(old_.value(old_.node(member).results[0]).name);
    }
    AddChain(region, program, operands, results, names);
  }

  void AddChain(const Region& region, const ChainProgram& program, const ValueIds& operands,
                const Region& results, const std::vector<std::string>& names) {
    GraphBuilder& builder = rewriter_.builder();
    ValueIds mapped;
    for (ValueId v : operands) mapped.push_back(rewriter_.Map(v));
    BlockScope scope(builder, old_.node(region.back()).block);
    builder.SetClone(old_.node(region.back()).clone);
    const ValueIds made =
        builder.ApplyNamed(ChainOp(), std::move(mapped), program.ToAttributes(), names);
    builder.SetClone(0);
    for (size_t i = 0; i < results.size(); ++i) {
      const Value& value = old_.value(old_.node(results[i]).results[0]);
      builder.Annotate(made[i], value.sharding, value.tier);
      rewriter_.Replace(results[i], {made[i]});
    }
  }

  // Of a chain's values: operands, then steps.
  int IndexOf(ValueId v, const ValueIds& operands, const Region& region) const {
    const auto operand = std::find(operands.begin(), operands.end(), v);
    if (operand != operands.end()) return static_cast<int>(operand - operands.begin());
    const auto step = std::lower_bound(region.begin(), region.end(), old_.value(v).producer);
    return static_cast<int>(operands.size() + (step - region.begin()));
  }

  const Graph& old_;
  GraphRewriter rewriter_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> leaves_;    // by value: an output or a state's end
  std::vector<int> region_of_;  // by node; -1: may not be joined
  std::vector<Region> regions_;
};

}  // namespace

absl::StatusOr<Rewritten> Fusion(const Graph& graph) { return Fuser(graph).Run(); }

}  // namespace colossus
