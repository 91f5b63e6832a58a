#include "parallel/mesh_text.h"

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TEST(MeshTextTest, ParsesAndPrints) {
  for (const char* text : {"", "data=1", "data=2,tensor=4", "tensor=4,data=2", "sequence=3"}) {
    ASSERT_OK_AND_ASSIGN(const std::vector<MeshAxis> axes, ParseMeshAxes(text));
    EXPECT_EQ(MeshText(axes), text);
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<MeshAxis> axes, ParseMeshAxes("data=2,tensor=4"));
  EXPECT_EQ(RanksOf(axes), 8);
  EXPECT_EQ(SizeOfAxis(axes, "tensor"), 4);
  EXPECT_EQ(SizeOfAxis(axes, "sequence"), 1);
}

TEST(MeshTextTest, Refusals) {
  const std::pair<const char*, const char*> kTable[] = {
      {"data", "'data' is no axis with its size; write them as data=2,tensor=2"},
      {"data=", "is no axis with its size"},
      {"data=two", "is no axis with its size"},
      {"data=2,", "'' is no axis"},
      {"data=2=3", "is no axis with its size"},
      {"tensr=2", "no axis 'tensr' (did you mean tensor?); axes are data, sequence, stage, tensor"},
      {"data=0", "data"},
      {"data=-2", "data"},
      {"data=2,data=2", "data"},
      {"data=2000000", "2000000"},
  };
  for (const auto& [text, why] : kTable) {
    EXPECT_THAT(ParseMeshAxes(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << text;
  }
}

TEST(MeshTextTest, StagesOfDifferentMeshes) {
  const char* text = "stage:data=2,tensor=2/stage:/stage:sequence=3";
  EXPECT_TRUE(IsStageMeshes(text));
  EXPECT_FALSE(IsStageMeshes("stage=2,data=2"));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::vector<MeshAxis>> stages, ParseStageMeshes(text));
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[0], (std::vector<MeshAxis>{{"data", 2}, {"tensor", 2}}));
  EXPECT_TRUE(stages[1].empty());
  EXPECT_EQ(StageMeshesText(stages), text);
  for (const char* bad : {"stage:data=2/tensor=2", "stage:data=0", "stage:stage=2", "stage:x=1"}) {
    EXPECT_FALSE(ParseStageMeshes(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace colossus
