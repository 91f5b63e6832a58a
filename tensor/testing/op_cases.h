// The cases of all ops, for the conformance suite, kernels and devices.
//
// Purpose: one list that grows with the ops; a test checks that every op is in it. Extents are
// small and odd, so that tails of vector loops and blocks are met. Thread-safety: pure functions.
//
//   for (const OpCase& c : OpCases(DType::kBF16)) ...
#ifndef COLOSSUS_TENSOR_TESTING_OP_CASES_H_
#define COLOSSUS_TENSOR_TESTING_OP_CASES_H_

#include <vector>

#include "base/dtype.h"
#include "tensor/testing/op_case.h"

namespace colossus {

// All cases with values of the float type `f`; statistics and other operands that are wider beside
// narrow values are f32 (f64 for f64).
std::vector<OpCase> OpCases(DType f);

// Its parts, by family of ops.
std::vector<OpCase> PointwiseCases(DType f);
std::vector<OpCase> ShapeCases(DType f);  // shape ops, reductions, softmax, constants, convert
std::vector<OpCase> MatmulCases(DType f);
std::vector<OpCase> ModelCases(DType f);     // norms, rotary, embedding, loss, dropout, attention
std::vector<OpCase> TrainingCases(DType f);  // updates, norms of gradients, experts, caches

// Of statistics beside values of type f.
DType WideDType(DType f);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_OP_CASES_H_
