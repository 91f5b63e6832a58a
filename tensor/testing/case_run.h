// Running the reference and kernels on a case: the helpers of the conformance suite.
//
// Thread-safety: reentrant. Ownership: returns copies.
#ifndef COLOSSUS_TENSOR_TESTING_CASE_RUN_H_
#define COLOSSUS_TENSOR_TESTING_CASE_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/kernel.h"
#include "tensor/testing/op_case.h"

namespace colossus {

// "case: check: what", the one form of a failure.
absl::Status Fails(const OpCase& c, absl::string_view check, absl::string_view what);

// The case's reference. Error: the op has none.
absl::StatusOr<Reference> ReferenceOf(const OpCase& c);

Types TypesOf(absl::Span<const HostTensor> tensors);

// The reference's results of types `results` for operands and attributes that may be a part's.
std::vector<HostTensor> RunReference(const Reference& reference, const Attributes& attributes,
                                     absl::Span<const HostTensor> operands, const Types& results);

// How RunGuarded lays out memory.
struct GuardedRun {
  uint8_t garbage = 0xa5;                     // what results and workspace hold before
  int alias_result = -1, alias_operand = -1;  // that result over that operand
  int64_t workspace_bytes = 0;
};
// Runs with guards around every buffer. Error: a guard or an operand was written.
absl::StatusOr<std::vector<HostTensor>> RunGuarded(
    const std::function<void(const KernelArgs&)>& run, absl::Span<const HostTensor> operands,
    const Types& results, const GuardedRun& options);

// The first of the tensors whose bytes differ, or -1.
int FirstDifferent(absl::Span<const HostTensor> a, absl::Span<const HostTensor> b);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_CASE_RUN_H_
