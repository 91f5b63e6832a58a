#include "parallel/pipeline/block_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/string_view.h"
#include "tensor/graph/block.h"
#include "tensor/ops/op.h"

namespace colossus {
namespace {

// By first and end block.
std::vector<std::vector<double>> Table(size_t blocks, const std::vector<HeldByBlocks>& held) {
  std::vector<std::vector<double>> table(blocks + 1, std::vector<double>(blocks + 1, 0));
  for (size_t first = 0; first < blocks; ++first) {
    std::vector<double> added(blocks, 0);  // by the first block from here on that has it
    for (const HeldByBlocks& item : held) {
      const auto at = std::lower_bound(item.blocks.begin(), item.blocks.end(), first);
      if (at != item.blocks.end()) added[*at] += item.bytes;
    }
    for (size_t end = first + 1; end <= blocks; ++end) {
      table[first][end] = table[first][end - 1] + added[end - 1];
    }
  }
  return table;
}

// The value that has the memory.
ValueId BehindViews(const Graph& graph, ValueId v) {
  while (graph.value(v).producer != kNoNode) {
    const Node& node = graph.node(graph.value(v).producer);
    const Types operands = graph.OperandTypes(node);
    if (!node.op->IsView({operands, node.attributes})) break;
    v = node.operands[0];
  }
  return v;
}

class BlockIndex {
 public:
  explicit BlockIndex(const std::vector<std::string>& blocks) {
    for (size_t b = 0; b < blocks.size(); ++b) index_[blocks[b]] = b;
  }
  size_t Of(const Node& node) const {
    const auto found = index_.find(SourceBlock(node.block));
    return found == index_.end() ? 0 : found->second;
  }

 private:
  std::map<absl::string_view, size_t> index_;
};

std::vector<HeldByBlocks> StatesOf(const Graph& graph, const BlockIndex& index,
                                   const std::function<double(const State&)>& bytes_of_state) {
  const std::vector<std::vector<NodeId>> uses = graph.Uses();
  std::vector<HeldByBlocks> held;
  for (const State& state : graph.states()) {
    std::set<size_t> readers;
    for (NodeId reader : uses[static_cast<size_t>(state.in)]) {
      readers.insert(index.Of(graph.node(reader)));
    }
    if (readers.empty()) readers.insert(0);
    held.push_back({bytes_of_state(state), {readers.begin(), readers.end()}});
  }
  return held;
}

// What is made forward and read backward.
std::vector<HeldByBlocks> ActivationsOf(const Graph& graph, const BlockIndex& index) {
  std::map<ValueId, std::set<size_t>> readers;
  for (const Node& node : graph.nodes()) {
    if (!RunsBackward(node)) continue;
    for (ValueId operand : node.operands) {
      const ValueId v = BehindViews(graph, operand);
      const NodeId maker = graph.value(v).producer;
      if (maker == kNoNode || RunsBackward(graph.node(maker))) continue;
      readers[v].insert(index.Of(node));
    }
  }
  std::vector<HeldByBlocks> held;
  for (const auto& [v, blocks] : readers) {
    held.push_back(
        {static_cast<double>(graph.value(v).type.bytes()), {blocks.begin(), blocks.end()}});
  }
  return held;
}

}  // namespace

BlockMemory::BlockMemory(size_t blocks, const std::vector<HeldByBlocks>& states,
                         const std::vector<HeldByBlocks>& activations)
    : states_(Table(blocks, states)), activations_(Table(blocks, activations)) {}

BlockMemory BlockMemory::Of(const Graph& graph, const std::vector<std::string>& blocks,
                            const std::function<double(const State&)>& bytes_of_state) {
  const BlockIndex index(blocks);
  return BlockMemory(blocks.size(), StatesOf(graph, index, bytes_of_state),
                     ActivationsOf(graph, index));
}

}  // namespace colossus
