#include "parallel/zero/held_ranges.h"

#include <algorithm>

#include "parallel/sharding/axes.h"
#include "tensor/optim/update.h"

namespace colossus {
namespace {

// The axes of more than one rank that are not in `holding`. Stages hold different states; what is
// tied between some of them is the first one's.
AxisNames Others(const Mesh& mesh, const AxisNames& holding) {
  AxisNames others;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name == "stage") continue;
    if (axis.size > 1 && !HasAxis(holding, axis.name)) others.push_back(axis.name);
  }
  return others;
}

}  // namespace

std::vector<HeldRange> HeldRanges(const ZeroLayout& layout, const LocalState& state,
                                  const Mesh& mesh, int rank) {
  const Role role = state.info.role;
  const ChunkedParameter* parameter = layout.Find(ParameterName(role, state.info.name));
  AxisNames holding = SplitAxes(state.sharding);
  if (parameter == nullptr) {
    const AxisNames copies = Others(mesh, holding);
    const bool owner = state.owned() && mesh.IndexIn(rank, copies) == 0;
    return {{0, state.type.elements(), state.info.name, 0, owner, copies}};
  }
  const ZeroChunk& chunk = layout.chunks()[parameter->chunk];
  const bool sharded = layout.Sharded(chunk, role);
  const AxisNames copies_of_all = Others(mesh, holding);
  holding.insert(holding.end(), chunk.zero_axes.begin(), chunk.zero_axes.end());
  const AxisNames copies_of_shard = Others(mesh, holding);
  const bool first_copy = state.owned() && mesh.IndexIn(rank, copies_of_shard) == 0;
  const int64_t per_shard = chunk.shard_elements();
  std::vector<HeldRange> ranges;
  // Cut at the borders of shards: where all ranks hold a chunk, each saves its shard.
  for (int shard = 0; shard < chunk.shards; ++shard) {
    if (sharded && shard != chunk.shard) continue;
    const int64_t low = std::max(parameter->first, shard * per_shard);
    const int64_t high =
        std::min(parameter->first + state.type.elements(), (shard + 1) * per_shard);
    if (low >= high) continue;
    ranges.push_back({low - parameter->first, high - low, StateName(role, chunk.name),
                      low - (sharded ? shard * per_shard : 0), first_copy && shard == chunk.shard,
                      sharded ? copies_of_shard : copies_of_all});
  }
  return ranges;
}

}  // namespace colossus
