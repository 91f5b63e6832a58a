// cache_append: writes new keys or values behind those a cache holds.
//
// Purpose: decoding. Row i of batch entry b goes to cache row length[b] + i; rows beyond the
// capacity are dropped. The result may overwrite the cache.
// Thread-safety: a stateless singleton.
//
//   b.UpdateState(cache, CacheAppend(b, cache, k, length));
#ifndef COLOSSUS_TENSOR_OPS_CACHE_APPEND_H_
#define COLOSSUS_TENSOR_OPS_CACHE_APPEND_H_

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: cache[b t g d], rows[b s g d] (same dtype), length[b] i32 (>= 0). Result: as cache.
const Op& CacheAppendOp();

ValueId CacheAppend(GraphBuilder& graph, ValueId cache, ValueId rows, ValueId length,
                    absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_CACHE_APPEND_H_
