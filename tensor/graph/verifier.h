// Verify: what every graph must satisfy, whoever made it.
//
// Purpose: runs around passes (tensor/passes/pass.h) and names the constraint that is broken:
//   graph_c1  names: value names and output names are unique and well formed
//   graph_c2  single assignment: a value is a feed, the start of one state or one node's result
//   graph_c3  order: operands are feeds, states or results of earlier nodes
//   graph_c4  types: a node's results have the types its op infers
//   graph_c5  states: paired once; named like their start value; end and start have one type; two
//             states do not end in one value; no state ends in another's start
//   graph_c6  state records: one logical axis per global dim; dims on disk hold as many elements;
//             the value has no extent above the global one, but for zeros behind the axes vocab
//             and mlp; not tied to itself
//   graph_c7  factors: the op's factor rule has a value per operand and result and binds to their
//             types
//   graph_c8  annotations: a sharding has one entry per dim and uses each mesh axis at most once
//   graph_c9  outputs and updates refer to values of the graph
// Thread-safety: a function of its argument.
//
//   RETURN_IF_ERROR(Verify(graph));   // "graph_c3: 'h.0/y' reads 'h.1/x' ..."
#ifndef COLOSSUS_TENSOR_GRAPH_VERIFIER_H_
#define COLOSSUS_TENSOR_GRAPH_VERIFIER_H_

#include "absl/status/status.h"
#include "tensor/graph/graph.h"

namespace colossus {

// Error: Internal (a pass or a builder is wrong) with the constraint and the node as text.
absl::Status Verify(const Graph& graph);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_VERIFIER_H_
