#include "base/stream.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(InlineStream, RunsInOrderAtOnce) {
  InlineStream stream;
  std::string log;
  for (const char c : {'a', 'b'}) {
    stream.Launch([&log, c] {
      log += c;
      return absl::OkStatus();
    });
    EXPECT_EQ(log.back(), c);
  }
  EXPECT_TRUE(stream.Record()->Done());
  EXPECT_OK(stream.Synchronize());
  EXPECT_EQ(log, "ab");
}

TEST(InlineStream, SkipsWorkAfterTheFirstErrorAndKeepsIt) {
  InlineStream stream;
  const std::shared_ptr<Event> before = stream.Record();
  bool ran = false;
  stream.Launch([] { return absl::DataLossError("first"); });
  stream.Launch([&ran] {
    ran = true;
    return absl::AbortedError("second");
  });
  EXPECT_FALSE(ran);
  EXPECT_OK(before->Wait());
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_THAT(stream.Synchronize(), StatusIs(absl::StatusCode::kDataLoss, "first"));
    EXPECT_THAT(stream.Record()->Wait(), StatusIs(absl::StatusCode::kDataLoss, "first"));
  }
}

TEST(InlineStream, TakesOverTheErrorOfAnEvent) {
  InlineStream producer, consumer;
  consumer.WaitFor(producer.Record());
  EXPECT_OK(consumer.Synchronize());
  producer.Launch([] { return absl::InternalError("producer"); });
  consumer.WaitFor(producer.Record());
  EXPECT_THAT(consumer.Synchronize(), StatusIs(absl::StatusCode::kInternal, "producer"));
  EXPECT_DEATH(consumer.WaitFor(nullptr), "event != nullptr");
}

}  // namespace
}  // namespace colossus
