#include "tensor/testing/op_cases.h"

#include <utility>

namespace colossus {

DType WideDType(DType f) { return f == DType::kF64 ? DType::kF64 : DType::kF32; }

std::vector<OpCase> OpCases(DType f) {
  std::vector<OpCase> all;
  for (auto family : {PointwiseCases, ShapeCases, MatmulCases, ModelCases, TrainingCases}) {
    for (OpCase& c : family(f)) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace colossus
