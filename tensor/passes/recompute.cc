#include "tensor/passes/recompute.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
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
        stale_(graph.nodes().size(), false),
        times_(graph.nodes().size(), 0),
        clones_(graph.values().size(), kNoValue) {}

  absl::StatusOr<Rewritten> Run(const std::vector<std::string>& blocks) {
    for (const std::string& block : blocks) RETURN_IF_ERROR(FindClonable(block));
    return Rewrite();
  }

  absl::StatusOr<Rewritten> RunCheap(bool attention, const std::set<std::string>& blocks) {
    attention_ = attention;
    FindCheap(blocks);
    return Rewrite();
  }

  absl::StatusOr<Rewritten> RunChain(const std::vector<std::string>& blocks,
                                     const std::vector<std::vector<int>>& again) {
    CHECK_EQ(blocks.size(), again.size());
    RETURN_IF_ERROR(FindChain(blocks));
    again_ = again;
    return Rewrite();
  }

 private:
  absl::StatusOr<Rewritten> Rewrite() {
    for (size_t n = 0; n < old_.nodes().size(); ++n) {
      NodeId node = static_cast<NodeId>(n);
      if (!RunsBackward(old_.node(node))) {
        rewriter_.Keep(node);
        continue;
      }
      BeginBackward(old_.node(node).block);
      KeepGradient(node);
    }
    return std::move(rewriter_).Finish();
  }

  // Where the backward of a block of the chain begins, forgets what is to be forgotten.
  void BeginBackward(const std::string& block) {
    auto found = chain_.find(SourceBlock(block));
    if (found == chain_.end()) return;
    std::vector<int>& forgotten = again_[found->second];
    for (int b : forgotten) {
      for (NodeId node : chain_nodes_[b]) stale_[node] = true;
    }
    forgotten.clear();
  }

  // Marks the nodes that RecomputeCheap clones.
  void FindCheap(const std::set<std::string>& blocks);
  bool IsCheap(const Node& node) const;
  // Marks the block's nodes none of whose results is kept.
  absl::Status FindClonable(const std::string& block);
  // Finds the nodes of each block that can be made again.
  absl::Status FindChain(const std::vector<std::string>& blocks);
  // Copies a gradient node, its operands remade where they are not kept.
  void KeepGradient(NodeId node);
  // Emits the clones that make `value`, those it needs first, unless they are there.
  void Remake(ValueId value);

  // New id under which a gradient or a clone reads an old value.
  ValueId Source(ValueId v) const { return clones_[v] != kNoValue ? clones_[v] : rewriter_.Map(v); }
  bool NeedsRemake(ValueId v) const {
    NodeId producer = old_.value(v).producer;
    return producer != kNoNode && stale_[producer];
  }
  // A number that no clone of the node has.
  int NextClone(NodeId node) {
    const std::string& name = old_.value(old_.node(node).results[0]).name;
    do {
      ++times_[node];
    } while (old_.FindValue(absl::StrCat(name, ".clone", times_[node])) != kNoValue);
    return times_[node];
  }

  const Graph& old_;
  GraphRewriter rewriter_;
  bool attention_ = false;      // counts as cheap
  std::vector<bool> stale_;  // by old node: its results are not kept, and not yet made again
  std::vector<int> times_;   // by old node: it has been cloned
  ValueIds clones_;          // by old value: its latest clone in the new graph
  // Of RecomputeChain: blocks by tag, and by number what of them can be made again and when.
  std::map<std::string, size_t, std::less<>> chain_;
  std::vector<std::vector<NodeId>> chain_nodes_;
  std::vector<std::vector<int>> again_;
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
    stale_[n] =
        std::none_of(node.results.begin(), node.results.end(), [&](ValueId v) { return kept[v]; });
  }
  return absl::OkStatus();
}

absl::Status Recomputation::FindChain(const std::vector<std::string>& blocks) {
  for (const std::string& block : blocks) chain_.emplace(block, chain_.size());
  chain_nodes_.resize(blocks.size());
  std::vector<bool> kept(old_.values().size(), false);
  for (const Node& node : old_.nodes()) {
    if (RunsBackward(node) || chain_.count(node.block) > 0) continue;
    for (ValueId v : node.operands) kept[v] = true;
  }
  for (const Output& output : old_.outputs()) kept[output.value] = true;
  for (const State& state : old_.states()) kept[state.out] = true;
  std::vector<bool> found(blocks.size(), false);
  for (size_t n = 0; n < old_.nodes().size(); ++n) {
    const Node& node = old_.nodes()[n];
    auto block = chain_.find(node.block);
    if (block == chain_.end() || RunsBackward(node)) continue;
    found[block->second] = true;
    const bool any =
        std::any_of(node.results.begin(), node.results.end(), [&](ValueId v) { return kept[v]; });
    if (!any) chain_nodes_[block->second].push_back(static_cast<NodeId>(n));
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (found[b]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "recompute: graph '", old_.name(), "' has no forward block '", blocks[b], "'"));
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

void Recomputation::FindCheap(const std::set<std::string>& blocks) {
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
    stale_[n] = (blocks.empty() || blocks.count(node.block) > 0) && there &&
                any(node.results, read) && !any(node.results, ends) && IsCheap(node);
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
    const int number = NextClone(producer);
    ValueIds clones = rewriter_.Clone(producer, std::move(operands), number,
                                      absl::StrCat(".clone", number));
    for (size_t i = 0; i < node.results.size(); ++i) clones_[node.results[i]] = clones[i];
    stale_[producer] = false;
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

absl::StatusOr<Rewritten> RecomputeCheap(const Graph& graph, const std::set<std::string>& blocks) {
  return Recomputation(graph).RunCheap(/*attention=*/false, blocks);
}

absl::StatusOr<Rewritten> RecomputeSelective(const Graph& graph,
                                             const std::set<std::string>& blocks) {
  return Recomputation(graph).RunCheap(/*attention=*/true, blocks);
}

absl::StatusOr<Rewritten> RecomputeChain(const Graph& graph, const std::vector<std::string>& blocks,
                                         const std::vector<std::vector<int>>& again) {
  return Recomputation(graph).RunChain(blocks, again);
}

}  // namespace colossus
