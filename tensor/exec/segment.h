// Segment: a part of a step that is compiled once and run for every micro-batch.
//
// Purpose: cuts a graph into consecutive parts. Values that cross a cut become outputs of the
// segment that makes them and feeds of those that read them, under their own names; states stay
// states, found by name. Cuts are given per node, so blocks, stages or single nodes can be cut.
// Thread-safety: plain functions. Ownership: a segment owns its graph.
//
//   ASSIGN_OR_RETURN(std::vector<Segment> parts, CutIntoSegments(graph, CutAtBlocks(graph)));
#ifndef COLOSSUS_TENSOR_EXEC_SEGMENT_H_
#define COLOSSUS_TENSOR_EXEC_SEGMENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/graph/graph.h"

namespace colossus {

struct Segment {
  std::string name;                    // "h.3", "h.3.grad", "update"
  std::shared_ptr<const Graph> graph;  // shared with the executable compiled from it
};

// part_of[node] = part index, from 0, non-decreasing along every data dependence (an operand's
// producer has the same or a smaller part). The parts keep the order of the graph's nodes inside;
// a part without nodes is left out. Feeds and states that no node reads or makes belong to no part.
// Outputs of the whole graph stay outputs of the part that makes them. A value that crosses is an
// output named as the value.
// A state read in one part and updated in another is read by both; its update is in the part that
// makes the end value.
// Error: InvalidArgument for a decreasing part index; a state that a later part reads after an
// earlier one updated it, or whose end value no node makes; an output that no node makes, or that
// has the name of another value.
absl::StatusOr<std::vector<Segment>> CutIntoSegments(const Graph& graph,
                                                     const std::vector<int>& part_of);

// A cut wherever the block tag changes along the node order.
std::vector<int> CutAtBlocks(const Graph& graph);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_SEGMENT_H_
