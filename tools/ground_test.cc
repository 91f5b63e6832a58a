// Proves that compiler, build flags and the libraries of third_party/ work together.

#include <gtest/gtest.h>
#include <pcre2.h>
#include <toml++/toml.h>
#include <utf8proc.h>
#include <xxhash.h>

#include <dnnl.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace colossus {
namespace {

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError(absl::StrCat(value, " is odd"));
  return value / 2;
}

TEST(Ground, AbseilLinks) {
  absl::flat_hash_map<std::string, int> map = {{"a", 1}};
  EXPECT_EQ(map.at("a"), 1);
  EXPECT_EQ(*Half(4), 2);
  EXPECT_EQ(Half(3).status().message(), "3 is odd");
  EXPECT_EQ(absl::StrFormat("%.2f", 0.5), "0.50");
}

TEST(Ground, JsonAndTomlParse) {
  EXPECT_EQ(nlohmann::json::parse(R"({"a": [1, 2]})")["a"][1], 2);
  EXPECT_EQ(toml::parse("a = 3")["a"].value<int>(), 3);
}

TEST(Ground, TextLibrariesLink) {
  EXPECT_EQ(utf8proc_tolower('A'), 'a');
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>("\\p{L}+"), PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  ASSERT_NE(code, nullptr);
  pcre2_code_free(code);
  EXPECT_NE(XXH3_64bits("a", 1), XXH3_64bits("b", 1));
}

TEST(Ground, OneDnnFindsTheCpu) { EXPECT_GE(dnnl::engine::get_count(dnnl::engine::kind::cpu), 1u); }

// a * b is 1 + 2^-11 + 2^-24, which float rounds to 1 + 2^-11; a fused product would keep the rest.
TEST(Ground, ProductsAreRoundedBeforeTheSum) {
  volatile float a = 1.0f + 0x1p-12f;
  const float x = a;
  const float y = a;
  const float z = -(1.0f + 0x1p-11f);
  EXPECT_EQ(x * y + z, 0.0f);
}

}  // namespace
}  // namespace colossus
