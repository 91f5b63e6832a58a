#include "tensor/testing/device_conformance.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBytes = kConformanceElements * static_cast<int64_t>(sizeof(float));
constexpr int64_t kMemory = 1 << 20;

class DeviceTest : public ::testing::Test {
 public:
  explicit DeviceTest(const DeviceCapabilities& capabilities)
      : can_(capabilities), device_(capabilities.make(kMemory)) {}

 protected:
  // `count` blocks of kBytes, aligned, in one arena.
  void Allocate(int count) {
    absl::StatusOr<std::unique_ptr<Arena>> arena =
        device_->NewArena(Tier::kDevice, count * kBlock);
    ASSERT_OK(arena.status());
    arena_ = *std::move(arena);
  }
  char* block(int i) { return arena_->base() + i * kBlock; }

  std::vector<float> Numbers(float start) {
    std::vector<float> numbers(kConformanceElements);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = start + static_cast<float>(i % 100);
    return numbers;
  }
  void Launch(Stream& stream, int a, int b, int y, int workspace) {
    KernelLaunch launch;
    launch.kernel = &can_.kernel;
    launch.operands = {block(a), block(b)};
    launch.results = {block(y)};
    launch.workspace = block(workspace);
    launch.seconds = 0.5;
    device_->Launch(stream, std::move(launch));
  }
  bool computes() const { return device_->computes(); }

  static constexpr int64_t kBlock = (kBytes + 63) / 64 * 64;
  const DeviceCapabilities& can_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;
};

class CopiesRoundTrip : public DeviceTest {
 public:
  using DeviceTest::DeviceTest;
  void TestBody() override {
    ASSERT_NO_FATAL_FAILURE(Allocate(2));
    std::unique_ptr<Stream> stream = device_->NewStream("test");
    std::vector<float> source = Numbers(1), back(source.size()), filled(source.size());
    device_->CopyIn(*stream, block(0), source.data(), kBytes);
    device_->CopyWithin(*stream, block(1), block(0), kBytes);
    device_->Fill(*stream, block(0), 0x40, kBytes);
    device_->CopyOut(*stream, back.data(), block(1), kBytes);
    device_->CopyOut(*stream, filled.data(), block(0), kBytes);
    EXPECT_OK(stream->Synchronize());
    EXPECT_EQ(device_->copied().in, kBytes);
    EXPECT_EQ(device_->copied().out, 2 * kBytes);
    if (!computes()) return;
    EXPECT_EQ(back, source);
    float all_0x40;
    std::memset(&all_0x40, 0x40, sizeof(float));
    EXPECT_EQ(filled, std::vector<float>(source.size(), all_0x40));
  }
};

class KernelsRunInOrderWithWorkspace : public DeviceTest {
 public:
  using DeviceTest::DeviceTest;
  void TestBody() override {
    ASSERT_NO_FATAL_FAILURE(Allocate(4));
    std::unique_ptr<Stream> stream = device_->NewStream("test");
    std::vector<float> a = Numbers(1), b = Numbers(3), back(a.size());
    const double start = device_->clock().Seconds();
    device_->CopyIn(*stream, block(0), a.data(), kBytes);
    device_->CopyIn(*stream, block(1), b.data(), kBytes);
    for (int repeat = 0; repeat < 3; ++repeat) Launch(*stream, 0, 1, 0, 3);
    device_->CopyOut(*stream, back.data(), block(0), kBytes);
    EXPECT_OK(stream->Synchronize());
    if (!computes()) {
      EXPECT_GE(device_->clock().Seconds(), start + 1.5);
      return;
    }
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(back[i], a[i] + 6 * b[i]) << i;
  }
};

