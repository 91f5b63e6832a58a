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

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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

// Whether `axis` is the axis `whole` of a plan or, where a mesh has it in pieces, one of them:
// "tensor.group", "tensor.row" and the like.
inline bool IsOfAxis(absl::string_view axis, absl::string_view whole) {
  return axis == whole || absl::StartsWith(axis, absl::StrCat(whole, "."));
}

// The axis `whole` of a plan, as the mesh has it.
inline AxisNames PiecesOf(absl::string_view whole, const Mesh& mesh) {
  AxisNames pieces;
  for (const MeshAxis& axis : mesh.axes()) {
    if (IsOfAxis(axis.name, whole)) pieces.push_back(axis.name);
  }
  return pieces;
}

// Axes along which ranks hold the same parameters and see other tokens: "data", "sequence".
inline bool SplitsTokens(absl::string_view axis) {
  return axis == "data" || IsOfAxis(axis, "sequence");
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
