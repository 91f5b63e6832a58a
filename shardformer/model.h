// The forward graph of a model.
//
// Purpose: turns a ModelConfig into a graph on logical axes, for one rank and one micro-batch.
// Sharding, recomputation and placement are rewrites of this graph; no family knows them. A family
// is one file with one builder and one line in the list of model.cc.
// Thread-safety: plain functions. Ownership: the graph is the caller's.
//
//   ASSIGN_OR_RETURN(Graph graph, BuildForward(config, {.rows = 4, .length = 1024}));
//
// Feeds, where the options ask for them:
//   input_ids    i32[rows, length]
//   labels       i32[rows, length]   target of each position; -100 does not count
//   positions    i32[rows, length]   with `packed` or a cache; else 0, 1, 2 ...
//   segments     i32[rows, length]   with `packed`: document number; attention stays inside
//   loss_seed    f32[]               with `gradients`: cotangent of loss_sum
//   dropout_key  i64[2]              with `dropout`: (seed, update)
//   first_row    i64[]               with `dropout`: row 0's index in the global batch
//   cache_length i32[rows]           with a cache: tokens in it before this run
// Outputs: loss_sum f32[] (nats, summed over counting positions), logits f32[rows, length, v].
// States: parameters under their canonical names on disk, caches "cache/<layer>/k" and ".../v".
#ifndef COLOSSUS_SHARDFORMER_MODEL_H_
#define COLOSSUS_SHARDFORMER_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "shardformer/config.h"
#include "tensor/graph/graph.h"

namespace colossus {

struct ForwardOptions {
  int64_t rows = 1;                // sequences
  int64_t length = 1;              // tokens per row
  // Of products and their parameters; the residual stream and the norms' parameters are f32, or f64
  // when everything is.
  DType compute = DType::kF32;
  bool loss = true;
  bool gradients = false;          // the loss op makes its gradients too; needs `loss`
  bool logits = false;
  bool packed = false;
  bool dropout = false;            // the config's rates apply
  int64_t cache_capacity = 0;      // tokens; > 0: keys and values are kept in caches
  // Where rows are fed with their tokens in another order: the index of each position's token in
  // its row. It decides what causal attention sees, random masks, and positions if none are fed.
  // The last `padding` indices hold no token: their labels must not count. Empty: 0, 1, 2 ...
  std::vector<int64_t> order = {};
  int64_t padding = 0;             // positions of `length` that are padding
  // Widths are made multiples of these by zeros: then they can be split. Outputs do not change.
  int64_t vocabulary_multiple = 1, mlp_multiple = 1;
};

// Error: InvalidArgument for options that do not go together, a length beyond the position table
// or the cache, or what a family cannot do.
absl::StatusOr<Graph> BuildForward(const ModelConfig& config, const ForwardOptions& options);

// The parameters of a model in the order of first use: the tensor-name table.
absl::StatusOr<std::vector<StateInfo>> ModelParameters(const ModelConfig& config);

// Blocks in running order: "embed", "h.0", ..., "head".
std::vector<std::string> ModelBlocks(const ModelConfig& config);
// "h.3".
std::string LayerBlock(int64_t layer);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_MODEL_H_
