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

// Of each part of blocks [first, end): seconds and bytes.
class PartSizes {
 public:
  PartSizes(const std::vector<double>& seconds, int parts, const Balance& balance)
      : parts_(parts), sums_(Prefixes(seconds)), balance_(balance) {
    if (balance_.speeds.empty()) balance_.speeds.assign(static_cast<size_t>(parts), 1);
    CHECK_EQ(balance_.speeds.size(), static_cast<size_t>(parts));
  }

  int parts() const { return parts_; }
  size_t blocks() const { return sums_.size() - 1; }
  double Seconds(int part, size_t first, size_t end) const {
    return (sums_[end] - sums_[first]) / balance_.speeds[static_cast<size_t>(part)];
  }
  double Bytes(int part, size_t first, size_t end) const {
    return balance_.bytes ? balance_.bytes(part, first, end) : 0;
  }

 private:
  int parts_;
  std::vector<double> sums_;
  Balance balance_;
};

// What no part may exceed.
struct Most {
  double seconds = kNever, bytes = kNever;
};

// The first block of each part, such that what `worse` makes of the costs of parts, from the first
// to the last, is least. Of equal cuts the one whose last part is longest. kNever: there is none.
template <typename Cost, typename Worse>
std::pair<double, std::vector<size_t>> BestCut(const PartSizes& sizes, const Most& most, Cost cost,
                                               Worse worse) {
  const auto parts = static_cast<size_t>(sizes.parts());
  const size_t blocks = sizes.blocks();
  std::vector<std::vector<double>> best(parts + 1, std::vector<double>(blocks + 1, kNever));
  std::vector<std::vector<size_t>> from(parts + 1, std::vector<size_t>(blocks + 1, 0));
  best[0][0] = 0;
  for (size_t p = 1; p <= parts; ++p) {
    const int part = static_cast<int>(p) - 1;
    for (size_t end = p; end <= blocks; ++end) {
      for (size_t begin = p - 1; begin < end; ++begin) {
        if (best[p - 1][begin] == kNever || sizes.Seconds(part, begin, end) > most.seconds ||
            sizes.Bytes(part, begin, end) > most.bytes) {
          continue;
        }
        const double all = worse(best[p - 1][begin], cost(part, begin, end));
        if (all < best[p][end]) {
          best[p][end] = all;
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

// One aim after the other, each among the cuts that are best by those before.
std::vector<size_t> FirstsOfBalanced(const PartSizes& sizes, const Balance& balance) {
  const auto larger = [](double a, double b) { return std::max(a, b); };
  const auto seconds = [&](int part, size_t first, size_t end) {
    return sizes.Seconds(part, first, end);
  };
  Most most;
  most.bytes = balance.most_bytes;
  most.seconds = BestCut(sizes, most, seconds, larger).first;
  if (most.seconds == kNever) {
    most.bytes = kNever;
    most.seconds = BestCut(sizes, most, seconds, larger).first;
  }
  if (balance.bytes) {
    const auto bytes = [&](int part, size_t first, size_t end) {
      return sizes.Bytes(part, first, end);
    };
    most.bytes = BestCut(sizes, most, bytes, larger).first;
  }
  return BestCut(sizes, most, seconds, [](double sum, double part) {
           return sum + part * part;
         }).second;
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
                     int parts, const Balance& balance) {
  CHECK(parts >= 1 && parts <= static_cast<int>(blocks.size()));
  CHECK_EQ(blocks.size(), seconds.size());
  const std::vector<size_t> firsts =
      FirstsOfBalanced(PartSizes(seconds, parts, balance), balance);
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
