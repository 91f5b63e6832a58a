// Lists of mesh axes, as shardings are made of them.
//
// Thread-safety: plain functions.
//
//   SplitAxes({{{"data"}, {"tensor"}}, {}});        // {"data", "tensor"}
//   InMeshOrder({"tensor", "data"}, mesh);          // {"data", "tensor"}
#ifndef COLOSSUS_PARALLEL_SHARDING_AXES_H_
#define COLOSSUS_PARALLEL_SHARDING_AXES_H_

#include <algorithm>
#include <string>

#include "collectives/mesh.h"
#include "tensor/graph/sharding.h"

namespace colossus {

inline bool HasAxis(const AxisNames& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Every axis that splits a dim, dim by dim.
inline AxisNames SplitAxes(const Sharding& sharding) {
  AxisNames all;
  for (const AxisNames& axes : sharding.dims) all.insert(all.end(), axes.begin(), axes.end());
  return all;
}

// `axes` in the mesh's order, each once.
inline AxisNames InMeshOrder(const AxisNames& axes, const Mesh& mesh) {
  AxisNames ordered;
  for (const MeshAxis& axis : mesh.axes()) {
    if (HasAxis(axes, axis.name)) ordered.push_back(axis.name);
  }
  return ordered;
}

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_SHARDING_AXES_H_
