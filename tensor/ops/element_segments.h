// ElementSegments: which elements of which tensors the buffers of a node hold.
//
// Purpose: random numbers are a function of (seed, update, site, global element), but an optimizer
// update sees flat buffers: a tensor, a rank's part of it, a shard of a chunk of several. Segments
// say which elements these are, as attributes of the node: "sites" (a name each) and "segments"
// (numbers, see .cc). ElementRuns walks them in runs of consecutive elements.
// Thread-safety: plain values and functions.
//
//   SetSegments(attributes, {WholeSegment("w", {6, 4})});
//   ElementRuns runs(attributes);
//   runs.ForEach(/*buffer=*/0, begin, end,
//                [](int64_t at, int64_t count, uint64_t site, uint64_t element) { ... });
#ifndef COLOSSUS_TENSOR_OPS_ELEMENT_SEGMENTS_H_
#define COLOSSUS_TENSOR_OPS_ELEMENT_SEGMENTS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"

namespace colossus {

// Elements [at, at + count) of a buffer are the elements [first, first + count), in row-major
// order, of the box `dims` at `origin` of a tensor with dims `global`.
struct ElementSegment {
  std::string site = {};
  int buffer = 0;
  int64_t at = 0, count = 0, first = 0;
  Dims dims = {}, origin = {}, global = {};
};

// A whole tensor in a buffer of its own.
ElementSegment WholeSegment(std::string site, const Dims& dims);

void SetSegments(Attributes& attributes, const std::vector<ElementSegment>& segments);

// Error: InvalidArgument, with the constraint's name, where the attributes are no segments inside
// buffers of these numbers of elements, ascending.
absl::Status CheckSegments(const Attributes& attributes, absl::string_view constraint,
                           const std::vector<int64_t>& buffer_elements);

class ElementRuns {
 public:
  // REQUIRES: CheckSegments is ok. Without the attributes: none.
  explicit ElementRuns(const Attributes& attributes);

  // Calls fn(at, count, site, element) for each run of elements [at, at + count) of a buffer's
  // [begin, end) that are elements element, element + 1, ... of the tensor SiteId(name) = site. In
  // order; what is in no segment is left out.
  template <class Fn>
  void ForEach(int buffer, int64_t begin, int64_t end, Fn fn) const {
    for (const Segment& s : segments_) {
      if (s.buffer != buffer) continue;
      const int64_t high = std::min(end, s.at + s.count);
      for (int64_t at = std::max(begin, s.at); at < high;) {
        const int64_t local = s.first + at - s.at, row = s.dims.back();
        const int64_t count = std::min(high - at, row - local % row);
        fn(at, count, s.site, static_cast<uint64_t>(s.Element(local)));
        at += count;
      }
    }
  }

 private:
  struct Segment {
    // Of the tensor, for an index in the box.
    int64_t Element(int64_t local) const;

    uint64_t site = 0;
    int buffer = 0;
    int64_t at = 0, count = 0, first = 0;
    Dims dims, origin, strides;  // dims that are whole are merged with the one before
  };
  std::vector<Segment> segments_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_ELEMENT_SEGMENTS_H_
