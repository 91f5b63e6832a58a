#include "base/cores.h"

#include <sched.h>

#include <thread>

#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(CoresTest, AreThoseTheThreadIsBoundTo) {
  EXPECT_GE(Cores(), 1);
  int bound = 0, cores = 0;
  std::thread([&] {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    }
    bound = sched_setaffinity(0, sizeof(one), &one);
    cores = Cores();
  }).join();
  EXPECT_EQ(bound, 0);
  EXPECT_EQ(cores, 1);
}

}  // namespace
}  // namespace colossus
