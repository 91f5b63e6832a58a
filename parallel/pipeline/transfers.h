// Transfers: how a value gets from the ranks of one stage to those of another.
//
// Purpose: stages may have different meshes, and a value that crosses lies on each as that mesh
// splits it. A receiver gets each element that it holds once: of the ranks that have the same part
// of the value, one that follows from the receiver's number sends what both have in common, so that
// copies share the work. Where both stages have the same mesh and sharding, each rank sends to the
// one at its own place.
// Thread-safety: plain functions. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(Transfers transfers, PlanTransfers({8, 6}, on_first, on_second));
//   AddSends(builder, x, transfers, rank, ranks, "send/x");              // on each rank of `from`
//   ValueId x = AddReceives(builder, DType::kF32, transfers, rank, ranks, "receive/x");
#ifndef COLOSSUS_PARALLEL_PIPELINE_TRANSFERS_H_
#define COLOSSUS_PARALLEL_PIPELINE_TRANSFERS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "collectives/mesh.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/types.h"

namespace colossus {

// A value on the ranks of a stage, which are first, first + 1, ... of the job.
struct StageLayout {
  Mesh mesh;
  int first = 0;
  // `partial`, of a receiver only: the first rank along these axes gets the value and the others
  // hold zeros, so that the sum over them is the value. A sender's sums are made whole before.
  Sharding sharding;
};

struct Transfer {
  int from = 0, to = 0;  // ranks of the job
  Dims origin, extent;   // of the elements, in global coordinates
};

struct Transfers {
  std::vector<Transfer> list;  // in the order in which all ranks come to them
  std::map<int, Slice> parts;  // what each rank of either stage holds, by rank of the job
};

// By receiver, then by place in the value. Error: InvalidArgument for a sharding that does not fit
// dims and mesh.
absl::StatusOr<Transfers> PlanTransfers(const Dims& dims, const StageLayout& from,
                                        const StageLayout& to);

// The sends of `rank` out of `ranks`, from its part of the value; each is an output. Returns their
// number.
int AddSends(GraphBuilder& builder, ValueId part, const Transfers& transfers, int rank, int ranks,
             absl::string_view site);

// This rank's part, put together from what it receives; zeros where it receives nothing.
ValueId AddReceives(GraphBuilder& builder, DType dtype, const Transfers& transfers, int rank,
                    int ranks, absl::string_view site);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_TRANSFERS_H_
