// Kernel: one way to compute an op on one kind of device.
//
// Purpose: kernels stand in one ordered list per device kind, best first, reference last. Each
// declines by itself, with a named reason, when the Program is planned; what was planned never
// refuses when run. The choice depends only on the request, never on a timing.
// Thread-safety: kernels are stateless singletons, but for those that hold the communicators of a
// rank (tensor/kernels/collective); a PlannedKernel may be run by one thread at a time (it may keep
// library handles), on the threads of the calling rank (base/parallel_for.h).
// Ownership: a PlannedKernel owns what its closure holds; operand, result and workspace memory is
// the caller's.
//
//   ASSIGN_OR_RETURN(PlannedKernel k, PlanKernel(CpuKernels(), request));
//   k.run({operands, results, workspace});       // workspace: k.workspace_bytes, 64-byte aligned
//   RETURN_IF_ERROR(RunKernel(k, args));         // where it may be one that can fail: collectives
#ifndef COLOSSUS_TENSOR_KERNELS_KERNEL_H_
#define COLOSSUS_TENSOR_KERNELS_KERNEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/ops/op.h"

namespace colossus {

// What is to be planned: everything the choice may depend on. Views; valid during the call.
struct KernelRequest {
  const Op* op = nullptr;
  const Attributes* attributes = nullptr;
  absl::Span<const Type> operands, results;
  int threads = 1;  // of the rank
};

// Dense row-major buffers, 64-byte aligned. A result may share memory with an operand only where
// Op::MayAlias says so and the plan decided it.
struct KernelArgs {
  absl::Span<const void* const> operands;
  absl::Span<void* const> results;
  void* workspace = nullptr;
  // Where to enqueue, on devices whose kernels only enqueue; nullptr: the kernel runs at once.
  void* stream = nullptr;
};

struct PlannedKernel {
  std::string name;             // "reference", "onednn_matmul", ...
  int64_t workspace_bytes = 0;  // needed while it runs; exact
  std::function<void(const KernelArgs&)> run;
  // Instead of `run`, for kernels that the machine can make fail: other ranks, links.
  std::function<absl::Status(const KernelArgs&)> try_run = nullptr;
  // Predicted by the kernel, where flops and bytes of memory do not tell: time on links.
  std::optional<double> seconds = std::nullopt;
};

// Runs it, whichever of the two it has. Error: that of try_run.
absl::Status RunKernel(const PlannedKernel& kernel, const KernelArgs& args);

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual absl::string_view name() const = 0;
  // Error: Unimplemented with the reason for declining this request.
  virtual absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const = 0;
};

using KernelList = absl::Span<const Kernel* const>;

// The first kernel of the list that accepts. Error: Unimplemented with every kernel's reason.
absl::StatusOr<PlannedKernel> PlanKernel(KernelList list, const KernelRequest& request);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_KERNEL_H_
