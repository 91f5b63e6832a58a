#include "parallel/sharding/override.h"

#include <string>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TEST(OverrideTest, TextsParseAndPrint) {
  const std::vector<ShardingOverride> overrides = {
      {"*.c_fc.weight", {{"data"}, {"tensor"}}},
      {"wte.?", {{}, {"tensor.row", "tensor.column"}}},
      {"*.bias", {}},
  };
  const std::string text = "*.c_fc.weight=data/tensor;wte.?=/tensor.row+tensor.column;*.bias=";
  EXPECT_EQ(OverridesText(overrides), text);
  EXPECT_THAT(ParseOverrides(text), IsOkAndHolds(overrides));
  EXPECT_THAT(ParseOverrides(
                  " *.c_fc.weight = data / tensor; wte.?=/ tensor.row + tensor.column ; *.bias= ;"),
              IsOkAndHolds(overrides));
  EXPECT_THAT(ParseOverrides(""), IsOkAndHolds(std::vector<ShardingOverride>{}));
}

TEST(OverrideTest, Refusals) {
  for (const char* text : {"tensor", "=tensor", "a=tensor;b"}) {
    EXPECT_THAT(ParseOverrides(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("is no override as *.c_fc.weight=")))
        << text;
  }
}

}  // namespace
}  // namespace colossus
