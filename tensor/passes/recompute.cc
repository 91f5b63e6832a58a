#include "tensor/passes/recompute.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/graph/block.h"

namespace colossus {
namespace {

// A node with fewer flops a byte waits for memory on every device: an activation takes some ten
// flops an element, a product that is worth its name hundreds a byte.
constexpr double kCheapFlopsPerByte = 16;

class Recomputation {
 public:
  explicit Recomputation(const Graph& graph)
      : old_(graph),
        rewriter_(graph),
        clonable_(graph.nodes().size(), false),
        clones_(graph.values().size(), kNoValue) {}

  absl::StatusOr<Rewritten> Run(const std::vector<std::string>& blocks) {
    for (const std::string& block : blocks) RETURN_IF_ERROR(FindClonable(block));
    return Rewrite();
  }

  absl::StatusOr<Rewritten> RunCheap(bool attention) {
    attention_ = attention;
    FindCheap();
    return Rewrite();
  }

 private:
  absl::StatusOr<Rewritten> Rewrite() {
    for (size_t n = 0; n < old_.nodes().size(); ++n) {
      NodeId node = static_cast<NodeId>(n);
      if (IsGradientBlock(old_.node(node).block))
        KeepGradient(node);
      else
        rewriter_.Keep(node);
    }
    return std::move(rewriter_).Finish();
  }

  // Marks the nodes that RecomputeCheap clones.
  void FindCheap();
  bool IsCheap(const Node& node) const;
  // Marks the block's nodes none of whose results is kept.
  absl::Status FindClonable(const std::string& block);
  // Copies a gradient node, its operands remade where they are not kept.
  void KeepGradient(NodeId node);
  // Emits the clones that make `value`, those it needs first, unless they are there.
  void Remake(ValueId value);

  // New id under which a gradient or a clone reads an old value.
  ValueId Source(ValueId v) const { return clones_[v] != kNoValue ? clones_[v] : rewriter_.Map(v); }
  bool NeedsRemake(ValueId v) const {
    NodeId producer = old_.value(v).producer;
    return producer != kNoNode && clonable_[producer] && clones_[v] == kNoValue;
  }

  const Graph& old_;
  GraphRewriter rewriter_;
  bool attention_ = false;      // counts as cheap
  std::vector<bool> clonable_;  // by old node
  ValueIds clones_;             // by old value: its clone in the new graph
};

absl::Status Recomputation::FindClonable(const std::string& block) {
  auto inside = [&](const Node& node) { return node.block == block && node.clone == 0; };
  std::vector<bool> kept(old_.values().size(), false);
  bool found = false;
  for (const Node& node : old_.nodes()) {
    if (inside(node))
      found = true;
    else if (!IsGradientBlock(node.block)) {
      for (ValueId v : node.operands) kept[v] = true;
    }
  }
  if (!found || IsGradientBlock(block)) {
    return absl::InvalidArgumentError(
        absl::StrCat("recompute: graph '", old_.name(), "' has no forward block '", block, "'"));
  }
  for (const Output& output : old_.outputs()) kept[output.value] = true;
  for (const State& state : old_.states()) kept[state.out] = true;
  for (size_t n = 0; n < old_.nodes().size(); ++n) {
    const Node& node = old_.nodes()[n];
    if (!inside(node)) continue;
    clonable_[n] =
        std::none_of(node.results.begin(), node.results.end(), [&](ValueId v) { return kept[v]; });
  }
  return absl::OkStatus();
}

bool Recomputation::IsCheap(const Node& node) const {
  if (attention_ && node.op->name() == "attention") return true;
  const Types operands = old_.OperandTypes(node);
  const OpCall call{operands, node.attributes};
  if (node.op->IsView(call)) return false;
  const Cost cost = node.op->CostOf(call);
  return cost.flops > 0 && cost.flops <= kCheapFlopsPerByte * cost.bytes;
}

void Recomputation::FindCheap() {
  // Alive in the backward without our doing, and what gradients read.
  std::vector<bool> kept(old_.values().size(), false), read(old_.values().size(), false);
  for (ValueId feed : old_.feeds()) kept[feed] = true;
  for (const State& state : old_.states()) kept[state.in] = state.out == state.in;
  for (const Node& node : old_.nodes()) {
    if (!IsGradientBlock(node.block)) continue;
    for (ValueId v : node.operands) read[v] = true;
  }
  std::vector<bool> ends(old_.values().size(), false);
  for (const Output& output : old_.outputs()) ends[output.value] = true;
  for (const State& state : old_.states()) ends[state.out] = true;
  for (size_t n = 0; n < old_.nodes().size(); ++n) {
    const Node& node = old_.nodes()[n];
    if (RunsBackward(node)) continue;
    auto any = [](const ValueIds& values, const std::vector<bool>& marks) {
      return std::any_of(values.begin(), values.end(), [&](ValueId v) { return marks[v]; });
    };
    const bool there =
        std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId v) { return kept[v]; });
    clonable_[n] = there && any(node.results, read) && !any(node.results, ends) && IsCheap(node);
    // A clone of a clone's value is made from clones.
    for (ValueId v : node.results) kept[v] = read[v];
  }
}

void Recomputation::Remake(ValueId value) {
  // Depth first without recursion: chains may be as long as the block.
  std::vector<ValueId> stack = {value};
  while (!stack.empty()) {
    ValueId v = stack.back();
    if (!NeedsRemake(v)) {
      stack.pop_back();
      continue;
    }
    NodeId producer = old_.value(v).producer;
    const Node& node = old_.node(producer);
    size_t before = stack.size();
    for (size_t i = node.operands.size(); i-- > 0;) {
      if (NeedsRemake(node.operands[i])) stack.push_back(node.operands[i]);
    }
    if (stack.size() != before) continue;  // operands first
    stack.pop_back();
    ValueIds operands;
    for (ValueId operand : node.operands) operands.push_back(Source(operand));
    ValueIds clones = rewriter_.Clone(producer, std::move(operands), 1, ".clone1");
    for (size_t i = 0; i < node.results.size(); ++i) clones_[node.results[i]] = clones[i];
  }
}

void Recomputation::KeepGradient(NodeId n) {
  const Node& node = old_.node(n);
  for (ValueId v : node.operands) Remake(v);
  ValueIds operands;
  for (ValueId v : node.operands) operands.push_back(Source(v));
  rewriter_.Replace(n, rewriter_.Clone(n, std::move(operands), node.clone, ""));
}

}  // namespace

absl::StatusOr<Rewritten> Recompute(const Graph& graph, const std::vector<std::string>& blocks) {
  return Recomputation(graph).Run(blocks);
}

absl::StatusOr<Rewritten> RecomputeCheap(const Graph& graph) {
  return Recomputation(graph).RunCheap(/*attention=*/false);
}

absl::StatusOr<Rewritten> RecomputeSelective(const Graph& graph) {
  return Recomputation(graph).RunCheap(/*attention=*/true);
}

}  // namespace colossus
