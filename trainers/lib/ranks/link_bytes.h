// LinkBytes: what a rank puts on its links in each update, by the axes of the plan's mesh.
//
// Thread-safety: one thread a rank; Next is collective over the group. Ownership: the communicators
// must outlive it.
//
//   LinkBytes links(own.communicators.get(), layout.mesh);
//   ASSIGN_OR_RETURN(auto bytes, links.Next(group));   // {"data": 1048576, "tensor": 0}
#ifndef COLOSSUS_TRAINERS_LIB_RANKS_LINK_BYTES_H_
#define COLOSSUS_TRAINERS_LIB_RANKS_LINK_BYTES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/mesh.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

class LinkBytes {
 public:
  // `communicators`: null on one rank. `mesh`: as the plan writes it.
  LinkBytes(const MeshCommunicators* communicators, std::vector<MeshAxis> mesh);

  // Bytes sent since the last call, at first since this was made; of all ranks, those of the one
  // that sent most. Every axis of the mesh is there, and "data,sequence" where a group lies along
  // several. Empty on one rank.
  absl::StatusOr<std::map<std::string, int64_t>> Next(RankGroup group);

 private:
  const MeshCommunicators* communicators_;
  std::vector<MeshAxis> mesh_;
  std::map<std::string, int64_t> before_;  // by the axes of the communicators
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RANKS_LINK_BYTES_H_
