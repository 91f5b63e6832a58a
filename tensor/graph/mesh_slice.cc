#include "tensor/graph/mesh_slice.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace colossus {
namespace {

absl::Status CheckAxes(const AxisNames& axes, const Mesh& mesh, std::set<std::string>& used) {
  for (const std::string& axis : axes) {
    bool known = std::any_of(mesh.axes().begin(), mesh.axes().end(),
                             [&](const MeshAxis& known) { return known.name == axis; });
    if (!known)
      return absl::InvalidArgumentError(absl::StrCat("the mesh has no axis '", axis, "'"));
    if (!used.insert(axis).second) {
      return absl::InvalidArgumentError(absl::StrCat("axis '", axis, "' is used twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Sharding Replicated(int rank) { return {std::vector<AxisNames>(rank), {}}; }

absl::Status CheckSharding(absl::Span<const int64_t> dims, const Sharding& sharding,
                           const Mesh& mesh) {
  if (sharding.dims.size() != dims.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a sharding of ", sharding.dims.size(),
                                                   " dims for a value of ", DimsToString(dims)));
  }
  std::set<std::string> used;
  RETURN_IF_ERROR(CheckAxes(sharding.partial, mesh, used));
  for (size_t d = 0; d < dims.size(); ++d) {
    RETURN_IF_ERROR(CheckAxes(sharding.dims[d], mesh, used));
    const int64_t parts = mesh.SizeOf(sharding.dims[d]);
    if (dims[d] % parts != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dim ", d, " of ", DimsToString(dims), " cannot be split over ",
          absl::StrJoin(sharding.dims[d], ", "), ": ", dims[d], " is not divisible by ", parts));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Slice> SliceOf(absl::Span<const int64_t> dims, const Sharding& sharding,
                              const Mesh& mesh, int rank) {
  RETURN_IF_ERROR(CheckSharding(dims, sharding, mesh));
  Slice slice{Dims(dims.size(), 0), Dims(dims.begin(), dims.end()), Dims(dims.begin(), dims.end())};
  for (size_t d = 0; d < dims.size(); ++d) {
    slice.extent[d] /= mesh.SizeOf(sharding.dims[d]);
    slice.origin[d] = slice.extent[d] * mesh.IndexIn(rank, sharding.dims[d]);
  }
  return slice;
}

absl::StatusOr<Type> LocalType(const Type& global, const Sharding& sharding, const Mesh& mesh) {
  RETURN_IF_ERROR(CheckSharding(global.dims, sharding, mesh));
  Type local = global;
  for (size_t d = 0; d < local.dims.size(); ++d) local.dims[d] /= mesh.SizeOf(sharding.dims[d]);
  return local;
}

}  // namespace colossus