class EventsOrderStreams : public DeviceTest {
 public:
  using DeviceTest::DeviceTest;
  void TestBody() override {
    ASSERT_NO_FATAL_FAILURE(Allocate(4));
    std::unique_ptr<Stream> copies = device_->NewStream("copies");
    std::unique_ptr<Stream> compute = device_->NewStream("compute");
    std::vector<float> b = Numbers(3), back(b.size());
    device_->Fill(*compute, block(0), 0, kBytes);
    // In turns: every copy waits for the kernel that read the one before it.
    for (int turn = 0; turn < 8; ++turn) {
      device_->CopyIn(*copies, block(1), b.data(), kBytes);
      compute->WaitFor(copies->Record());
      Launch(*compute, 0, 1, 0, 3);
      device_->Fill(*compute, block(1), 0xFF, kBytes);
      copies->WaitFor(compute->Record());
    }
    device_->CopyOut(*copies, back.data(), block(0), kBytes);
    std::shared_ptr<Event> done = copies->Record();
    EXPECT_OK(done->Wait());
    EXPECT_TRUE(done->Done());
    EXPECT_OK(compute->Synchronize());
    if (!computes()) return;
    for (size_t i = 0; i < b.size(); ++i) EXPECT_EQ(back[i], 16 * b[i]) << i;
  }
};

class WorkStaysInOrder : public DeviceTest {
 public:
  using DeviceTest::DeviceTest;
  void TestBody() override {
    if (!can_.runs_work) return;
    std::unique_ptr<Stream> stream = device_->NewStream("test");
    std::vector<int> seen;
    for (int i = 0; i < 100; ++i) {
      stream->Launch([&seen, i] {
        seen.push_back(i);
        return absl::OkStatus();
      });
    }
    EXPECT_OK(stream->Synchronize());
    ASSERT_EQ(seen.size(), 100u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
  }
};

class DestructionFinishesWork : public DeviceTest {
 public:
  using DeviceTest::DeviceTest;
  void TestBody() override {
    if (!can_.runs_work) return;
    int runs = 0;
    std::shared_ptr<Event> done;
    {
      std::unique_ptr<Stream> stream = device_->NewStream("test");
      stream->Launch([&runs] { return ++runs, absl::OkStatus(); });
      done = stream->Record();
      stream->Launch([&runs] { return ++runs, absl::OkStatus(); });
    }
    EXPECT_EQ(runs, 2);
    EXPECT_TRUE(done->Done());
    EXPECT_OK(done->Wait());
  }
};

class ErrorsAreReported : public DeviceTest {
 public:
  using DeviceTest::DeviceTest;
  void TestBody() override {
    if (!can_.runs_work) return;
    std::unique_ptr<Stream> first = device_->NewStream("first");
    std::unique_ptr<Stream> second = device_->NewStream("second");
    bool ran = false;
    auto must_not_run = [&ran] { return ran = true, absl::OkStatus(); };
    std::shared_ptr<Event> before = first->Record();
    first->Launch([] { return absl::DataLossError("broken"); });
    first->Launch(must_not_run);
    second->WaitFor(first->Record());
    second->Launch(must_not_run);
    EXPECT_OK(before->Wait());
    for (Stream* stream : {second.get(), first.get(), second.get()}) {
      EXPECT_THAT(stream->Synchronize(), StatusIs(absl::StatusCode::kDataLoss, "broken"));
      EXPECT_THAT(stream->Record()->Wait(), StatusIs(absl::StatusCode::kDataLoss, "broken"));
    }
    EXPECT_FALSE(ran);
  }
};

// A kernel that may fail says so through the stream, and nothing runs after it.
class FailingKernelsEndTheStream : public DeviceTest {
 public:
  using DeviceTest::DeviceTest;
  void TestBody() override {
    if (!can_.runs_work) return;
    int runs = 0;
    PlannedKernel kernel;
    kernel.name = "failing";
    kernel.try_run = [&runs](const KernelArgs&) {
      return ++runs < 2 ? absl::OkStatus() : absl::AbortedError("rank 1 is gone");
    };
    std::unique_ptr<Stream> stream = device_->NewStream("test");
    KernelLaunch launch;
    launch.kernel = &kernel;
    for (int i = 0; i < 4; ++i) device_->Launch(*stream, launch);
    EXPECT_THAT(stream->Synchronize(), StatusIs(absl::StatusCode::kAborted, "rank 1 is gone"));
    EXPECT_EQ(runs, 2);
  }
};

class CapacityIsKept : public DeviceTest {
 public:
  using DeviceTest::DeviceTest;
  void TestBody() override {
    EXPECT_EQ(device_->capacity_bytes(), kMemory);
    EXPECT_THAT(device_->NewArena(Tier::kDevice, kMemory + 1),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("device memory"), HasSubstr("asked for 1048577 bytes"),
                               HasSubstr("left 1048576"))));
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Arena> all, device_->NewArena(Tier::kDevice, kMemory));
    EXPECT_EQ(all->bytes(), kMemory);
    EXPECT_THAT(device_->NewArena(Tier::kDevice, 64),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("left 0")));
    // The host tier is not part of it.
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Arena> host, device_->NewArena(Tier::kHost, kMemory));
    all.reset();
    std::vector<std::unique_ptr<Arena>> quarters;
    for (int i = 0; i < 4; ++i) {
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<Arena> arena,
                           device_->NewArena(Tier::kDevice, kMemory / 4));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->base()) % 64, 0u);
      quarters.push_back(std::move(arena));
    }
    // In an order that needs ranges to grow together again.
    for (int i : {1, 3, 2, 0}) quarters[i].reset();
    EXPECT_OK(device_->NewArena(Tier::kDevice, kMemory).status());
    EXPECT_OK(device_->NewArena(Tier::kDevice, 0).status());
  }
};

