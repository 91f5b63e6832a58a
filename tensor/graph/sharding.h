// Sharding: how a value is laid out over the named axes of a mesh.
//
// Purpose: the annotation that planners write, propagation completes and the partitioner reads.
// "axis" is always the mesh's, "dim" the tensor's.
// Thread-safety: plain values. Ownership: owns its strings.
//
//   Sharding s;
//   s.dims = {{"data"}, {}, {"tensor"}};   // dim 0 split over data, dim 2 over tensor
//   s.partial = {};                        // no pending sum
#ifndef COLOSSUS_TENSOR_GRAPH_SHARDING_H_
#define COLOSSUS_TENSOR_GRAPH_SHARDING_H_

#include <string>
#include <vector>

#include "tensor/graph/types.h"

namespace colossus {

using AxisNames = std::vector<std::string>;

struct Sharding {
  std::vector<AxisNames> dims;  // per dim, major to minor; axes not named anywhere replicate
  AxisNames partial;            // axes over which the value is a sum still to be added up

  friend bool operator==(const Sharding& a, const Sharding& b) {
    return a.dims == b.dims && a.partial == b.partial;
  }
};

// One rank's part of a tensor, in global coordinates (elements).
struct Slice {
  Dims origin, extent, global;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_SHARDING_H_
