// Dims, types and ids: the vocabulary of the graph.
//
// Purpose: the few plain structs that ops, kernels, passes and executors share without needing the
// graph itself.
// Thread-safety: plain values. Ownership: none; everything is copied.
//
//   Type t{DType::kF32, {2, 16, 32}};
//   t.elements();   // 1024
//   t.bytes();      // 4096
//   ToString(t);    // "f32[2,16,32]"
#ifndef COLOSSUS_TENSOR_GRAPH_TYPES_H_
#define COLOSSUS_TENSOR_GRAPH_TYPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"

namespace colossus {

// Extents of a dense row-major tensor, outermost first. Empty: a scalar (0-d), one element. An
// extent may be 0.
using Dims = absl::InlinedVector<int64_t, 6>;

// Product of the extents; 1 for a scalar.
int64_t ElementCount(absl::Span<const int64_t> dims);

// Row-major strides in elements, same length as `dims`.
Dims RowMajorStrides(absl::Span<const int64_t> dims);

// "[2,16,32]"; "[]" for a scalar.
std::string DimsToString(absl::Span<const int64_t> dims);

// What a value is: element type and extents. For a bounded dim the extent is the static maximum;
// the extent at run time is a separate i32 value that the few ops concerned take as an operand.
struct Type {
  DType dtype = DType::kF32;
  Dims dims;

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t elements() const { return ElementCount(dims); }
  int64_t bytes() const { return elements() * SizeOf(dtype); }

  friend bool operator==(const Type& a, const Type& b) {
    return a.dtype == b.dtype && a.dims == b.dims;
  }
  friend bool operator!=(const Type& a, const Type& b) { return !(a == b); }
};
using Types = std::vector<Type>;

// "f32[2,16,32]"; "f32[]" for a scalar.
std::string ToString(const Type& type);

// Index of a value or a node in its graph. Valid in that graph only.
using ValueId = int32_t;
using NodeId = int32_t;
using ValueIds = std::vector<ValueId>;
inline constexpr ValueId kNoValue = -1;
inline constexpr NodeId kNoNode = -1;

// The kinds of memory a value may live in.
enum class Tier : uint8_t { kDevice, kHost, kDisk };
absl::string_view Name(Tier tier);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_TYPES_H_
