// A rank's part of a sharded value: which elements it holds, and the type of what it holds.
//
// Purpose: the one place that turns a Sharding and a Mesh into coordinates. A dim that is split
// over several axes is split by the first of them first (major to minor), so rank r of the group
// over these axes (Mesh::IndexIn) holds the r-th of equal parts.
// Thread-safety: pure functions. Ownership: none.
//
//   ASSIGN_OR_RETURN(Slice slice, SliceOf({8, 6}, {{{"data"}, {}}, {}}, mesh, rank));
//   ASSIGN_OR_RETURN(Type local, LocalType(type, sharding, mesh));   // the same on every rank
#ifndef COLOSSUS_TENSOR_GRAPH_MESH_SLICE_H_
#define COLOSSUS_TENSOR_GRAPH_MESH_SLICE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/mesh.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/types.h"

namespace colossus {

// No dim split and nothing partial.
Sharding Replicated(int rank);

// Error: InvalidArgument if the number of dims differs, an axis is not the mesh's or is used twice,
// or the parts of a dim would not be equal, naming dim, extent and axes.
absl::Status CheckSharding(absl::Span<const int64_t> dims, const Sharding& sharding,
                           const Mesh& mesh);

// The errors of all of these are those of CheckSharding.
absl::StatusOr<Slice> SliceOf(absl::Span<const int64_t> dims, const Sharding& sharding,
                              const Mesh& mesh, int rank);
absl::StatusOr<Type> LocalType(const Type& global, const Sharding& sharding, const Mesh& mesh);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_MESH_SLICE_H_
