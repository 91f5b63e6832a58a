#include "base/clock.h"

#include <cmath>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(RealClock, NeverDecreases) {
  RealClock clock;
  double last = clock.Seconds();
  for (int i = 0; i < 1000; ++i) {
    const double now = clock.Seconds();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(VirtualClock, MovesOnlyForwardsAndOnlyWhenTold) {
  VirtualClock clock;
  EXPECT_EQ(clock.Seconds(), 0);
  clock.AdvanceTo(2.5);
  clock.AdvanceTo(1);
  EXPECT_EQ(clock.Seconds(), 2.5);
  clock.AdvanceBy(0.5);
  EXPECT_EQ(clock.Seconds(), 3);
  EXPECT_DEATH(clock.AdvanceBy(-1), "seconds >= 0");
  EXPECT_DEATH(clock.AdvanceTo(NAN), "NaN");
}

TEST(VirtualClock, AddsUpFromManyThreads) {
  VirtualClock clock;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&clock] {
      for (int j = 0; j < 1000; ++j) clock.AdvanceBy(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clock.Seconds(), 4000);
}

}  // namespace
}  // namespace colossus
