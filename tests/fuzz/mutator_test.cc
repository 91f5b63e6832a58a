#include "tests/fuzz/mutator.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(Mutator, InputsAreAFunctionOfSeedAndIndex) {
  const Mutator a({"{\"x\": 1}", "abc"}, {"word"}), b({"{\"x\": 1}", "abc"}, {"word"});
  std::set<std::string> inputs;
  for (uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(a.Make(7, i), b.Make(7, i));
    inputs.insert(a.Make(7, i));
  }
  EXPECT_GT(inputs.size(), 100u);
  EXPECT_NE(a.Make(7, 0) + a.Make(7, 1) + a.Make(7, 2), a.Make(8, 0) + a.Make(8, 1) + a.Make(8, 2));
}

TEST(Mutator, InputsStaySmallAndEmptySeedsAreFine) {
  const Mutator mutator({"", std::string(Mutator::kMaxBytes, 'a')}, {});
  for (uint64_t i = 0; i < 500; ++i) EXPECT_LE(mutator.Make(1, i).size(), Mutator::kMaxBytes);
}

TEST(Mutator, TokensAreNumbersWordsStringsAndSigns) {
  const std::string text = "{\"a\\\"b\": -1.5e3, steps";
  std::vector<std::string> tokens;
  for (const auto& [begin, end] : TokensOf(text)) tokens.push_back(text.substr(begin, end - begin));
  EXPECT_THAT(tokens, testing::ElementsAre("{", "\"a\\\"b\"", ":", "-1.5e3", ",", "steps"));
}

}  // namespace
}  // namespace colossus
