// Mesh: ranks arranged over named axes.
//
// Purpose: one place that knows which rank stands where. Ranks are numbered row-major over the
// axes, the first axis slowest, so ranks next to each other along the last axis are neighbours.
// "axis" is always the mesh's, "dim" a tensor's.
// Thread-safety: immutable when made. Ownership: owns its names.
//
//   ASSIGN_OR_RETURN(Mesh mesh, Mesh::Make({{"data", 2}, {"tensor", 4}}));
//   mesh.Group(5, {"tensor"});         // {4, 5, 6, 7}
//   mesh.IndexIn(5, {"tensor"});       // 1
#ifndef COLOSSUS_COLLECTIVES_MESH_H_
#define COLOSSUS_COLLECTIVES_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace colossus {

// One named axis of a mesh: "data", "tensor", "sequence", "expert"; a part of one has a dotted
// name, "tensor.row".
struct MeshAxis {
  std::string name;
  int64_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

class Mesh {
 public:
  Mesh() = default;  // one rank, no axes
  // Error: InvalidArgument for a size below 1, a name that is empty or given twice, or more than
  // 2^20 ranks.
  static absl::StatusOr<Mesh> Make(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int ranks() const { return ranks_; }
  // 1 for an axis that the mesh does not have.
  int64_t SizeOf(absl::string_view axis) const;
  // The product over several axes.
  int64_t SizeOf(absl::Span<const std::string> axes) const;
  // Of `rank`, along `axis`; 0 for an axis that the mesh does not have.
  int64_t Coordinate(int rank, absl::string_view axis) const;
  // The ranks that differ from `rank` along `axes` only, ordered by their coordinates along `axes`,
  // the first of `axes` slowest; and where `rank` stands among them.
  std::vector<int> Group(int rank, absl::Span<const std::string> axes) const;
  int IndexIn(int rank, absl::Span<const std::string> axes) const;

  friend bool operator==(const Mesh& a, const Mesh& b) { return a.axes_ == b.axes_; }

 private:
  std::vector<MeshAxis> axes_;
  int ranks_ = 1;
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_MESH_H_
