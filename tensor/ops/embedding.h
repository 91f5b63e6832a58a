// embedding: rows of a table by id, and the gradient that adds rows back.
//
// Purpose: token, position and segment embeddings. An id outside the table gives a row of NaN,
// which the non-finite check finds; with `origin` the table is a part of a larger one, and ids
// outside the part give zeros.
// Thread-safety: stateless singletons.
//
//   ValueId h = Embedding(b, table, ids, DType::kF32);   // [.. c]
#ifndef COLOSSUS_TENSOR_OPS_EMBEDDING_H_
#define COLOSSUS_TENSOR_OPS_EMBEDDING_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: table[v c] float, ids[..] i32 or i64. Attributes: dtype (string, optional: of the
// result, default the table's), origin (int, optional: id of row 0). Result: [.. c].
const Op& EmbeddingOp();

// Operands: dy[.. c] float, ids[..]. Attributes: rows (int: v), dtype (string), origin (int,
// optional). Result: dtype[rows c]; each row is the sum of its positions' dy, added in row-major
// position order; ids outside the table add nothing.
const Op& EmbeddingGradOp();

ValueId Embedding(GraphBuilder& graph, ValueId table, ValueId ids,
                  std::optional<DType> result = std::nullopt, absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_EMBEDDING_H_
