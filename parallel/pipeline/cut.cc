#include "parallel/pipeline/cut.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/check.h"
#include "tensor/graph/block.h"
#include "tensor/ops/op.h"

namespace colossus {
namespace {

// Sums of the first blocks, from 0.
std::vector<double> Prefixes(const std::vector<double>& seconds) {
  std::vector<double> sums = {0};
  for (double s : seconds) sums.push_back(sums.back() + s);
  return sums;
}

constexpr double kNever = std::numeric_limits<double>::infinity();

// The first block of each part, such that what `worse` makes of the costs of parts is least; parts
// that cost more than `most` are not allowed. Of equal cuts the one whose last part is longest.
template <typename Worse>
std::pair<double, std::vector<size_t>> BestCut(const std::vector<double>& sums,
                                               const std::vector<double>& speeds, double most,
                                               Worse worse) {
  const int parts = static_cast<int>(speeds.size());
  const size_t blocks = sums.size() - 1;
  std::vector<std::vector<double>> best(parts + 1, std::vector<double>(blocks + 1, kNever));
  std::vector<std::vector<size_t>> from(parts + 1, std::vector<size_t>(blocks + 1, 0));
  best[0][0] = 0;
  for (int p = 1; p <= parts; ++p) {
    for (size_t end = p; end <= blocks; ++end) {
      for (size_t begin = p - 1; begin < end; ++begin) {
        const double part = (sums[end] - sums[begin]) / speeds[p - 1];
        if (best[p - 1][begin] == kNever || part > most) continue;
        const double cost = worse(best[p - 1][begin], part);
        if (cost < best[p][end]) {
          best[p][end] = cost;
          from[p][end] = begin;
        }
      }
    }
  }
  std::vector<size_t> firsts;
  for (size_t p = parts, end = blocks; p > 0; --p) {
    end = from[p][end];
    firsts.insert(firsts.begin(), end);
  }
  return {best[parts][blocks], std::move(firsts)};
}

bool IsBackward(ActionKind kind) { return kind != ActionKind::kForward; }

}  // namespace

int ModelCut::PartOf(absl::string_view tag) const {
  auto found = part_of_block.find(SourceBlock(tag));
  return found == part_of_block.end() ? 0 : found->second;
}

std::vector<double> BlockSeconds(const Graph& graph, const std::vector<std::string>& blocks,
                                 const DeviceRates& rates) {
  std::map<absl::string_view, size_t> index;
  for (size_t b = 0; b < blocks.size(); ++b) index[blocks[b]] = b;
  std::vector<double> seconds(blocks.size(), 0);
  for (const Node& node : graph.nodes()) {
    auto found = index.find(SourceBlock(node.block));
    const Types operands = graph.OperandTypes(node);
    const OpCall call{operands, node.attributes};
    if (found == index.end() || node.op->IsView(call)) continue;
    seconds[found->second] += OpSeconds(rates, node.op->CostOf(call), operands);
  }
  return seconds;
}

ModelCut CutBalanced(const std::vector<std::string>& blocks, const std::vector<double>& seconds,
                     int parts, const std::vector<double>& speeds) {
  CHECK(parts >= 1 && parts <= static_cast<int>(blocks.size()));
  CHECK_EQ(blocks.size(), seconds.size());
  const std::vector<double> sums = Prefixes(seconds);
  const std::vector<double> all =
      speeds.empty() ? std::vector<double>(static_cast<size_t>(parts), 1) : speeds;
  CHECK_EQ(all.size(), static_cast<size_t>(parts));
  const double most = BestCut(sums, all, kNever, [](double longest, double part) {
                        return std::max(longest, part);
                      }).first;
  const std::vector<size_t> firsts =
      BestCut(sums, all, most, [](double sum, double part) { return sum + part * part; }).second;
  std::vector<std::string> borders;
  for (size_t p = 1; p < firsts.size(); ++p) borders.push_back(blocks[firsts[p]]);
  return CutAtBorders(blocks, borders);
}

ModelCut CutAtBorders(const std::vector<std::string>& blocks,
                      const std::vector<std::string>& borders) {
  ModelCut cut;
  size_t passed = 0;
  for (const std::string& block : blocks) {
    if (passed < borders.size() && borders[passed] == block) ++passed;
    cut.part_of_block[block] = static_cast<int>(passed);
  }
  CHECK_EQ(passed, borders.size());
  cut.parts = static_cast<int>(borders.size()) + 1;
  return cut;
}

std::vector<std::string> BordersOf(const std::vector<std::string>& blocks, const ModelCut& cut) {
  std::vector<std::string> borders;
  for (size_t b = 1; b < blocks.size(); ++b) {
    if (cut.PartOf(blocks[b]) != cut.PartOf(blocks[b - 1])) borders.push_back(blocks[b]);
  }
  return borders;
}

std::vector<Work> WorkOfNodes(const Graph& graph, const ModelCut& cut, bool split_backward,
                              const std::set<std::string>& sent) {
  std::vector<Work> works;
  for (const Node& node : graph.nodes()) {
    const ActionKind backward = split_backward ? ActionKind::kBackwardInput : ActionKind::kBackward;
    works.push_back({RunsBackward(node) ? backward : ActionKind::kForward, cut.PartOf(node.block)});
  }
  if (!split_backward) return works;
  // From the end: what backward does is for gradients of weights alone if nothing but such work of
  // the same part reads it. What is an output of it, or dead, is a gradient.
  const std::vector<std::vector<NodeId>> uses = graph.Uses();
  std::set<ValueId> read_elsewhere;
  for (const std::string& name : sent) read_elsewhere.insert(graph.FindOutput(name));
  for (size_t n = works.size(); n-- > 0;) {
    if (!IsBackward(works[n].kind)) continue;
    bool weight = true;
    for (ValueId v : graph.nodes()[n].results) {
      weight = weight && read_elsewhere.count(v) == 0;
      for (NodeId reader : uses[v]) {
        const Work& other = works[static_cast<size_t>(reader)];
        weight = weight && other.kind == ActionKind::kBackwardWeight && other.part == works[n].part;
      }
    }
    if (weight) works[n].kind = ActionKind::kBackwardWeight;
  }
  return works;
}

int PlaceOf(const Work& work, int parts) {
  if (!IsBackward(work.kind)) return work.part;
  return parts + 2 * (parts - 1 - work.part) + (work.kind == ActionKind::kBackwardWeight ? 1 : 0);
}

GraphCut CutGraph(const Graph& graph, const ModelCut& cut, bool split_backward,
                  const std::set<std::string>& sent) {
  const std::vector<Work> works = WorkOfNodes(graph, cut, split_backward, sent);
  std::map<int, std::vector<size_t>> nodes_of;
  for (size_t n = 0; n < works.size(); ++n) nodes_of[PlaceOf(works[n], cut.parts)].push_back(n);
  GraphCut pieces;
  pieces.piece_of.resize(works.size());
  for (const auto& [when, nodes] : nodes_of) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const std::string& block = graph.nodes()[nodes[i]].block;
      if (i == 0 || block != graph.nodes()[nodes[i - 1]].block) {
        pieces.works.push_back(works[nodes[i]]);
      }
      pieces.piece_of[nodes[i]] = static_cast<int>(pieces.works.size()) - 1;
    }
  }
  return pieces;
}

}  // namespace colossus
