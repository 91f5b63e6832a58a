#include "parallel/zero/held_ranges.h"

#include <algorithm>

#include "parallel/sharding/axes.h"
#include "tensor/optim/update.h"

namespace colossus {
namespace {

// Whether this is the first of the ranks that hold the same elements: those that differ along no
// axis of `holding`.
bool IsFirst(const Mesh& mesh, int rank, const AxisNames& holding) {
  for (const MeshAxis& axis : mesh.axes()) {
    if (!HasAxis(holding, axis.name) && mesh.Coordinate(rank, axis.name) != 0) return false;
  }
  return true;
}

}  // namespace

std::vector<HeldRange> HeldRanges(const ZeroLayout& layout, const LocalState& state,
                                  const Mesh& mesh, int rank) {
  const Role role = state.info.role;
  const ChunkedParameter* parameter = layout.Find(ParameterName(role, state.info.name));
  AxisNames holding = SplitAxes(state.sharding);
  if (parameter == nullptr) {
    return {{0, state.type.elements(), state.info.name, 0, IsFirst(mesh, rank, holding)}};
  }
  const ZeroChunk& chunk = layout.chunks()[parameter->chunk];
  const bool sharded = layout.Sharded(chunk, role);
  holding.insert(holding.end(), chunk.zero_axes.begin(), chunk.zero_axes.end());
  const bool first_copy = IsFirst(mesh, rank, holding);
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
                      low - (sharded ? shard * per_shard : 0), first_copy && shard == chunk.shard});
  }
  return ranges;
}

}  // namespace colossus
