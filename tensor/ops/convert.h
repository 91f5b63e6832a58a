// convert: change of element type, rounding to nearest even.
//
// Thread-safety: a stateless singleton.
//
//   ValueId narrow = Convert(b, x, DType::kBF16);   // x itself if it has that type already
#ifndef COLOSSUS_TENSOR_OPS_CONVERT_H_
#define COLOSSUS_TENSOR_OPS_CONVERT_H_

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operand: x. Attribute: `dtype` (string). Float to integer truncates towards zero,
// to the nearest end of the range when outside; bool is 0 or 1.
const Op& ConvertOp();

ValueId Convert(GraphBuilder& graph, ValueId x, DType dtype, absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_CONVERT_H_
