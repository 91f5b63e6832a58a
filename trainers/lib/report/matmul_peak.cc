#include "trainers/lib/report/matmul_peak.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/stream.h"
#include "tensor/graph/attributes.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/kernel.h"
#include "tensor/ops/matmul.h"

namespace colossus {
namespace {

constexpr int64_t kSize = 1024;
constexpr int64_t kGpuSize = 4096;  // smaller products do not fill a GPU
constexpr int kGpuRuns = 8;         // between two looks at the clock
constexpr double kSeconds = 0.1;

double RateOf(const DeviceRates& rates, DType compute) {
  return SizeOf(compute) < 4 ? rates.flops_16 : rates.flops_f32;
}

// The same on a GPU, in memory that is left there; the declared rate if it is too little.
absl::StatusOr<double> MeasureOnGpu(Device& device, DType compute, double declared) {
  const Attributes attributes{{"spec", "m k, k n -> m n"}};
  const Type type{compute, {kGpuSize, kGpuSize}};
  const std::vector<Type> operands = {type, type}, results = {type};
  KernelRequest request{&MatmulOp(), &attributes, operands, results, device.threads()};
  ASSIGN_OR_RETURN(const PlannedKernel kernel, PlanKernel(device.kernels(), request));
  absl::StatusOr<std::unique_ptr<Arena>> arena =
      device.NewArena(Tier::kDevice, 3 * type.bytes() + kernel.workspace_bytes);
  if (!arena.ok()) return declared;
  char* base = (*arena)->base();
  KernelLaunch launch;
  launch.kernel = &kernel;
  launch.operands = {base, base + type.bytes()};
  launch.results = {base + 2 * type.bytes()};
  launch.workspace = base + 3 * type.bytes();
  const std::unique_ptr<Stream> stream = device.NewStream("matmul peak");
  device.Fill(*stream, base, 0x3c, 2 * type.bytes());  // a small number in every float type
  device.Launch(*stream, launch);
  RETURN_IF_ERROR(stream->Synchronize());
  double best = 0;
  const double start = device.clock().Seconds();
  do {
    const double before = device.clock().Seconds();
    for (int run = 0; run < kGpuRuns; ++run) device.Launch(*stream, launch);
    RETURN_IF_ERROR(stream->Synchronize());
    const double seconds = device.clock().Seconds() - before;
    const double flops = 2.0 * kGpuRuns * kGpuSize * kGpuSize * kGpuSize;
    if (seconds > 0) best = std::max(best, flops / seconds);
  } while (device.clock().Seconds() - start < kSeconds);
  return best;
}

}  // namespace

absl::StatusOr<double> MeasureMatmulPeak(Device& device, DType compute,
                                         const DeviceRates& declared) {
  const double rate = RateOf(declared, compute);
  if (!device.computes()) return rate;
  if (device.kind() == DeviceKind::kCuda) return MeasureOnGpu(device, compute, rate);
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
