// Block tags: which part of the model a node belongs to, and whether it runs backward.
//
// A gradient node's tag is its forward node's with ".grad" appended, so the mark stands in graph
// text and survives every pass. A forward node recomputed for the backward keeps its tag and has a
// clone number above 0. Thread-safety: functions of their arguments.
//
//   GradientBlock("h.3");          // "h.3.grad"
//   IsGradientBlock("h.3.grad");   // true
//   SourceBlock("h.3.grad");       // "h.3"; a forward tag as it is
//   RunsBackward(node);            // a gradient node, or a recomputed one
#ifndef COLOSSUS_TENSOR_GRAPH_BLOCK_H_
#define COLOSSUS_TENSOR_GRAPH_BLOCK_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tensor/graph/graph.h"

namespace colossus {

inline constexpr absl::string_view kGradientSuffix = ".grad";

inline std::string GradientBlock(absl::string_view block) {
  return absl::StrCat(block, kGradientSuffix);
}

inline bool IsGradientBlock(absl::string_view block) {
  return absl::EndsWith(block, kGradientSuffix);
}

// A view of `block`.
inline absl::string_view SourceBlock(absl::string_view block) {
  return absl::StripSuffix(block, kGradientSuffix);
}

inline bool RunsBackward(const Node& node) {
  return node.clone > 0 || IsGradientBlock(node.block);
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_BLOCK_H_
