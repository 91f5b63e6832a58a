// Helpers for tests of single ops: run the reference kernel, check gradients by differences, count
// operations, check aliases.
//
// Thread-safety: as the reference kernels. Ownership: values.
//
//   HostTensor y = RunOp(RotaryOp(), {x, positions, frequencies}, {})[0];
//   ExpectGradient(RmsNormOp(), {x, weight}, {{"eps", 1e-6}, {"with", Strings{"weight"}}}, {0, 1});
#ifndef COLOSSUS_TENSOR_TESTING_RUN_OP_H_
#define COLOSSUS_TENSOR_TESTING_RUN_OP_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/host_tensor.h"
#include "tensor/ops/op.h"

namespace colossus {

absl::StatusOr<Types> InferOp(const Op& op, const Types& operands, const Attributes& attributes);

// Results of the reference kernel. REQUIRES: Infer accepts.
std::vector<HostTensor> RunOp(const Op& op, const std::vector<HostTensor>& operands,
                              const Attributes& attributes);

// Standard normal values, rounded to `dtype`.
HostTensor RandomTensor(DType dtype, Dims dims, std::mt19937_64& random);

// Compares the gradients that Op::Gradient builds for the operands `wanted` (f64) with central
// differences of sum(dy * y), y = result 0 and dy random. The limit is relative to the largest
// entry: differences with step 1e-5 have errors of about 1e-10 each from step and from rounding.
void ExpectGradient(const Op& op, const std::vector<HostTensor>& operands,
                    const Attributes& attributes, const std::vector<int>& wanted);

// The operations that the reference kernel counts are those that CostOf tells.
void ExpectFlops(const Op& op, const std::vector<HostTensor>& operands,
                 const Attributes& attributes);

// Every alias that MayAlias allows gives the bits of a run without it.
void ExpectAliasesHarmless(const Op& op, const std::vector<HostTensor>& operands,
                           const Attributes& attributes);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_RUN_OP_H_
