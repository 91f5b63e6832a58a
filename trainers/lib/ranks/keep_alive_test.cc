#include "trainers/lib/ranks/keep_alive.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// Of each two of three ranks a group; each rank waits in another one.
absl::Status WaitInACircle(Communicator& world) {
  std::vector<std::unique_ptr<Communicator>> groups;
  for (const std::vector<int>& pair : {std::vector<int>{0, 1}, {1, 2}, {0, 2}}) {
    groups.emplace_back();
    if (world.rank() != pair[0] && world.rank() != pair[1]) continue;
    ASSIGN_OR_RETURN(groups.back(), world.Subgroup(pair, "pair"));
  }
  const KeepAlive alive((RankGroup(&world)));
  return Barrier(*groups[static_cast<size_t>(world.rank())], "circle");
}

TEST(KeepAliveTest, ItHidesNoDeadlock) {
  EXPECT_THAT(RunRanks({.ranks = 3, .watch = {.deadlock_seconds = 3}}, WaitInACircle),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("every rank waits in a collective, and nothing has moved")));
}

TEST(KeepAliveTest, ARankThatWorksLongDoesNotHang) {
  EXPECT_OK(RunRanks({.ranks = 2, .watch = {.stall_seconds = 3}}, [](Communicator& world) {
    const KeepAlive alive((RankGroup(&world)));
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
    return Barrier(world, "after work");
  }));
}

}  // namespace
}  // namespace colossus
