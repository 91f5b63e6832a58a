#include "base/virtual_stream.h"

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(VirtualStreamTest, WorkFollowsWorkAndTheClock) {
  VirtualClock clock;
  std::unique_ptr<VirtualStream> stream = NewVirtualStream(clock);
  stream->Advance(2);
  bool ran = false;
  stream->Launch([&] { return ran = true, absl::OkStatus(); });
  EXPECT_EQ(clock.Seconds(), 0);
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(clock.Seconds(), 2);
  EXPECT_FALSE(ran);
  clock.AdvanceTo(5);
  stream->Advance(1);
  EXPECT_OK(stream->Synchronize());
  EXPECT_EQ(clock.Seconds(), 6);
}

TEST(VirtualStreamTest, EventsOrderStreams) {
  VirtualClock clock;
  std::unique_ptr<VirtualStream> a = NewVirtualStream(clock), b = NewVirtualStream(clock);
  a->Advance(3);
  std::shared_ptr<Event> done = a->Record();
  b->WaitFor(done);
  b->Advance(1);
  a->Advance(2);
  EXPECT_FALSE(done->Done());
  EXPECT_OK(done->Wait());
  EXPECT_EQ(clock.Seconds(), 3);
  EXPECT_OK(b->Synchronize());
  EXPECT_EQ(clock.Seconds(), 4);
  EXPECT_OK(a->Synchronize());
  EXPECT_EQ(clock.Seconds(), 5);
}

}  // namespace
}  // namespace colossus
