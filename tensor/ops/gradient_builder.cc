#include "tensor/ops/gradient_builder.h"

#include <utility>

#include "base/check.h"

namespace colossus {

GradientBuilder::GradientBuilder(GraphBuilder& graph, const Attributes& attributes, ValueIds x,
                                 ValueIds y, ValueIds dy, std::vector<bool> needed,
                                 std::vector<bool> to_parameter)
    : graph_(graph),
      attributes_(attributes),
      x_(std::move(x)),
      y_(std::move(y)),
      dy_(std::move(dy)),
      dx_(x_.size(), kNoValue),
      needed_(std::move(needed)),
      to_parameter_(std::move(to_parameter)) {
  CHECK_EQ(y_.size(), dy_.size());
  CHECK_EQ(x_.size(), needed_.size());
  CHECK_EQ(x_.size(), to_parameter_.size());
}

ValueId GradientBuilder::dy(int i) const {
  CHECK(has_dy(i)) << "result " << i << " has no cotangent";
  return dy_[i];
}

DType GradientBuilder::gradient_dtype(int i) const {
  DType own = x_type(i).dtype;
  return to_parameter_[i] && own != DType::kF64 ? DType::kF32 : own;
}

void GradientBuilder::Add(int i, ValueId dx) {
  if (!needed_[i] || dx == kNoValue) return;
  CHECK(dx_[i] == kNoValue) << "two cotangents for operand " << i;
  CHECK(graph_.type(dx).dims == x_type(i).dims && graph_.type(dx).dtype == gradient_dtype(i))
      << "cotangent " << ToString(graph_.type(dx)) << " for operand " << i << " of type "
      << ToString(x_type(i));
  dx_[i] = dx;
}

}  // namespace colossus
