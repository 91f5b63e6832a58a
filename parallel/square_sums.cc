#include "parallel/square_sums.h"

#include <utility>

#include "base/check.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/sum_squares.h"

namespace colossus {

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
  CHECK(!order_.empty());
  ValueId total = kNoValue;
  for (const AxisNames& axes : order_) {
    const ValueId all = AllReduce(builder_, sums_.at(axes), axes, mesh_.SizeOf(axes));
    total = total == kNoValue ? all : colossus::Add(builder_, total, all);
  }
  return total;
}

}  // namespace colossus
