#include "shardformer/alibi.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

// Field case G7.
TEST(AlibiTest, G7Slopes) {
  EXPECT_THAT(AlibiSlopes(6), ElementsAre(0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f));
  EXPECT_THAT(AlibiSlopes(12),
              ElementsAre(0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f, 0.0078125f,
                          0.00390625f, 0.70710677f, 0.35355338f, 0.17677669f, 0.088388346f));
  EXPECT_THAT(AlibiSlopes(1), ElementsAre(0.00390625f));
  EXPECT_THAT(AlibiSlopes(2), ElementsAre(0.0625f, 0.00390625f));
}

}  // namespace
}  // namespace colossus
