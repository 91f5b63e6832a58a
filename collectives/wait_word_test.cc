#include "collectives/wait_word.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(WaitWordTest, SpinnersAndSleepersWake) {
  for (int spins : {0, 1 << 30}) {
    WaitWord there, back;
    std::thread other([&] {
      for (uint32_t turn = 1; turn <= 200; ++turn) {
        EXPECT_TRUE(there.WaitFor(turn, spins, [] { return false; }));
        back.Add(1);
        back.Wake();
      }
    });
    for (uint32_t turn = 1; turn <= 200; ++turn) {
      there.Store(turn);
      there.Wake();
      EXPECT_TRUE(back.WaitFor(turn, spins, [] { return false; }));
    }
    other.join();
  }
}

TEST(WaitWordTest, StopsWithoutBeingWoken) {
  WaitWord word;
  std::atomic<bool> stop{false};
  std::thread waiter([&] { EXPECT_FALSE(word.WaitFor(1, 0, [&] { return stop.load(); })); });
  stop = true;
  waiter.join();
  EXPECT_FALSE(word.WaitFor(1, 1 << 20, [] { return true; }));
}

TEST(WaitWordTest, ValuesRunOver) {
  WaitWord word;
  word.Store(0xffffffffu);
  EXPECT_TRUE(word.WaitFor(0xfffffff0u, 0, [] { return false; }));
  EXPECT_EQ(word.Add(3), 2u);
  EXPECT_TRUE(word.WaitFor(1, 0, [] { return false; }));
  EXPECT_TRUE(word.WaitFor(0xffffffffu, 0, [] { return false; }));
  EXPECT_FALSE(word.WaitFor(3, 0, [] { return true; }));
}

}  // namespace
}  // namespace colossus
