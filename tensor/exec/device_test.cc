// Every device kind against the conformance suite, and what is special about each.
#include "tensor/exec/device.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/testing/status_matchers.h"
#include "collectives/simulated.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/testing/device_conformance.h"

namespace colossus {
namespace {

std::unique_ptr<Device> Capped(int64_t bytes, std::optional<uint64_t> late_seed, bool protect) {
  absl::StatusOr<std::unique_ptr<Device>> device =
      NewCappedDevice({bytes, 1, ReferenceKernels(), late_seed, protect});
  EXPECT_OK(device.status());
  return *std::move(device);
}

const bool registered = [] {
  RegisterDeviceConformance({.name = "Host", .make = [](int64_t bytes) {
    return NewHostDevice({bytes, 1, ReferenceKernels()});
  }});
  RegisterDeviceConformance({.name = "Null", .runs_work = false, .make = [](int64_t bytes) {
    return NewNullDevice({.memory_bytes = bytes, .kernels = ReferenceKernels()});
  }});
  RegisterDeviceConformance({.name = "Capped", .make = [](int64_t bytes) {
    return Capped(bytes, std::nullopt, false);
  }});
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const std::string name = "Late" + std::to_string(seed);
    RegisterDeviceConformance({.name = name, .make = [seed](int64_t bytes) {
      return Capped(bytes, seed, false);
    }});
  }
  RegisterDeviceConformance({.name = "Protected", .make = [](int64_t bytes) {
    return Capped(bytes, std::nullopt, true);
  }});
  return true;
}();

// What the system does not give is not taken.
TEST(HostDeviceTest, FailedArenasLeaveTheCapacityAsItWas) {
  constexpr int64_t kMemory = int64_t{1} << 62;
  std::unique_ptr<Device> device = NewHostDevice({kMemory, 1, ReferenceKernels()});
  EXPECT_THAT(device->NewArena(Tier::kDevice, kMemory / 2),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr("the system does not give")));
  EXPECT_THAT(device->NewArena(Tier::kDevice, kMemory + 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr("left " + std::to_string(kMemory))));
}

TEST(CappedDeviceTest, RefusesNoMemory) {
  for (int64_t bytes : {int64_t{0}, int64_t{-1}, INT64_MAX / 2}) {
    CappedDeviceOptions options;
    options.memory_bytes = bytes;
    options.kernels = ReferenceKernels();
    EXPECT_FALSE(NewCappedDevice(options).ok()) << bytes;
  }
}

TEST(CappedDeviceDeathTest, RunningOverTheEndFaults) {
  std::unique_ptr<Device> device = Capped(4096, std::nullopt, false);
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Arena> arena, device->NewArena(Tier::kDevice, 4096));
  arena->base()[4095] = 1;
  EXPECT_DEATH(static_cast<volatile char*>(arena->base())[4096] = 1, "");
}

// Two ranks' devices in one simulated world: a collective waits for the slower one.
TEST(NullDeviceTest, StreamsOfASimulatedWorldMeet) {
  SimulatedWorld world({.ranks = 2, .present = {0, 1}, .rates = {.alpha = 0.5}});
  NullDeviceOptions options = {.kernels = ReferenceKernels()};
  options.new_stream = [&](VirtualClock& clock) { return world.NewStream(clock); };
  const PlannedKernel kernel = HostConformanceKernel();
  std::unique_ptr<Device> devices[2];
  std::unique_ptr<Communicator> ranks[2];
  std::unique_ptr<Stream> streams[2];
  VirtualClock hosts[2];
  for (int r = 0; r < 2; ++r) {
    devices[r] = NewNullDevice(options);
    ranks[r] = world.Join(r, hosts[r]);
    streams[r] = devices[r]->NewStream("compute");
    KernelLaunch work;
    work.kernel = &kernel;
    work.seconds = 1 + 2 * r;
    devices[r]->Launch(*streams[r], work);
    ranks[r]->Launch(*streams[r], {.kind = CollectiveKind::kBarrier, .site = "here"});
    work.seconds = 1;
    devices[r]->Launch(*streams[r], work);
  }
  for (int r = 0; r < 2; ++r) {
    EXPECT_OK(streams[r]->Synchronize());
    EXPECT_EQ(devices[r]->clock().Seconds(), 3 + 0.5 + 1);
  }
}

// A copy that nobody ordered before the kernel that needs it must go wrong under some seed.
TEST(CappedDeviceTest, LateOrderFindsAMissingWait) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    std::unique_ptr<Device> device = Capped(1 << 16, seed, false);
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Arena> arena, device->NewArena(Tier::kDevice, 128));
    std::unique_ptr<Stream> copies = device->NewStream("copies");
    std::unique_ptr<Stream> compute = device->NewStream("compute");
    const int source = 5;
    int result = 0;
    device->Fill(*compute, arena->base(), 0, 128);
    ASSERT_OK(compute->Synchronize());
    device->CopyIn(*copies, arena->base(), &source, sizeof(source));
    device->CopyWithin(*compute, arena->base() + 64, arena->base(), sizeof(source));
    device->CopyOut(*compute, &result, arena->base() + 64, sizeof(result));
    ASSERT_OK(compute->Synchronize());
    wrong += result != source;
  }
  EXPECT_GT(wrong, 0);
  EXPECT_LT(wrong, 32);
}

