#include "base/parallel_for.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace colossus {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges Split(int64_t n, int64_t grain) {
  std::mutex mutex;
  Ranges ranges;
  ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(ParallelFor, CoversTheRangeOnceInWholeGrains) {
  for (const int threads : {1, 2, 3, 8}) {
    SetThreads(threads);
    EXPECT_EQ(Threads(), threads);
    for (const int64_t n : {1, 2, 7, 16, 100, 1000}) {
      for (const int64_t grain : {1, 3, 16, 999, 5000}) {
        const Ranges ranges = Split(n, grain);
        EXPECT_LE(ranges.size(), static_cast<size_t>(threads));
        int64_t at = 0;
        for (const auto& [begin, end] : ranges) {
          EXPECT_EQ(begin, at);
          EXPECT_EQ(begin % grain, 0);
          EXPECT_LT(begin, end);
          at = end;
        }
        EXPECT_EQ(at, n) << "threads " << threads << " grain " << grain;
        EXPECT_EQ(ranges, Split(n, grain)) << "the split is always the same";
      }
    }
  }
}

TEST(ParallelFor, SplitsEvenly) {
  SetThreads(3);
  EXPECT_EQ(Split(11, 1), (Ranges{{0, 4}, {4, 8}, {8, 11}}));
  EXPECT_EQ(Split(11, 2), (Ranges{{0, 4}, {4, 8}, {8, 11}}));
  EXPECT_EQ(Split(11, 5), (Ranges{{0, 5}, {5, 10}, {10, 11}}));
  EXPECT_EQ(Split(11, 11), (Ranges{{0, 11}}));
  EXPECT_EQ(Split(0, 1), Ranges{});
  EXPECT_EQ(Split(-3, 1), Ranges{});
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  constexpr int64_t kHalf = int64_t{1} << 62;
  EXPECT_EQ(Split(kHuge, kHalf), (Ranges{{0, kHalf}, {kHalf, kHuge}}));
}

TEST(ParallelFor, UsesSeveralThreadsAndPublishesTheirWrites) {
  SetThreads(2);
  std::vector<int64_t> values(100000);
  std::set<std::thread::id> ids;
  std::mutex mutex;
  for (int repeat = 0; repeat < 10; ++repeat) {
    ParallelFor(values.size(), 1000, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[i] += i;
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
  }
  EXPECT_GE(ids.size(), 2u);
  const int64_t sum = std::accumulate(values.begin(), values.end(), int64_t{0});
  EXPECT_EQ(sum, 10 * 99999 * int64_t{50000});
}

TEST(ParallelFor, RunsInlineInsideAnother) {
  SetThreads(2);
  std::vector<Ranges> inner(2);
  ParallelFor(2, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::thread::id outer = std::this_thread::get_id();
      ParallelFor(100, 1, [&](int64_t from, int64_t to) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        inner[i].emplace_back(from, to);
      });
    }
  });
  EXPECT_EQ(inner[0], (Ranges{{0, 100}}));
  EXPECT_EQ(inner[1], (Ranges{{0, 100}}));
  EXPECT_EQ(Split(4, 2).size(), 2u) << "and splits again afterwards";
}

TEST(ParallelFor, EachRankThreadHasItsOwnTeam) {
  SetThreads(3);
  std::vector<std::thread> ranks;
  std::vector<size_t> parts(3);
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([rank, &parts] {
      SetThreads(rank + 1);
      parts[rank] = Split(1000, 1).size();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(parts, (std::vector<size_t>{1, 2, 3}));
  EXPECT_EQ(Threads(), 3);
}

TEST(ParallelForDeathTest, RefusesZeroThreadsAndGrains) {
  EXPECT_DEATH(SetThreads(0), "threads >= 1");
  EXPECT_DEATH(ParallelFor(1, 0, [](int64_t, int64_t) {}), "grain >= 1");
}

}  // namespace
}  // namespace colossus
