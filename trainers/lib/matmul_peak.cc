#include "trainers/lib/matmul_peak.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "tensor/cost/device_rates.h"
#include "tensor/graph/attributes.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/kernel.h"
#include "tensor/ops/matmul.h"

namespace colossus {
namespace {

constexpr int64_t kSize = 1024;
constexpr double kSeconds = 0.1;

}  // namespace

absl::StatusOr<double> MeasureMatmulPeak(Device& device, DType compute) {
  if (!device.computes()) {
    const DeviceRates rates;
    return SizeOf(compute) < 4 ? rates.flops_16 : rates.flops_f32;
  }
  const Attributes attributes{{"spec", "m k, k n -> m n"}};
  const Type type{compute, {kSize, kSize}};
  const std::vector<Type> operands = {type, type}, results = {type};
  KernelRequest request{&MatmulOp(), &attributes, operands, results, device.threads()};
  ASSIGN_OR_RETURN(const PlannedKernel kernel, PlanKernel(device.kernels(), request));
  HostTensor a(type), b(type), y(type);
  HostTensor workspace(Type{DType::kU8, {std::max<int64_t>(kernel.workspace_bytes, 1)}});
  for (int64_t i = 0; i < type.elements(); ++i) {
    a.Set(i, 0.25 * static_cast<double>(i % 7));
    b.Set(i, 0.5 * static_cast<double>(i % 5));
  }
  const std::vector<const void*> in = {a.raw(), b.raw()};
  const std::vector<void*> out = {y.raw()};
  RealClock clock;
  double best = 0;
  const double start = clock.Seconds();
  // The first run warms caches and the thread pool up.
  kernel.run({in, out, workspace.raw()});
  do {
    const double before = clock.Seconds();
    kernel.run({in, out, workspace.raw()});
    const double seconds = clock.Seconds() - before;
    if (seconds > 0) best = std::max(best, 2.0 * kSize * kSize * kSize / seconds);
  } while (clock.Seconds() - start < kSeconds);
  return best;
}

}  // namespace colossus
