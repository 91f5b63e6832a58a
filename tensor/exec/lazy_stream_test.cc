#include "tensor/exec/lazy_stream.h"

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/stream.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(LazyStreamTest, WhoWaitsDoesTheWork) {
  LazyStream stream(1);
  std::thread::id by;
  stream.Launch([&by] {
    by = std::this_thread::get_id();
    return absl::OkStatus();
  });
  EXPECT_OK(stream.Synchronize());
  EXPECT_EQ(by, std::this_thread::get_id());
}

// Who leaves does not wait: the work blocks until he lets it go.
TEST(LazyStreamTest, TheThreadDoesWhatIsLeft) {
  LazyStream stream(1);
  std::atomic<bool> running = false, go = false;
  std::thread::id by;
  stream.Launch([&] {
    by = std::this_thread::get_id();
    running = true;
    running.notify_one();
    go.wait(false);
    return absl::OkStatus();
  });
  const std::shared_ptr<Event> done = stream.Record();
  stream.queue()->Leave(1);
  running.wait(false);
  go = true;
  go.notify_one();
  EXPECT_OK(done->Wait());
  EXPECT_NE(by, std::this_thread::get_id());
}

TEST(LazyStreamTest, WhoAsksWhetherItIsDoneNeedNotWait) {
  LazyStream stream(1);
  stream.Launch([] { return absl::OkStatus(); });
  const std::shared_ptr<Event> done = stream.Record();
  while (!done->Done()) std::this_thread::yield();
  EXPECT_OK(done->Wait());
}

TEST(LazyStreamTest, AnErrorStays) {
  LazyStream stream(1), other(1);
  bool ran = false;
  stream.Launch([] { return absl::DataLossError("lost"); });
  stream.Launch([&ran] {
    ran = true;
    return absl::OkStatus();
  });
  other.WaitFor(stream.Record());
  EXPECT_THAT(other.Synchronize(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(stream.Synchronize(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_FALSE(ran);
}

// Whoever does it: one after another, in order, all of it.
TEST(LazyStreamTest, OrderIsKept) {
  std::mt19937_64 random(TestSeed());
  std::vector<int> order;
  std::atomic<int> at_once = 0;
  std::vector<std::shared_ptr<Event>> events;
  {
    LazyStream stream(1);
    for (int i = 0; i < 5000; ++i) {
      stream.Launch([&, i] {
        EXPECT_EQ(++at_once, 1);
        order.push_back(i);
        --at_once;
        return absl::OkStatus();
      });
      if (random() % 4 == 0) events.push_back(stream.Record());
      if (random() % 4 == 0) stream.queue()->Leave(random() % 2 == 0 ? 1 : 0);
      if (random() % 4 == 0 && !events.empty()) {
        EXPECT_OK(events[random() % events.size()]->Wait());
      }
    }
  }
  ASSERT_EQ(order.size(), 5000u);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  for (const std::shared_ptr<Event>& event : events) EXPECT_TRUE(event->Done());
}

}  // namespace
}  // namespace colossus
