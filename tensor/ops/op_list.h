// The list of all ops.
//
// Purpose: the one place that names every op; graph text and tests find ops here. An explicit list
// rather than static registration, so that what exists can be read.
// Thread-safety: immutable singletons.
//
//   const Op* op = FindOp("matmul");   // nullptr if there is none
//   for (const Op* op : AllOps()) ...
#ifndef COLOSSUS_TENSOR_OPS_OP_LIST_H_
#define COLOSSUS_TENSOR_OPS_OP_LIST_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/ops/op.h"

namespace colossus {

absl::Span<const Op* const> AllOps();  // sorted by name
const Op* FindOp(absl::string_view name);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_OP_LIST_H_
