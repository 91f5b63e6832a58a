// OpCase: one use of an op, with operands to fill, that every kernel and every device must get
// right.
//
// Purpose: a row of the tables in op_cases.h. What the conformance suite (op_conformance.h) has to
// know beyond the op itself stands here.
// Thread-safety: plain values. Ownership: values; the op is a singleton.
//
//   OpCase c{.name = "matmul/rows", .op = &MatmulOp(),
//            .attributes = {{"spec", "m k, k n -> m n"}},
//            .operands = {{f, {3, 17}}, {f, {17, 5}}}};
#ifndef COLOSSUS_TENSOR_TESTING_OP_CASE_H_
#define COLOSSUS_TENSOR_TESTING_OP_CASE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/op.h"

namespace colossus {

// How an operand gets its values: uniform in [low, high), or as given.
struct Fill {
  double low = -1, high = 1;
  std::vector<double> values = {};

  static Fill Uniform(double low, double high) { return {low, high, {}}; }
  static Fill Values(std::vector<double> values) { return {0, 0, std::move(values)}; }
};

struct OpCase {
  std::string name;  // unique: "op/what is special"
  const Op* op = nullptr;
  Attributes attributes = {};
  Types operands = {};
  // By operand; default: floats in [-1, 1), integers and bools in [0, 2).
  std::map<int, Fill> fills = {};
  // Changes the filled operands, where they must agree with each other.
  std::function<void(std::vector<HostTensor>&)> prepare = nullptr;

  // Gradient. False: the op has no gradient, and must say so.
  bool differentiable = true;
  std::set<int> constants = {};              // float operands that get no cotangent
  std::set<int> unused_results = {};         // float results that have no cotangent
  std::map<int, int> given_cotangents = {};  // result -> operand that is its cotangent

  // Labels of the factor rule that are not split in tests, because the parts must be made in a way
  // that only the op's users know.
  std::set<std::string> unsplit = {};

  // The counted operations lie in [low, high] * CostOf().flops: not 1 where they depend on data.
  double flops_low = 1, flops_high = 1;

  // Kernels: the largest magnitude of what is summed, if that is more than the largest result.
  double magnitude = 0;
  // Kernels: the largest sum of magnitudes of terms that are rounded to the operands' dtype on the
  // way, where an op is two products and the second takes the first one's results so.
  double inner_magnitude = 0;

  // nullopt: the op's own reference kernel.
  std::optional<Reference> reference = std::nullopt;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_OP_CASE_H_
