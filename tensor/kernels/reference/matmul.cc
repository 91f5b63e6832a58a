#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/matmul.h"

namespace colossus {
namespace {

// Offset of a value's element, given one index per factor of the rule.
int64_t FactorOffset(const ValueFactors& dims, const Dims& factor_index, const Dims& extents) {
  int64_t offset = 0;
  for (size_t d = 0; d < dims.size(); ++d) offset = offset * extents[d] + factor_index[dims[d][0]];
  return offset;
}

}  // namespace

template <class S>
void MatmulReference(const ReferenceCall& call) {
  TensorView a = call.x(0), b = call.x(1);
  MutableTensorView y = call.y(0);
  FactorRule rule = MatmulOp().Factors(call.op_call());
  Dims kept(rule.factors.size(), 1), summed(rule.factors.size(), 1);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    (rule.factors[f].kind == FactorKind::kSum ? summed : kept)[f] = rule.factors[f].extent;
  }
  ForEachIndex(kept, [&](const Dims& outer) {
    S sum(0);
    ForEachIndex(summed, [&](const Dims& inner) {
      Dims index = outer;
      for (size_t f = 0; f < index.size(); ++f) index[f] += inner[f];
      sum += S(a.Get(FactorOffset(rule.operands[0], index, a.dims()))) *
             S(b.Get(FactorOffset(rule.operands[1], index, b.dims())));
    });
    y.Set(FactorOffset(rule.results[0], outer, y.dims()), ToDouble(sum));
  });
}
COLOSSUS_INSTANTIATE_REFERENCE(MatmulReference)

}  // namespace colossus
