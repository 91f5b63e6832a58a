#include "tensor/testing/run_on_ranks.h"

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

const Mesh& TwoByThree() {
  static const Mesh* const mesh = new Mesh(*Mesh::Make({{"data", 2}, {"tensor", 3}}));
  return *mesh;
}

// Protects: what is taken apart is the whole again, split, replicated or as a sum.
TEST(RunOnRanksTest, ApartAndTogether) {
  std::mt19937_64 random(TestSeed());
  HostTensor x(Type{DType::kF32, {6, 4}});
  for (int64_t i = 0; i < 24; ++i) x.Set(i, static_cast<double>(i));
  const Sharding shardings[] = {{{{}, {}}, {}},
                                {{{"tensor"}, {"data"}}, {}},
                                {{{"tensor", "data"}, {}}, {}},
                                {{{"tensor"}, {}}, {"data"}},
                                {{{}, {}}, {"data", "tensor"}}};
  for (const Sharding& sharding : shardings) {
    const std::vector<HostTensor> parts = TakeApart(x, sharding, TwoByThree(), random, true);
    absl::StatusOr<HostTensor> again = PutTogether(x.type(), sharding, TwoByThree(), parts);
    ASSERT_OK(again.status());
    EXPECT_EQ(again->Converted(DType::kF32), x);
  }
}

// Protects: the judge: a replica that differs and a part of another type are found.
TEST(RunOnRanksTest, DifferencesAreFound) {
  std::mt19937_64 random(TestSeed());
  const HostTensor x = RandomTensor(DType::kF32, {6, 4}, random);
  const Sharding rows{{{"tensor"}, {}}, {}};
  std::vector<HostTensor> parts = TakeApart(x, rows, TwoByThree(), random, false);
  parts[4].Set(1, 100);
  EXPECT_THAT(PutTogether(x.type(), rows, TwoByThree(), parts).status().message(),
              HasSubstr("ranks 1 and 4 differ"));
  parts[4] = HostTensor(Type{DType::kF32, {3, 4}});
  EXPECT_THAT(PutTogether(x.type(), rows, TwoByThree(), parts).status().message(),
              HasSubstr("rank 4 has f32[3,4], not f32[2,4]"));
}

}  // namespace
}  // namespace colossus
