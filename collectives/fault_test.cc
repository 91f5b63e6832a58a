// What must end all ranks: collectives that do not match, ranks that fail or hang; on threads.
// collectives/mpi/fault_test.cc does the same with processes.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "collectives/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Sum(Communicator& group, int64_t count, const char* site) {
  std::vector<float> x(static_cast<size_t>(count));
  return group.Run({.kind = CollectiveKind::kAllReduce,
                    .src = x.data(),
                    .dst = x.data(),
                    .count = count,
                    .site = site});
}

absl::Status Gather(Communicator& group, int64_t count, const char* site) {
  std::vector<float> x(static_cast<size_t>(count)), y(static_cast<size_t>(count * group.size()));
  return group.Run({.kind = CollectiveKind::kAllGather,
                    .src = x.data(),
                    .dst = y.data(),
                    .count = count,
                    .site = site});
}

// Runs two ranks after one common operation; every rank must fail with the same error.
absl::Status RunPair(const std::function<absl::Status(Communicator&)>& first,
                     const std::function<absl::Status(Communicator&)>& second) {
  std::vector<absl::Status> statuses(2);
  const absl::Status status = RunRanks({.ranks = 2, .watch = {.deadlock_seconds = 2}},
                                       [&](Communicator& world) -> absl::Status {
                                         RETURN_IF_ERROR(Sum(world, 1, "common"));
                                         const size_t r = static_cast<size_t>(world.rank());
                                         return statuses[r] = r == 0 ? first(world) : second(world);
                                       });
  for (const absl::Status& of_rank : statuses) {
    EXPECT_TRUE(of_rank.ok() || of_rank.message() == status.message()) << of_rank;
  }
  return status;
}

TEST(FaultTest, ElementCountsThatDiffer) {
  EXPECT_THAT(RunPair([](Communicator& world) { return Sum(world, 4, "h.3/mlp"); },
                      [](Communicator& world) { return Sum(world, 8, "h.3/mlp"); }),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("group world [0,1]"), HasSubstr("element counts"),
                             HasSubstr("rank 0: operation 2 of group world, all_reduce sum f32, 4 "
                                       "elements, at h.3/mlp"),
                             HasSubstr("rank 1: operation 2 of group world, all_reduce sum f32, 8 "
                                       "elements, at h.3/mlp"))));
}

TEST(FaultTest, OperationsThatDiffer) {
  EXPECT_THAT(RunPair([](Communicator& world) { return Sum(world, 4, "a"); },
                      [](Communicator& world) { return Gather(world, 4, "b"); }),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("operations"), HasSubstr("all_reduce"), HasSubstr("at a"),
                             HasSubstr("all_gather"), HasSubstr("at b"))));
}

TEST(FaultTest, ACollectiveOnOneRankOnly) {
  // The other rank goes on to another one ...
  EXPECT_THAT(
      RunPair(
          [](Communicator& world) -> absl::Status {
            RETURN_IF_ERROR(Sum(world, 4, "conditional"));
            return Sum(world, 4, "next");
          },
          [](Communicator& world) { return Sum(world, 4, "next"); }),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("call sites"), HasSubstr("at conditional"), HasSubstr("at next"))));
  // ... or ends ...
  EXPECT_THAT(RunPair([](Communicator& world) { return Sum(world, 4, "conditional"); },
                      [](Communicator&) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("at conditional"), HasSubstr("rank 1 has left"),
                             HasSubstr("at common"))));
  // ... or to one of another group.
  EXPECT_THAT(RunPair(
                  [](Communicator& world) -> absl::Status {
                    ASSIGN_OR_RETURN(auto group, world.Subgroup({0, 1}, "tensor"));
                    RETURN_IF_ERROR(Sum(world, 4, "conditional"));
                    return Sum(*group, 4, "next");
                  },
                  [](Communicator& world) -> absl::Status {
                    ASSIGN_OR_RETURN(auto group, world.Subgroup({0, 1}, "tensor"));
                    return Sum(*group, 4, "next");
                  }),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("do not match"), HasSubstr("at conditional"),
                             HasSubstr("of group tensor"), HasSubstr("at next"))));
}

