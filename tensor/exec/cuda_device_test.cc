// The CUDA device: its refusals anywhere; conformance of device and kernels on a GPU.
#include "tensor/exec/cuda_device.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cuda/cuda_list.h"
#include "tensor/kernels/cuda/launch.h"
#include "tensor/kernels/functors/pointwise.h"
#include "tensor/testing/device_conformance.h"
#include "tensor/testing/op_cases.h"
#include "tensor/testing/op_conformance.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Device>> NewGpu(int64_t bytes = INT64_MAX, int gpu = 0) {
  CudaDeviceOptions options;
  options.memory_bytes = bytes;
  options.gpu = gpu;
  options.kernels = CudaKernels();
  return NewCudaDevice(options);
}

TEST(CudaDeviceTest, SaysWhatIsMissing) {
  absl::StatusOr<std::unique_ptr<Device>> device = NewGpu(INT64_MAX, 12345);
#ifdef COLOSSUS_CUDA
  EXPECT_THAT(device.status(), StatusIs(absl::StatusCode::kUnavailable,
                                        AllOf(HasSubstr("no GPU: driver"),
                                              HasSubstr("--device=host"))));
#else
  EXPECT_THAT(device.status(), StatusIs(absl::StatusCode::kUnavailable,
                                        AllOf(HasSubstr("built without CUDA"),
                                              HasSubstr("--config=cuda"),
                                              HasSubstr("--device=host"))));
#endif
}

TEST(CudaDeviceTest, Kind) {
  EXPECT_EQ(Name(DeviceKind::kCuda), "cuda");
  absl::StatusOr<std::unique_ptr<Device>> device = NewGpu();
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  EXPECT_EQ((*device)->kind(), DeviceKind::kCuda);
  EXPECT_GT((*device)->capacity_bytes(), 0);
}

// y = a + 2 b by way of the workspace, as two launches.
PlannedKernel ConformanceKernel() {
  PlannedKernel kernel = HostConformanceKernel();
  kernel.run = [](const KernelArgs& args) {
    Pointwise<float> twice;
    twice.kind = PointwiseKind::k_scale;
    twice.attribute = 2;
    twice.x[0] = {args.operands[1], DType::kF32};
    twice.y = {args.workspace, DType::kF32};
    ForEachUnit(args.stream, kConformanceElements, twice);
    Pointwise<float> sum;
    sum.arity = 2;
    sum.x[0] = {args.operands[0], DType::kF32};
    sum.x[1] = {args.workspace, DType::kF32};
    sum.y = {args.results[0], DType::kF32};
    ForEachUnit(args.stream, kConformanceElements, sum);
  };
  return kernel;
}

// One skipped test stands for the suite where there is no GPU.
class DeviceConformanceNeedsGpu : public ::testing::Test {
 public:
  void TestBody() override { GTEST_SKIP() << NewGpu().status().message(); }
};

const bool registered = [] {
  if (!NewGpu().ok()) {
    ::testing::RegisterTest("CudaDevice", "Conformance", nullptr, nullptr, __FILE__, __LINE__,
                            []() -> ::testing::Test* { return new DeviceConformanceNeedsGpu; });
    return true;
  }
  DeviceCapabilities capabilities;
  capabilities.name = "Cuda";
  capabilities.kernel = ConformanceKernel();
  capabilities.make = [](int64_t bytes) { return *NewGpu(bytes); };
  return RegisterDeviceConformance(capabilities);
}();

// The kernel above is the conformance kernel, as far as a host can tell.
TEST(CudaDeviceTest, ConformanceKernelOnTheHost) {
  std::vector<float> a(kConformanceElements), b(a), twice(a), y(a);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 100);
    b[i] = static_cast<float>(i % 7);
  }
  const void* operands[] = {a.data(), b.data()};
  void* results[] = {y.data()};
  ConformanceKernel().run({operands, results, twice.data()});
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(y[i], a[i] + 2 * b[i]) << i;
}

class CudaOpsTest : public ::testing::TestWithParam<DType> {};

TEST_P(CudaOpsTest, EveryKernelOnEveryCase) {
  absl::StatusOr<std::unique_ptr<Device>> device = NewGpu();
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  EXPECT_OK(CheckKernelsOn(**device, OpCases(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaOpsTest,
                         ::testing::Values(DType::kF64, DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace colossus
