#include "tensor/kernels/kernel.h"

#include "absl/strings/str_cat.h"

namespace colossus {

absl::Status RunKernel(const PlannedKernel& kernel, const KernelArgs& args) {
  if (kernel.try_run != nullptr) return kernel.try_run(args);
  kernel.run(args);
  return absl::OkStatus();
}

absl::StatusOr<PlannedKernel> PlanKernel(KernelList list, const KernelRequest& request) {
  std::string reasons;
  for (const Kernel* kernel : list) {
    absl::StatusOr<PlannedKernel> planned = kernel->Plan(request);
    if (planned.ok()) return planned;
    absl::StrAppend(&reasons, "\n  ", kernel->name(), ": ",
                    std::string(planned.status().message()));
  }
  return absl::UnimplementedError(
      absl::StrCat("no kernel computes ", request.op->name(), reasons));
}

}  // namespace colossus
