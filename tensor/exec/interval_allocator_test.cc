#include "tensor/exec/interval_allocator.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/testing/seed.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

// Most bytes alive at once: no placement needs less.
int64_t LowerBound(const std::vector<LiveBuffer>& buffers) {
  int64_t most = 0;
  for (const LiveBuffer& at : buffers) {
    int64_t live = 0;
    for (const LiveBuffer& b : buffers) {
      if (b.first <= at.first && at.first <= b.last) live += b.bytes;
    }
    most = std::max(most, live);
  }
  return most;
}

void ExpectPlaced(const std::vector<LiveBuffer>& buffers, int64_t peak) {
  int64_t end = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const LiveBuffer& a = buffers[i];
    EXPECT_GE(a.offset, 0);
    end = std::max(end, a.offset + a.bytes);
    for (size_t j = 0; j < i; ++j) {
      const LiveBuffer& b = buffers[j];
      bool together = a.first <= b.last && b.first <= a.last;
      bool disjoint = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      EXPECT_TRUE(!together || disjoint || a.bytes == 0 || b.bytes == 0) << i << " and " << j;
    }
  }
  EXPECT_EQ(peak, end);
  EXPECT_GE(peak, LowerBound(buffers));
}

TEST(IntervalAllocatorTest, Examples) {
  struct Example {
    const char* what;
    std::vector<LiveBuffer> buffers;
    int64_t peak;
  };
  const Example examples[] = {
      {"nothing", {}, 0},
      {"no bytes", {{0, 0, 9, 0}}, 0},
      {"one after another", {{64, 0, 1, 0}, {64, 2, 3, 0}}, 64},
      {"ends are inclusive", {{64, 0, 1, 0}, {64, 1, 2, 0}}, 128},
      {"two small ones in the place of a large one",
       {{128, 0, 1, 0}, {64, 2, 4, 0}, {64, 3, 5, 0}},
       128},
      {"a hole between two is used",
       {{64, 0, 9, 0}, {128, 0, 1, 0}, {64, 0, 9, 0}, {128, 2, 9, 0}},
       256},
      // In time order the long one would take the first place of the dead one.
      {"the largest goes first", {{64, 0, 0, 0}, {64, 0, 3, 0}, {128, 2, 3, 0}}, 192},
  };
  for (Example example : examples) {
    SCOPED_TRACE(example.what);
    EXPECT_EQ(AssignOffsets(example.buffers), example.peak);
    ExpectPlaced(example.buffers, example.peak);
  }
}

TEST(IntervalAllocatorTest, RandomBuffersAreDisjointWhileBothLive) {
  std::mt19937 random(TestSeed());
  double total = 0, bound = 0;
  for (int round = 0; round < 300; ++round) {
    const int count = 1 + static_cast<int>(random() % 80);
    const int64_t length = 1 + random() % 100, longest = 1 + random() % 40;
    std::vector<LiveBuffer> buffers;
    for (int i = 0; i < count; ++i) {
      int64_t first = random() % length;
      buffers.push_back({static_cast<int64_t>(random() % 20) * 64, first,
                         first + static_cast<int64_t>(random() % longest), 0});
    }
    std::vector<LiveBuffer> again = buffers;
    const int64_t peak = AssignOffsets(buffers);
    ExpectPlaced(buffers, peak);
    EXPECT_EQ(AssignOffsets(again), peak);
    total += static_cast<double>(peak);
    bound += static_cast<double>(LowerBound(buffers));
  }
  // Fragmentation of random lifetimes; a placement that wastes more has lost its way.
  EXPECT_LT(total, 1.1 * bound);
}

TEST(IntervalAllocatorTest, TriesHarderToStayWithinALimit) {
  std::mt19937 random(TestSeed());
  double total = 0, harder = 0, bound = 0;
  int fits = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<LiveBuffer> buffers;
    for (int i = 0; i < 60; ++i) {
      const int64_t first = random() % 60;
      buffers.push_back({static_cast<int64_t>(random() % 20) * 64, first,
                         first + static_cast<int64_t>(random() % 20), 0});
    }
    std::vector<LiveBuffer> plain = buffers;
    const int64_t peak = AssignOffsets(plain), least = LowerBound(buffers);
    const int64_t limit = least + least / 50;
    const int64_t within = AssignOffsetsWithin(buffers, limit);
    ExpectPlaced(buffers, within);
    EXPECT_LE(within, peak);
    fits += within <= limit;
    total += static_cast<double>(peak);
    harder += static_cast<double>(within);
    bound += static_cast<double>(least);
  }
  EXPECT_LT(harder, 1.02 * bound);
  EXPECT_LT(harder, total);
  EXPECT_GT(fits, 50);
}

// A stack, as a forward and backward make it, needs no byte more than is alive.
TEST(IntervalAllocatorTest, StacksHaveNoFragmentation) {
  std::mt19937 random(TestSeed());
  std::vector<LiveBuffer> buffers;
  for (int64_t i = 0; i < 9000; ++i) {
    buffers.push_back({64 + static_cast<int64_t>(random() % 50) * 64, i, 20000 - i, 0});
  }
  const int64_t peak = AssignOffsets(buffers);
  int64_t all = 0;
  for (const LiveBuffer& buffer : buffers) all += buffer.bytes;
  EXPECT_EQ(peak, all);
}

}  // namespace
}  // namespace colossus