TEST(FaultTest, EndsOfAnExchangeThatDoNotMeet) {
  const auto send = [](int to, int from, int64_t count) {
    return [=](Communicator& world) {
      std::vector<float> x(8), y(8);
      return world.Run({.kind = CollectiveKind::kExchange,
                        .src = x.data(),
                        .dst = y.data(),
                        .count = count,
                        .receive_count = 4,
                        .to = to,
                        .from = from,
                        .site = "shift"});
    };
  };
  EXPECT_OK(RunPair(send(1, 1, 4), send(0, 0, 4)));
  EXPECT_OK(RunPair(send(1, -1, 4), send(-1, 0, 4)));
  for (const auto& other : {send(-1, 0, 4), send(-1, -1, 4)}) {
    EXPECT_THAT(RunPair(send(1, -1, 5), other),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ends")));
  }
  EXPECT_THAT(RunPair(send(-1, 1, 4), send(-1, -1, 4)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ends")));
}

// Rank 2 of 4 fails at step 3, in every way a thread can.
absl::Status TrainingLoop(Communicator& world,
                          const std::function<absl::Status(int64_t step)>& load) {
  for (int64_t step = 1; step <= 4; ++step) {
    world.SetWhere(step, "load");
    RETURN_IF_ERROR(load(step));
    world.SetWhere(step, "reduce");
    RETURN_IF_ERROR(Sum(world, 100, "gradients"));
  }
  return absl::OkStatus();
}

TEST(FaultTest, ARankThatFailsIsNamedFirst) {
  EXPECT_THAT(RunRanks({.ranks = 4},
                       [](Communicator& world) {
                         return TrainingLoop(world, [&](int64_t step) {
                           return world.rank() == 2 && step == 3
                                      ? absl::DataLossError("a broken shard")
                                      : absl::OkStatus();
                         });
                       }),
              StatusIs(absl::StatusCode::kDataLoss,
                       "rank 2 failed at step 3 in phase load: DATA_LOSS: a broken shard"));
  EXPECT_THAT(
      RunRanks({.ranks = 4},
               [](Communicator& world) {
                 return TrainingLoop(world, [&](int64_t step) {
                   if (world.rank() == 2 && step == 3) throw std::runtime_error("bad row");
                   return absl::OkStatus();
                 });
               }),
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("rank 2 failed at step 3 in phase load"), HasSubstr("bad row"))));
}

// The address space that this process has, in bytes.
rlim_t AddressSpace() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// Stacks of threads lie in the address space: a limit on it is one on threads, for root too.
[[noreturn]] void RunMoreRanksThanThreads() {
  const rlim_t bytes = AddressSpace() + (rlim_t{256} << 20);
  const rlimit limit = {bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(3);
  const absl::Status status = RunRanks(
      {.ranks = 200}, [](Communicator& world) { return Sum(world, 1, "common"); });
  std::fputs(status.ToString().c_str(), stderr);
  std::_Exit(absl::IsResourceExhausted(status) ? 0 : 4);
}

TEST(FaultDeathTest, MoreRanksThanTheSystemHasThreads) {
  EXPECT_EXIT(RunMoreRanksThanThreads(), ::testing::ExitedWithCode(0),
              "the system starts no more than .* threads of ranks here .*; use fewer ranks");
}

// Also without checking.
TEST(FaultTest, ARankThatHangsIsNamedWithAReportOfAll) {
  for (bool check : {true, false}) {
    EXPECT_THAT(RunRanks({.ranks = 4, .check = check, .watch = {.stall_seconds = 1}},
                         [](Communicator& world) {
                           return TrainingLoop(world, [&](int64_t step) {
                             if (world.rank() == 2 && step == 3) {
                               std::this_thread::sleep_for(std::chrono::seconds(3));
                             }
                             return absl::OkStatus();
                           });
                         }),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("rank 2 hangs at step 3 in phase load"),
                               HasSubstr("rank 0: runs at step 3 in phase reduce; last finished "
                                         "operation 2 of group world"),
                               HasSubstr("waits in operation 3 of group world, all_reduce sum f32, "
                                         "100 elements, at gradients"))));
  }
}

TEST(FaultTest, ALongComputationWithSignsOfLifeIsNoHang) {
  EXPECT_OK(RunRanks({.ranks = 2, .watch = {.stall_seconds = 2, .deadlock_seconds = 2}},
                     [](Communicator& world) {
                       return TrainingLoop(world, [&](int64_t step) {
                         for (int i = 0; i < 20 && step == 2 && world.rank() == 1; ++i) {
                           std::this_thread::sleep_for(std::chrono::milliseconds(200));
                           world.Beat();
                         }
                         return absl::OkStatus();
                       });
                     }));
}

TEST(FaultDeathTest, ARankThatNeverComesBackEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(RunRanks(
                  {.ranks = 2, .watch = {.stall_seconds = 0.5}},
                  [](Communicator& world) {
                    return TrainingLoop(world, [&](int64_t step) {
                      while (world.rank() == 1 && step == 3) {
                        std::this_thread::sleep_for(std::chrono::seconds(1));
                      }
                      return absl::OkStatus();
                    });
                  },
                  /*come_back_seconds=*/0.5)
                  .IgnoreError(),
              ::testing::ExitedWithCode(1), "rank 1 hangs at step 3 in phase load");
}

}  // namespace
}  // namespace colossus
