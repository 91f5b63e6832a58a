#include "collectives/direct.h"

#include <cstdint>
#include <vector>

#include "collectives/communicator.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

// A rank that copies or adds for long shows that it lives, and the pieces between are the whole.
TEST(DirectTest, GivesSignsOfLife) {
  const int64_t count = (40 << 20) / 4 + 3;  // floats: 40 MiB and a little
  std::vector<float> a(static_cast<size_t>(count)), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 1000);
    b[i] = static_cast<float>(i % 77);
  }
  std::vector<float> sum_a(a.size(), -1), sum_b(a.size(), -1);
  Collective of_a, of_b;
  of_a.kind = of_b.kind = CollectiveKind::kAllReduce;
  of_a.dtype = of_b.dtype = DType::kF32;
  of_a.count = of_b.count = count;
  of_a.src = a.data();
  of_b.src = b.data();
  of_a.dst = sum_a.data();
  of_b.dst = sum_b.data();
  const Collective* const operations[] = {&of_a, &of_b};
  int beats = 0;
  DoPart(operations, 0, /*threads=*/1, [&] { ++beats; });
  EXPECT_EQ(beats, 2);  // its half are 20 MiB
  DoPart(operations, 1, /*threads=*/1, [&] { ++beats; });
  EXPECT_EQ(beats, 4);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(sum_a[i], a[i] + b[i]) << i;
    ASSERT_EQ(sum_b[i], a[i] + b[i]) << i;
  }
}

}  // namespace
}  // namespace colossus
