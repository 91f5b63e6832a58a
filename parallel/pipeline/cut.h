// Cut: which part of a pipeline each piece of a model's graph belongs to.
//
// Purpose: the blocks of a model are cut into consecutive parts, balanced by what their ops cost
// and what they hold (block_memory.h), or at given borders. A differentiated graph then falls into
// the work of actions (action.h): by its block tag a node is of a part, and it runs forward,
// backward, or, if only gradients of parameters need it, in backward-weight. Any graph with block
// tags can be cut: values may cross any border, also past several parts (messages.h).
// Thread-safety: plain functions. Ownership: plain values.
//
//   ModelCut cut = CutBalanced(blocks, BlockSeconds(graph, blocks, rates), parts,
//                              {.bytes = bytes});
//   GraphCut pieces = CutGraph(micro_batch, cut, /*split_backward=*/true);
//   CutIntoSegments(micro_batch, pieces.piece_of);   // segment i is of pieces.works[i]
#ifndef COLOSSUS_PARALLEL_PIPELINE_CUT_H_
#define COLOSSUS_PARALLEL_PIPELINE_CUT_H_

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "parallel/pipeline/action.h"
#include "tensor/cost/device_rates.h"
#include "tensor/graph/graph.h"

namespace colossus {

struct ModelCut {
  std::map<std::string, int, std::less<>> part_of_block;
  int parts = 1;

  // Of a node with that block tag, forward or gradient. A tag that is no block: part 0.
  int PartOf(absl::string_view tag) const;
};

// What the nodes of each block take, forward and backward.
std::vector<double> BlockSeconds(const Graph& graph, const std::vector<std::string>& blocks,
                                 const DeviceRates& rates = {});

// Besides seconds, what counts for balance.
struct Balance {
  std::vector<double> speeds;  // of the parts; a block takes its seconds divided by it; none: all 1
  // Bytes that a part of blocks [first, end) holds at most at once; more blocks never hold less.
  // None: not counted.
  std::function<double(int part, size_t first, size_t end)> bytes;
  double most_bytes = std::numeric_limits<double>::infinity();  // that a part may hold
};

// Of the cuts whose parts hold no more than they may, or of all if there is none, those whose
// longest part is shortest; of these those whose fullest part holds least; of these the most even
// one. REQUIRES: 1 <= parts <= blocks.
ModelCut CutBalanced(const std::vector<std::string>& blocks, const std::vector<double>& seconds,
                     int parts, const Balance& balance = {});

// `borders`: the first block of each part but the first. REQUIRES: blocks, in their order.
ModelCut CutAtBorders(const std::vector<std::string>& blocks,
                      const std::vector<std::string>& borders);
// The borders at which CutAtBorders makes this cut. REQUIRES: as there.
std::vector<std::string> BordersOf(const std::vector<std::string>& blocks, const ModelCut& cut);

// Whose work a piece of a graph is.
struct Work {
  ActionKind kind = ActionKind::kForward;
  int part = 0;
  friend bool operator==(const Work&, const Work&) = default;
  friend auto operator<=>(const Work&, const Work&) = default;
};

// Of each node. Without `split_backward` all that is not forward is kBackward. `sent`: outputs that
// are no gradients, since other stages read them.
std::vector<Work> WorkOfNodes(const Graph& graph, const ModelCut& cut, bool split_backward,
                              const std::set<std::string>& sent = {});
// Its place among all, as CutGraph puts it.
int PlaceOf(const Work& work, int parts);

// A graph in pieces of one block each, in an order in which they may run: forward by part, then
// backwards, the weights of a part right behind its backward.
struct GraphCut {
  std::vector<int> piece_of;  // per node
  std::vector<Work> works;    // per piece
};
GraphCut CutGraph(const Graph& graph, const ModelCut& cut, bool split_backward,
                  const std::set<std::string>& sent = {});

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_CUT_H_
