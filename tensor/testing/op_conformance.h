// The conformance suite of ops and kernels.
//
// Purpose: what an op and a kernel must satisfy, checked from tables of cases (op_cases.h), so that
// whoever adds one knows when it is finished. Each check returns a Status that names the case, the
// check and what differs; tests wrap it in EXPECT_OK.
//   Infer:     the reference writes every byte of the inferred results and none beside, finite.
//   Gradient:  the rule against central differences in fp64, for every float operand; and the
//              promised dtypes for every element type.
//   Factors:   each parallel, sum or indexed factor cut in 2 and 3 parts, uneven too: Localize()
//              accepts, the parts are of the promised types, and put together they are the whole.
//              A result without the factor is the sum of the parts' results.
//   Flops:     CostOf() is what the reference counts.
//   Aliases:   in place gives the same bytes.
//   Kernels:   every kernel of a list that accepts: within derived limits of the unrounded
//              reference, nothing left unwritten, nothing written beside, operands untouched, in
//              place the same bytes.
// Thread-safety: reentrant. Operand values follow from TestSeed() (base/testing/seed.h).
//
//   for (const OpCase& c : OpCases(DType::kF64)) EXPECT_OK(CheckOp(c));
//   EXPECT_OK(CheckKernels(CpuKernels(), OpCases(DType::kBF16), /*threads=*/2));
//   EXPECT_OK(CheckKernelsOn(*device, OpCases(DType::kBF16)));
#ifndef COLOSSUS_TENSOR_TESTING_OP_CONFORMANCE_H_
#define COLOSSUS_TENSOR_TESTING_OP_CONFORMANCE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensor/exec/device.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/kernel.h"
#include "tensor/testing/op_case.h"

namespace colossus {

// The operands of a case, filled.
std::vector<HostTensor> MakeOperands(const OpCase& c);

// All checks of an op. REQUIRES for those of gradient and factors: the case's values are f64.
// For narrower cases only Infer, Flops, Aliases and the gradient's dtypes are checked.
absl::Status CheckOp(const OpCase& c);

absl::Status CheckInference(const OpCase& c);
absl::Status CheckGradient(const OpCase& c);
absl::Status CheckFactors(const OpCase& c);
absl::Status CheckFlops(const OpCase& c);
absl::Status CheckAliases(const OpCase& c);

// Every kernel of the list, planned for `threads`, on every case. A kernel that declines must say
// why. Returns all failures in one message.
absl::Status CheckKernels(KernelList kernels, absl::Span<const OpCase> cases, int threads = 1);

// The same for the kernels of a device, run there: buffers go in and come back with the bytes
// around them, so that what is written beside them on the device is found.
// REQUIRES: device.computes().
absl::Status CheckKernelsOn(Device& device, absl::Span<const OpCase> cases);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_OP_CONFORMANCE_H_
