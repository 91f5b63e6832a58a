#include "parallel/recompute_layers.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/graph/block.h"
#include "tensor/ops/op.h"
#include "tensor/passes/pass.h"
#include "tensor/passes/recompute.h"

namespace colossus {
namespace {

// Parts of a budget. The programme takes the number of stages to the third power, so few of them
// for long chains, but more than stages: each rounds up what it keeps.
int SlotsFor(size_t stages) {
  constexpr size_t kLong = 64;
  return stages <= kLong ? 400 : static_cast<int>(std::max<size_t>(200, 2 * stages));
}

// Sizes and times of the blocks of one graph.
struct BlockSizes {
  double forward_seconds = 0, backward_seconds = 0;
  int64_t output_bytes = 0, saved_bytes = 0;
};

class Measurer {
 public:
  Measurer(const Graph& graph, const std::vector<std::string>& blocks, const DeviceRates& rates)
      : graph_(graph), rates_(rates), sizes_(blocks.size()) {
    for (size_t b = 0; b < blocks.size(); ++b) index_[blocks[b]] = b;
  }

  std::vector<BlockSizes> Run() {
    FindRoots();
    std::vector<bool> crosses(graph_.values().size(), false), saved(crosses);
    for (const Node& node : graph_.nodes()) {
      AddSeconds(node);
      for (ValueId v : node.operands) {
        const ValueId root = root_[v];
        if (RunsBackward(node)) {
          saved[root] = true;
        } else if (BlockOf(root) != node.block) {
          crosses[root] = true;
        }
      }
    }
    for (size_t v = 0; v < root_.size(); ++v) {
      const NodeId producer = graph_.value(static_cast<ValueId>(v)).producer;
      if (producer == kNoNode || RunsBackward(graph_.node(producer))) continue;
      auto block = index_.find(graph_.node(producer).block);
      if (block == index_.end()) continue;
      const int64_t bytes = graph_.value(static_cast<ValueId>(v)).type.bytes();
      if (crosses[v]) sizes_[block->second].output_bytes += bytes;
      if (crosses[v] || saved[v]) sizes_[block->second].saved_bytes += bytes;
    }
    return std::move(sizes_);
  }

 private:
  // Views have no bytes of their own.
  void FindRoots() {
    for (size_t v = 0; v < graph_.values().size(); ++v) root_.push_back(static_cast<ValueId>(v));
    for (const Node& node : graph_.nodes()) {
      const Types operands = graph_.OperandTypes(node);
      if (!node.op->IsView({operands, node.attributes})) continue;
      for (ValueId v : node.results) root_[v] = root_[node.operands[0]];
    }
  }

  const std::string& BlockOf(ValueId value) const {
    static const std::string kNone;
    const NodeId producer = graph_.value(value).producer;
    return producer == kNoNode ? kNone : graph_.node(producer).block;
  }

  void AddSeconds(const Node& node) {
    auto block = index_.find(SourceBlock(node.block));
    const Types operands = graph_.OperandTypes(node);
    const OpCall call{operands, node.attributes};
    if (block == index_.end() || node.op->IsView(call)) return;
    const double seconds = OpSeconds(rates_, node.op->CostOf(call), operands);
    BlockSizes& sizes = sizes_[block->second];
    (RunsBackward(node) ? sizes.backward_seconds : sizes.forward_seconds) += seconds;
  }

  const Graph& graph_;
  const DeviceRates& rates_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<BlockSizes> sizes_;
  std::vector<ValueId> root_;
};

}  // namespace

absl::StatusOr<std::vector<RecomputeStage>> ChainOfLayers(const Graph& graph,
                                                      const std::vector<std::string>& blocks,
                                                      const DeviceRates& rates) {
  std::vector<RecomputeStage> chain;
  int64_t input_bytes = 0;
  for (const BlockSizes& sizes : Measurer(graph, blocks, rates).Run()) {
    RecomputeStage& stage = chain.emplace_back();
    stage.forward_seconds = sizes.forward_seconds;
    stage.backward_seconds = sizes.backward_seconds;
    stage.output_bytes = stage.gradient_bytes = sizes.output_bytes;
    stage.saved_bytes = sizes.saved_bytes;
    stage.backward_bytes = input_bytes;
    input_bytes = sizes.output_bytes;
  }
  ASSIGN_OR_RETURN(Rewritten cheap, RecomputeCheap(graph));
  ASSIGN_OR_RETURN(Rewritten selective, RecomputeSelective(graph));
  for (const Graph* way : {&cheap.graph, &selective.graph}) {
    const std::vector<BlockSizes> sizes = Measurer(*way, blocks, rates).Run();
    for (size_t b = 0; b < chain.size(); ++b) {
      chain[b].other_ways.push_back({sizes[b].saved_bytes, sizes[b].backward_seconds});
    }
  }
  return chain;
}

absl::StatusOr<LayerBytes> BytesOfLayers(const Graph& graph, const std::vector<std::string>& blocks,
                                         const DeviceRates& rates) {
  ASSIGN_OR_RETURN(const std::vector<RecomputeStage> chain, ChainOfLayers(graph, blocks, rates));
  int64_t saved = 0, beside = 0;
  for (const RecomputeStage& stage : chain) {
    saved += stage.saved_bytes;
    beside = std::max(beside, stage.gradient_bytes + stage.backward_bytes);
  }
  // What `parts` sizes need when each is rounded up to a slot.
  const int64_t slots = SlotsFor(chain.size());
  auto rounded = [&](int64_t bytes, int64_t parts) {
    return bytes * slots / (slots - parts) + slots;
  };
  LayerBytes bytes;
  bytes.least = rounded(LeastRecomputeBudget(chain), /*parts=*/5);
  bytes.all = rounded(saved + beside, /*parts=*/static_cast<int64_t>(chain.size()) + 5);
  bytes.all = std::max(bytes.all, bytes.least);
  return bytes;
}

absl::StatusOr<Rewritten> RecomputeWithin(const Graph& graph,
                                          const std::vector<std::string>& blocks,
                                          const DeviceRates& rates, int64_t budget_bytes) {
  ASSIGN_OR_RETURN(const std::vector<RecomputeStage> chain, ChainOfLayers(graph, blocks, rates));
  const absl::StatusOr<RecomputePlan> planned =
      PlanRecompute(chain, {.budget_bytes = budget_bytes, .slots = SlotsFor(chain.size())});
  if (!planned.ok()) {
    return absl::Status(planned.status().code(),
                        absl::StrCat("plan.recompute_budget: ", planned.status().message(),
                                     "; give more, or 0 to have it found"));
  }
  const RecomputePlan& plan = *planned;
  std::set<std::string> cheap, selective;
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (plan.way[b] == 1) cheap.insert(blocks[b]);
    if (plan.way[b] == 2) selective.insert(blocks[b]);
  }
  // What makes single values again first: RecomputeChain makes again what that reads, too.
  PassPipeline pipeline;
  if (!cheap.empty()) {
    pipeline.Add("cheap", [&](const Graph& g) { return RecomputeCheap(g, cheap); });
  }
  if (!selective.empty()) {
    pipeline.Add("selective", [&](const Graph& g) { return RecomputeSelective(g, selective); });
  }
  pipeline.Add("chain", [&](const Graph& g) { return RecomputeChain(g, blocks, plan.again); });
  return pipeline.Run(graph);
}

}  // namespace colossus
