#include "parallel/square_sums.h"

#include <utility>

#include "tensor/ops/collective.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/sum_squares.h"

namespace colossus {

void SquareSums::SetOrder(const std::vector<AxisNames>& order) {
  order_ = order;
  for (const AxisNames& axes : order) sums_.emplace(axes, kNoValue);
}

void SquareSums::Add(const std::vector<MeasuredGradient>& block) {
  std::map<AxisNames, ValueIds> values;
  for (const MeasuredGradient& gradient : block) {
    if (sums_.emplace(gradient.axes, kNoValue).second) order_.push_back(gradient.axes);
    values[gradient.axes].push_back(gradient.value);
  }
  for (const AxisNames& axes : order_) {
    ValueIds& own = values[axes];
    if (!own.empty()) sums_[axes] = SumSquares(builder_, std::move(own), sums_[axes]);
  }
}

ValueId SquareSums::Total() {
  ValueId total = kNoValue;
  for (const AxisNames& axes : order_) {
    if (sums_.at(axes) == kNoValue) continue;
    const ValueId all = AllReduce(builder_, sums_.at(axes), axes, mesh_.SizeOf(axes));
    total = total == kNoValue ? all : colossus::Add(builder_, total, all);
  }
  // A stage may own nothing that is updated.
  return total == kNoValue ? Constant(builder_, DType::kF64, {}, {0}) : total;
}

}  // namespace colossus
