// ReadChunks: a graph that reads parameters becomes one that reads chunks.
//
// Purpose: each block that reads parameters gets them as views of their chunks (tensor/ops/pack.h).
// Where a rank holds only a shard of a chunk's parameters, the whole chunk comes as a feed:
// gathered for the pass of a block, forward or backward, and kept for the next one if that reads it
// too; a link segment of its own makes it (block_calls.h issues it one pass ahead). Thread-safety:
// plain functions. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(ChunkedGraph chunked, ReadChunks(micro_batch, layout));
//   ASSIGN_OR_RETURN(Segment gather, GatherSegment(layout, chunked.passes[3], 3));
#ifndef COLOSSUS_PARALLEL_ZERO_READ_CHUNKS_H_
#define COLOSSUS_PARALLEL_ZERO_READ_CHUNKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parallel/zero/layout.h"
#include "tensor/exec/segment.h"
#include "tensor/graph/graph.h"

namespace colossus {

// Consecutive parts of one block and group, all forward or all backward, as their first nodes are.
struct BlockPass {
  int first_part = 0, last_part = 0;
  std::vector<int> gathered;  // chunks that are gathered for it, and were not for the pass before
};

struct ChunkedGraph {
  Graph graph;
  std::vector<int> part_of;  // per node
  std::vector<BlockPass> passes;
};

// "gathered/<pass>/chunk/3": the feed that is chunk 3, gathered for that pass.
std::string GatheredName(const ZeroChunk& chunk, int pass);
bool IsGatheredName(absl::string_view name);

// `graph`: of this rank, not cut yet; its parts stay the same. Error: Unimplemented for an output
// that is a parameter itself.
absl::StatusOr<ChunkedGraph> ReadChunks(const Graph& graph, const ZeroLayout& layout);
// The same with parts as for CutIntoSegments, none empty. `group_of`: of each part; groups may run
// far from each other, so nothing that is gathered is kept from one to the next.
absl::StatusOr<ChunkedGraph> ReadChunks(const Graph& graph, const ZeroLayout& layout,
                                        std::vector<int> part_of, const std::vector<int>& group_of);

// Makes the feeds of `pass`. REQUIRES: it gathers something.
absl::StatusOr<Segment> GatherSegment(const ZeroLayout& layout, const BlockPass& pass, int index);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_ZERO_READ_CHUNKS_H_
