#include "tensor/kernels/kernel.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace colossus {

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
