#include "base/nearest_name.h"

#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(NearestName, Table) {
  const std::vector<std::string> names = {"gpt2", "llama", "mistral", "learning_rate", "weight"};
  struct Case {
    const char* wanted;
    const char* nearest;
  };
  for (const Case& c : {Case{"mixtral", "mistral"},
                        {"learing_rate", "learning_rate"},
                        {"elarning_rate", "learning_rate"},
                        {"gpt3", "gpt2"},
                        {"lama", "llama"},
                        {"bert", ""},
                        {"", ""},
                        {"zzzzzzzzzzzz", ""},
                        {"gpt2", "gpt2"}}) {
    EXPECT_EQ(NearestName(c.wanted, names), c.nearest) << c.wanted;
  }
  EXPECT_EQ(NearestName("x", {}), "");
  EXPECT_EQ(NearestName(std::string(100000, 'a'), names), "");
}

TEST(NearestName, Hint) {
  EXPECT_EQ(NearestNameHint("gpt", {"gpt2"}), " (did you mean gpt2?)");
  EXPECT_EQ(NearestNameHint("gpt", {"bloom"}), "");
}

}  // namespace
}  // namespace colossus
