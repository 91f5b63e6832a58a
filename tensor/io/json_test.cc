#include "tensor/io/json.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TEST(Json, ReadsEveryKindOfValue) {
  ASSERT_OK_AND_ASSIGN(nlohmann::json value,
                       ParseJson(R"({"a": [1, -2, 3.5, true, null, "x\u00e9"], "b": {}})", "f"));
  EXPECT_EQ(value.dump(), R"({"a":[1,-2,3.5,true,null,"x)"
                          "\xc3\xa9"
                          R"("],"b":{}})");
  ASSERT_OK_AND_ASSIGN(nlohmann::json number, ParseJson("  7\n", "f"));
  EXPECT_EQ(number, 7);
}

TEST(Json, RefusesWithFileAndLine) {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"", "f.json:1: syntax error"},
      {"{\"a\": 1,\n \"b\": 2,\n \"a\": 3}", "f.json:3: the name a is given twice in one object"},
      {"{\"x\": {\"list\": [{},\n {\"k\": 1, \"k\": 1}]}}",
       "f.json:2: the name x.list.1.k is given twice in one object"},
      {"{\"\\u0061\": 1, \"a\": 2}", "the name a is given twice"},
      {"{\"a\": 1} x", "f.json:1: syntax error"},
      {"{\"a\": 1,}", "f.json:1: syntax error"},
      {"\n\n[1, 2", "f.json:3: syntax error"},
      {"[1e999]", "f.json:1: number overflow"},
      {"[NaN]", "f.json:1: syntax error"},
      {"\"\xff\"", "f.json:1: syntax error"},
      {std::string("{}\0", 3), "f.json:1: a NUL byte"},
      {std::string(100000, '['), "f.json:1: more than 64 objects and arrays inside each other"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 60));
    EXPECT_THAT(ParseJson(c.text, "f.json"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(Json, TheSameNameInDifferentObjectsIsFine) {
  EXPECT_OK(ParseJson(R"([{"a": {"a": 1}}, {"a": 2}])", "f"));
}

TEST(Json, DepthIsCountedInclusively) {
  EXPECT_OK(ParseJson("[[1]]", "f", 2));
  EXPECT_FALSE(ParseJson("[[[1]]]", "f", 2).ok());
}

}  // namespace
}  // namespace colossus
