// Graph text: the form of a graph that people read, diff and type.
//
// Purpose: exact: ParseGraph(ToText(g)) prints the same bytes, so dumps can be run again, tests can
// state what a pass makes, and "did the pass change anything?" is a comparison of strings.
// Thread-safety: functions of their arguments. Ownership: everything is returned by value.
//
//   graph gpt2 {
//     feed %ids: i64[2,16]
//     state %wte: f32[99,32] {role=parameter, global=[99,32], disk=[99,32], axes=[vocab, embed],
//                             trainable, decayed, init=normal(0x1p-5)}       (on one line)
//     %embed/x: f32[2,16,32] sharded([data], [], []) tier(host) = embedding(%wte, %ids) @embed
//     %h.0/y: f32[2,16,32], %h.0/m: f32[2,16] = norm(%embed/x) {eps=0x1p-20} @h.0 clone=1
//     update %m = %m.next
//     output loss = %loss
//   }
//
// A statement is a feed, a state, a node, an update or an output; values are defined before use.
//   node      results = op(operands) {attributes} @block clone=n; what is empty or 0 is left out
//   attribute true | 3 | 0x1.8p+1 | inf | "text" | [1, 2] | []i (empty list of integers; f, s)
//   sharded   one list of mesh axes per dim, major to minor; axes of a pending sum after `;`
//   comment   `#` to the end of the line; lost when parsed
// A name that does not look like a word ([A-Za-z_.][A-Za-z0-9_./-]*) is written in quotes.
#ifndef COLOSSUS_TENSOR_GRAPH_TEXT_H_
#define COLOSSUS_TENSOR_GRAPH_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/graph/graph.h"

namespace colossus {

// Feeds, states, nodes, updates, outputs, each in the graph's order.
std::string ToText(const Graph& graph);

// One node as in ToText, without indentation or line end: for messages.
std::string ToText(const Graph& graph, const Node& node);

// "sharded([data], []; [tensor])".
std::string ToText(const Sharding& sharding);

// Reads what ToText writes, and spaces, line breaks and comments anywhere between tokens. Every
// node passes its op's Infer and the written types must agree. Never crashes or takes memory beyond
// a multiple of the text's size, whatever the text. Error: InvalidArgument
// "line 3, column 7: ...".
absl::StatusOr<Graph> ParseGraph(absl::string_view text);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_TEXT_H_
