#include "trainers/lib/ranks/run_device.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/parallel_for.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

// Protects: run.device, run.device_memory and run.threads mean what they say.
TEST(RunDeviceTest, Devices) {
  const struct {
    const char* name;
    int64_t memory;  // as given
    DeviceKind kind;
    int64_t capacity;
    bool computes;
  } rows[] = {
      {"host", 0, DeviceKind::kHost, INT64_MAX, true},
      {"host", 1 << 20, DeviceKind::kHost, 1 << 20, true},
      {"capped", 1 << 20, DeviceKind::kCapped, 1 << 20, true},
      {"null", 0, DeviceKind::kNull, INT64_MAX, false},
      {"null", 1 << 20, DeviceKind::kNull, 1 << 20, false},
  };
  for (const auto& row : rows) {
    Options options;
    options.run.device = row.name;
    options.run.device_memory = row.memory;
    options.run.threads = 3;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, MakeDevice(options));
    EXPECT_EQ(device->kind(), row.kind) << row.name;
    EXPECT_EQ(device->capacity_bytes(), row.capacity) << row.name;
    EXPECT_EQ(device->computes(), row.computes) << row.name;
    EXPECT_EQ(device->threads(), 3) << row.name;
    EXPECT_EQ(Threads(), 3) << row.name;
    EXPECT_FALSE(device->kernels().empty()) << row.name;
  }
}

// Protects: a capped device that cannot be had is an error, not an end of the process.
TEST(RunDeviceTest, RefusesCappedWithoutMemory) {
  Options options;
  options.run.device = "capped";
  options.run.device_memory = INT64_MAX / 2;
  EXPECT_THAT(MakeDevice(options).status(), StatusIs(absl::StatusCode::kResourceExhausted));
}

// Protects: without CUDA in the build, or without a GPU, the user is told what to do.
TEST(RunDeviceTest, CudaIsThereOrRefusedWithTheRemedy) {
  Options options;
  options.run.device = "cuda";
  absl::StatusOr<std::unique_ptr<Device>> device = MakeDevice(options);
  if (device.ok()) {
    EXPECT_EQ((*device)->kind(), DeviceKind::kCuda);
    return;
  }
  EXPECT_THAT(device.status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       ::testing::AllOf(::testing::HasSubstr("run.device = \"cuda\""),
                                        ::testing::HasSubstr("--device=host"))));
}

TEST(RunDeviceTest, Threads) {
  Options options;
  options.run.threads = 5;
  EXPECT_EQ(RunThreads(options), 5);
  options.run.threads = 0;
  EXPECT_GE(RunThreads(options), 1);
}

}  // namespace
}  // namespace colossus
