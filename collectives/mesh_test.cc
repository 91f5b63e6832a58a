#include "collectives/mesh.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

TEST(MeshTest, NumbersRanksRowMajor) {
  Mesh mesh = *Mesh::Make({{"data", 2}, {"sequence", 3}, {"tensor", 4}});
  EXPECT_EQ(mesh.ranks(), 24);
  EXPECT_EQ(mesh.Coordinate(17, "data"), 1);
  EXPECT_EQ(mesh.Coordinate(17, "sequence"), 1);
  EXPECT_EQ(mesh.Coordinate(17, "tensor"), 1);
  EXPECT_EQ(mesh.Coordinate(17, "expert"), 0);
  EXPECT_EQ(mesh.SizeOf("expert"), 1);
  const std::vector<std::string> both = {"data", "tensor"};
  EXPECT_EQ(mesh.SizeOf(both), 8);
}

TEST(MeshTest, GroupsFollowTheAxesInTheOrderGiven) {
  Mesh mesh = *Mesh::Make({{"data", 2}, {"tensor", 3}});
  EXPECT_THAT(mesh.Group(4, {"tensor"}), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.Group(4, {"data"}), ElementsAre(1, 4));
  EXPECT_THAT(mesh.Group(4, {"tensor", "data"}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(mesh.Group(4, {}), ElementsAre(4));
  for (int rank = 0; rank < 6; ++rank) {
    const std::vector<std::string> axes = {"tensor", "data"};
    EXPECT_EQ(mesh.Group(rank, axes)[mesh.IndexIn(rank, axes)], rank);
  }
}

TEST(MeshTest, RefusesWhatIsNoMesh) {
  EXPECT_FALSE(Mesh::Make({{"data", 0}}).ok());
  EXPECT_FALSE(Mesh::Make({{"", 2}}).ok());
  EXPECT_FALSE(Mesh::Make({{"data", 2}, {"data", 2}}).ok());
  EXPECT_FALSE(Mesh::Make({{"data", 1 << 15}, {"tensor", 1 << 15}}).ok());
  EXPECT_EQ(Mesh().ranks(), 1);
}

}  // namespace
}  // namespace colossus