TEST(CappedDeviceTest, LateWorkDoesNotRunBeforeSomebodyWaits) {
  std::unique_ptr<Device> device = Capped(1 << 16, 3, false);
  std::unique_ptr<Stream> stream = device->NewStream("test");
  bool ran = false;
  stream->Launch([&ran] { return ran = true, absl::OkStatus(); });
  std::shared_ptr<Event> done = stream->Record();
  EXPECT_FALSE(done->Done());
  EXPECT_FALSE(ran);
  EXPECT_OK(done->Wait());
  EXPECT_TRUE(ran);
}

// Streams of one device wait for events of another's.
TEST(CappedDeviceTest, LateStreamsWaitForForeignEvents) {
  std::unique_ptr<Device> late = Capped(1 << 16, 3, false), other = Capped(1 << 16, 4, false);
  std::unique_ptr<Device> threaded = Capped(1 << 16, std::nullopt, false);
  std::unique_ptr<Stream> a = late->NewStream("a"), b = other->NewStream("b");
  std::unique_ptr<Stream> c = threaded->NewStream("c");
  std::vector<int> order;
  auto note = [&order](int n) {
    return [&order, n] { return order.push_back(n), absl::OkStatus(); };
  };
  c->Launch(note(1));
  b->WaitFor(c->Record());
  b->Launch(note(2));
  a->WaitFor(b->Record());
  a->Launch(note(3));
  EXPECT_OK(a->Synchronize());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

class ProtectedDeathTest : public ::testing::Test {
 protected:
  void Run(void (*body)(const KernelArgs&), const void* operand) {
    PlannedKernel kernel;
    kernel.run = body;
    KernelLaunch launch;
    launch.kernel = &kernel;
    launch.operands = {operand};
    launch.results = {arena_->base()};
    device_->Launch(*stream_, launch);
    ASSERT_OK(stream_->Synchronize());
  }

  std::unique_ptr<Device> device_ = Capped(1 << 16, std::nullopt, true);
  std::unique_ptr<Arena> arena_ = *device_->NewArena(Tier::kDevice, 4096);
  std::unique_ptr<Arena> host_ = *device_->NewArena(Tier::kHost, 4096);
  std::unique_ptr<Stream> stream_ = device_->NewStream("test");
};

void CopyOne(const KernelArgs& args) {
  *static_cast<char*>(args.results[0]) = *static_cast<const char*>(args.operands[0]);
}

TEST_F(ProtectedDeathTest, KernelsMustNotReadTheHost) {
  host_->base()[0] = 1;
  Run(&CopyOne, arena_->base() + 64);
  EXPECT_DEATH(Run(&CopyOne, host_->base()), "");
  host_->base()[0] = 2;
}

TEST_F(ProtectedDeathTest, TheHostMustNotReadTheDevice) {
  EXPECT_DEATH(host_->base()[0] = arena_->base()[0], "");
  device_->CopyOut(*stream_, host_->base(), arena_->base(), 64);
  EXPECT_OK(stream_->Synchronize());
  EXPECT_DEATH(arena_->base()[0] = 1, "");
}

TEST_F(ProtectedDeathTest, WorkOnTheHostMustNotReadTheDevice) {
  auto run = [this](const char* from) {
    device_->LaunchOnHost(*stream_, [this, from] {
      host_->base()[0] = *from;
      return absl::OkStatus();
    }, /*seconds=*/0);
    return stream_->Synchronize();
  };
  host_->base()[1] = 3;
  EXPECT_OK(run(host_->base() + 1));
  EXPECT_EQ(host_->base()[0], 3);
  EXPECT_DEATH(run(arena_->base()).IgnoreError(), "");
}

TEST(CappedDeviceTest, CopiesTakeAsLongAsTheDeclaredLinkNeeds) {
  CappedDeviceOptions options;
  options.memory_bytes = 1 << 20;
  options.kernels = ReferenceKernels();
  options.link_bytes_per_second = 50e6;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(options));
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Arena> arena, device->NewArena(Tier::kDevice, 1 << 20));
  std::unique_ptr<Stream> in = device->NewStream("in"), out = device->NewStream("out");
  std::vector<char> source(1 << 20, 7), result(1 << 20);
  const double start = device->clock().Seconds();
  device->CopyIn(*in, arena->base(), source.data(), 1 << 20);
  ASSERT_OK(in->Synchronize());
  const double middle = device->clock().Seconds();
  EXPECT_GE(middle - start, (1 << 20) / 50e6);
  device->CopyOut(*out, result.data(), arena->base(), 1 << 20);
  ASSERT_OK(out->Synchronize());
  EXPECT_GE(device->clock().Seconds() - middle, (1 << 20) / 50e6);
  EXPECT_EQ(result, source);
}

TEST(NullDeviceTest, WorkOnTheHostTakesItsSeconds) {
  std::unique_ptr<Device> device = NewNullDevice({.kernels = ReferenceKernels()});
  std::unique_ptr<Stream> stream = device->NewHostStream("host");
  device->LaunchOnHost(*stream, [] { return absl::InternalError("ran"); }, /*seconds=*/2);
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(device->clock().Seconds(), 2);
}

}  // namespace
}  // namespace colossus
