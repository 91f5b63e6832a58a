#include "tensor/graph/mesh_slice.h"

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

const Mesh& TwoByThree() {
  static const Mesh* const mesh = new Mesh(*Mesh::Make({{"data", 2}, {"tensor", 3}}));
  return *mesh;
}

// Protects: several axes on one dim split major to minor, and replicated axes do not matter.
TEST(MeshSliceTest, PartsInOrder) {
  const Sharding both{{{"tensor", "data"}, {}}, {}};
  for (int rank = 0; rank < 6; ++rank) {
    const Slice slice = *SliceOf({12, 5}, both, TwoByThree(), rank);
    EXPECT_EQ(slice.origin, (Dims{2 * ((rank % 3) * 2 + rank / 3), 0})) << rank;
    EXPECT_EQ(slice.extent, (Dims{2, 5}));
    EXPECT_EQ(slice.global, (Dims{12, 5}));
  }
  const Sharding columns{{{}, {"data"}}, {"tensor"}};
  EXPECT_EQ(SliceOf({12, 4}, columns, TwoByThree(), 4)->origin, (Dims{0, 2}));
  EXPECT_EQ(*LocalType({DType::kF32, {12, 4}}, columns, TwoByThree()),
            (Type{DType::kF32, {12, 2}}));
  EXPECT_EQ(*LocalType({DType::kF32, {}}, Replicated(0), TwoByThree()), (Type{DType::kF32, {}}));
  EXPECT_EQ(*LocalType({DType::kF32, {0}}, {{{"data"}}, {}}, TwoByThree()),
            (Type{DType::kF32, {0}}));
}

TEST(MeshSliceTest, Refuses) {
  auto message = [](Dims dims, Sharding sharding) {
    return std::string(CheckSharding(dims, sharding, TwoByThree()).message());
  };
  EXPECT_THAT(message({4}, Replicated(2)), HasSubstr("2 dims for a value of [4]"));
  EXPECT_THAT(message({4}, {{{"expert"}}, {}}), HasSubstr("no axis 'expert'"));
  EXPECT_THAT(message({4, 4}, {{{"data"}, {"data"}}, {}}), HasSubstr("'data' is used twice"));
  EXPECT_THAT(message({4}, {{{"data"}}, {"data"}}), HasSubstr("'data' is used twice"));
  EXPECT_THAT(message({4}, {{{"data", "tensor"}}, {}}),
              HasSubstr("dim 0 of [4] cannot be split over data, tensor: 4 is not divisible by 6"));
}

}  // namespace
}  // namespace colossus
