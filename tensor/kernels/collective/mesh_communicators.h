// MeshCommunicators: a rank's communicators, by the axes of a mesh.
//
// Purpose: collectives of a graph name axes; this finds, and makes when first asked, the
// communicator of the ranks that differ along these axes only. Each set of axes, in its order, has
// a communicator of its own on each channel: streams that run collectives at the same time take
// different channels. All ranks of a group must ask for it in the same order, which holds where
// they plan the same program. Thread-safety: none while communicators are made; the communicators
// are used as their contract says. Ownership: owns the communicators of groups; the world outlives
// it.
//
//   MeshCommunicators ranks(mesh, world);
//   ASSIGN_OR_RETURN(Communicator * tensor, ranks.On({"tensor"}));
#ifndef COLOSSUS_TENSOR_KERNELS_COLLECTIVE_MESH_COMMUNICATORS_H_
#define COLOSSUS_TENSOR_KERNELS_COLLECTIVE_MESH_COMMUNICATORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/communicator.h"
#include "collectives/mesh.h"
#include "tensor/graph/sharding.h"

namespace colossus {

class MeshCommunicators {
 public:
  // REQUIRES: the world has the mesh's ranks, which are `first`, first + 1, ... of it.
  MeshCommunicators(Mesh mesh, Communicator& world, int first = 0);
  MeshCommunicators(const MeshCommunicators&) = delete;
  MeshCommunicators& operator=(const MeshCommunicators&) = delete;

  const Mesh& mesh() const { return mesh_; }
  int rank() const { return world_.rank() - first_; }  // in the mesh
  Communicator& world() { return world_; }

  // Ranks along `axes`, and this one's place among them. {kWorldAxis}: those of the job.
  int64_t SizeOf(const AxisNames& axes) const;
  int IndexIn(const AxisNames& axes) const;

  // The group along `axes`, its ranks numbered as IndexIn does. The first call for these axes
  // and this channel is collective over the group. Error: InvalidArgument for an axis that the mesh
  // does not have; those of Communicator::Subgroup.
  absl::StatusOr<Communicator*> On(const AxisNames& axes, absl::string_view channel = "");

  // The two ranks at places `from` and `to` along `axes`, for what `from` sends: it is rank 0 of
  // the pair. One pair for each direction, since those that go both ways need not agree on the
  // order. REQUIRES: this rank is one of them. Error: as On.
  absl::StatusOr<Communicator*> Pair(const AxisNames& axes, int from, int to,
                                     absl::string_view channel = "");

  // What this rank has sent, by axes ("data", "tensor.row,tensor.column"), all channels together.
  std::map<std::string, CollectiveCounts> counts() const;

 private:
  absl::Status CheckAxes(const AxisNames& axes) const;
  // Ranks of the world.
  std::vector<int> GroupOf(const AxisNames& axes) const;

  const Mesh mesh_;
  Communicator& world_;
  const int first_;

  // By axes and channel; for pairs the channel is "<from>-<to>/<channel>".
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Communicator>> groups_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_COLLECTIVE_MESH_COMMUNICATORS_H_