// A device of one byte less refuses what fits exactly.
class CapacityIsExact : public DeviceTest {
 public:
  using DeviceTest::DeviceTest;
  void TestBody() override {
    for (int64_t bytes : {1, 63, 64, 65, 4095, 4097, 12345}) {
      std::unique_ptr<Device> device = can_.make(bytes);
      EXPECT_THAT(device->NewArena(Tier::kDevice, bytes + 1),
                  StatusIs(absl::StatusCode::kResourceExhausted));
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<Arena> arena, device->NewArena(Tier::kDevice, bytes));
      std::unique_ptr<Stream> stream = device->NewStream("test");
      device->Fill(*stream, arena->base(), 7, bytes);
      std::vector<char> back(static_cast<size_t>(bytes));
      device->CopyOut(*stream, back.data(), arena->base(), bytes);
      EXPECT_OK(stream->Synchronize());
      if (!computes()) continue;
      EXPECT_EQ(back, std::vector<char>(back.size(), 7));
    }
  }
};

template <typename Test>
void Register(const DeviceCapabilities* capabilities, const char* name) {
  ::testing::RegisterTest((capabilities->name + "Device").c_str(), name, nullptr, nullptr,
                          __FILE__, __LINE__,
                          [capabilities]() -> DeviceTest* { return new Test(*capabilities); });
}

}  // namespace

PlannedKernel HostConformanceKernel() {
  PlannedKernel kernel;
  kernel.name = "conformance";
  kernel.workspace_bytes = kBytes;
  kernel.run = [](const KernelArgs& args) {
    const float* a = static_cast<const float*>(args.operands[0]);
    const float* b = static_cast<const float*>(args.operands[1]);
    float* twice = static_cast<float*>(args.workspace);
    float* y = static_cast<float*>(args.results[0]);
    for (int64_t i = 0; i < kConformanceElements; ++i) twice[i] = 2 * b[i];
    for (int64_t i = 0; i < kConformanceElements; ++i) y[i] = a[i] + twice[i];
  };
  return kernel;
}

bool RegisterDeviceConformance(const DeviceCapabilities& capabilities) {
  const auto* kept = new DeviceCapabilities(capabilities);  // as long as the tests
  Register<CopiesRoundTrip>(kept, "CopiesRoundTrip");
  Register<KernelsRunInOrderWithWorkspace>(kept, "KernelsRunInOrderWithWorkspace");
  Register<EventsOrderStreams>(kept, "EventsOrderStreams");
  Register<WorkStaysInOrder>(kept, "WorkStaysInOrder");
  Register<DestructionFinishesWork>(kept, "DestructionFinishesWork");
  Register<ErrorsAreReported>(kept, "ErrorsAreReported");
  Register<FailingKernelsEndTheStream>(kept, "FailingKernelsEndTheStream");
  Register<CapacityIsKept>(kept, "CapacityIsKept");
  Register<CapacityIsExact>(kept, "CapacityIsExact");
  return true;
}

}  // namespace colossus
