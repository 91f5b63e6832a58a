// ZeroLayout: which chunk holds which parameter, and what each rank holds of the chunks.
//
// Purpose: on a mesh whose ranks share parameters while they see different tokens, parameters and
// their optimizer states lie in chunks (gemini/chunk.h): parameters of one block that are treated
// alike (dtype, decay, whether they are updated, the axes that split them, the axes over which
// their gradients are still sums). The ZeRO axes of a chunk are those token axes over which its
// gradients are sums; its ranks along them are the shards. The stage says which kinds of state are
// sharded:
//   0  none; the gradient is summed once, and every rank updates everything
//   1  optimizer states and masters
//   2  the same; a chunk's gradient is summed as soon as it exists
//   3  parameters too
// Sums, their order and what an update computes are the same at every stage, so bits are.
// A state of a chunk is named as that of a parameter would be ("chunk/3", "master/chunk/3", ...)
// and has one dim.
// Thread-safety: immutable when made. Ownership: owns everything.
//
//   ASSIGN_OR_RETURN(ZeroLayout layout, ZeroLayout::Make(local, gradients, mesh, rank, options));
//   layout.chunks()[0].shards;
//   layout.StateType(layout.chunks()[0], Role::kMoment1);
#ifndef COLOSSUS_PARALLEL_ZERO_LAYOUT_H_
#define COLOSSUS_PARALLEL_ZERO_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "collectives/mesh.h"
#include "parallel/sharding/partition.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/state.h"
#include "tensor/graph/types.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

struct ZeroOptions {
  int stage = 0;
  DType compute = DType::kF32;
  int64_t max_elements = int64_t{1} << 26;  // of a chunk, unless one parameter needs more
};

// A parameter in its chunk.
struct ChunkedParameter {
  LocalState state;                    // this rank's part; row-major in the chunk
  std::vector<std::string> gradients;  // outputs of the differentiated graph, one per use
  std::vector<AxisNames> model_axes;   // per use: axes to be summed before the ZeRO axes
  int chunk = 0;
  int64_t first = 0;  // element of the chunk
};

struct ZeroChunk {
  std::string name;           // "chunk/3"
  std::string block;          // whose forward reads it first
  DType dtype = DType::kF32;  // of the parameters
  bool updated = true;        // false: frozen, or no gradient reaches it
  bool decayed = false;
  bool owned = true;            // false: tied to an earlier stage of a pipeline, which owns it
  AxisNames zero_axes;          // in the mesh's order
  AxisNames model_axes;         // over which gradients are to be summed first, if uses agree
  AxisNames split_axes;         // that split its parameters, in the mesh's order
  int shards = 1, shard = 0;    // ranks along zero_axes, and this one's place
  int64_t elements = 0;         // with padding
  std::vector<int> parameters;  // in ZeroLayout::parameters, ascending by place

  int64_t shard_elements() const { return elements / shards; }
};

class ZeroLayout {
 public:
  ZeroLayout() = default;  // no chunks
  // `local`: of this rank; `gradients`: of its parameters. Parameters without one keep what they
  // have. Of a pipeline the states of all stages: chunks are laid out as on one stage, but that
  // parameters which stages share have chunks of their own; then others' are left out. Error: as
  // ChunkLayout::Make.
  static absl::StatusOr<ZeroLayout> Make(const Partitioned& local,
                                         const std::vector<ParameterGradients>& gradients,
                                         const Mesh& mesh, int rank, const ZeroOptions& options);

  // Whether ranks of the mesh share parameters but not tokens. Else there is nothing to chunk.
  static bool Applies(const Mesh& mesh);

  const ZeroOptions& options() const { return options_; }
  const Mesh& mesh() const { return mesh_; }
  int rank() const { return rank_; }
  const std::vector<ZeroChunk>& chunks() const { return chunks_; }
  // Of a pipeline those of all stages; their places are not those of this layout.
  const std::vector<ZeroChunk>& all_chunks() const { return all_chunks_; }
  // Those that split a shard: the ZeRO axes and those that split the parameters.
  AxisNames AxesOf(const ZeroChunk& chunk) const;
  const std::vector<ChunkedParameter>& parameters() const { return parameters_; }
  // nullptr: no such parameter.
  const ChunkedParameter* Find(absl::string_view parameter) const;

  // Whether a rank holds only its shard of states of this role.
  bool Sharded(const ZeroChunk& chunk, Role role) const;
  Type StateType(const ZeroChunk& chunk, Role role) const;
  StateInfo StateInfoOf(const ZeroChunk& chunk, Role role) const;

  // Padding and all, for the log: a line.
  std::string Summary() const;
  // A line per chunk and parameter.
  std::string ToText() const;

 private:
  absl::Status AddChunks(const std::vector<int>& parameters, const AxisNames& zero_axes);
  void SortByFirstUse();
  void KeepStagesOwn();

  ZeroOptions options_;
  Mesh mesh_;
  int rank_ = 0;
  std::vector<ZeroChunk> chunks_, all_chunks_;
  std::vector<ChunkedParameter> parameters_;
  absl::flat_hash_map<std::string, int> index_;
  std::vector<std::string> keys_;  // per parameter: what must agree in a chunk
  int64_t elements_ = 0, padding_ = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_ZERO_LAYOUT_H_
