// The rule for names of values and outputs of a graph.
//
// Thread-safe: a pure function.
//
//   IsValueName("h.0/attention.r1");   // true
#ifndef COLOSSUS_TENSOR_GRAPH_VALUE_NAME_H_
#define COLOSSUS_TENSOR_GRAPH_VALUE_NAME_H_

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace colossus {

// Whether `name` is made of letters, digits and _ . / - and not empty.
inline bool IsValueName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-';
  });
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_VALUE_NAME_H_
