#include "base/testing/heap_counter.h"

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace colossus {
namespace {

// Rounding of blocks to pages, and what the library of threads and the test itself take.
constexpr int64_t kSlack = 4 * 4096;

TEST(HeapCounterTest, CountsWhatIsTakenAndGivenBack) {
  if (!HeapIsCounted()) GTEST_SKIP() << "a sanitizer's malloc";
  const int64_t before = HeapBytes();
  ResetHeapPeak();
  {
    std::vector<char> values(1 << 20);
    EXPECT_NEAR(HeapBytes() - before, 1 << 20, kSlack);
    values.resize(3 << 20);  // both are there for a while
    EXPECT_NEAR(HeapBytes() - before, 3 << 20, kSlack);
  }
  EXPECT_NEAR(HeapBytes() - before, 0, kSlack);
  EXPECT_NEAR(HeapPeak() - before, 4 << 20, kSlack);
  ResetHeapPeak();
  EXPECT_NEAR(HeapPeak() - before, 0, kSlack);
}

TEST(HeapCounterTest, CountsAlignedAndZeroedAndGrown) {
  if (!HeapIsCounted()) GTEST_SKIP() << "a sanitizer's malloc";
  const int64_t before = HeapBytes();
  // Volatile: what nobody looks at need not be taken.
  void* volatile aligned = std::aligned_alloc(64, 1 << 20);
  void* volatile zeroed = std::calloc(1 << 10, 1 << 10);
  EXPECT_NEAR(HeapBytes() - before, 2 << 20, kSlack);
  zeroed = std::realloc(zeroed, 2 << 20);
  EXPECT_NEAR(HeapBytes() - before, 3 << 20, kSlack);
  std::free(aligned);
  std::free(zeroed);
  EXPECT_NEAR(HeapBytes() - before, 0, kSlack);
}

TEST(HeapCounterTest, CountsAllThreads) {
  if (!HeapIsCounted()) GTEST_SKIP() << "a sanitizer's malloc";
  const int64_t before = HeapBytes();
  std::unique_ptr<char[]> made;
  std::thread([&] { made = std::make_unique<char[]>(1 << 20); }).join();
  EXPECT_NEAR(HeapBytes() - before, 1 << 20, kSlack);
}

}  // namespace
}  // namespace colossus
