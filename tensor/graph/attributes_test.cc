#include "tensor/graph/attributes.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(Attributes, PrintSortedAndExactly) {
  Attributes a{
      {"spec", "b s c, c d -> b s d"}, {"axis", int64_t{1}}, {"causal", true}, {"scale", 3.0}};
  EXPECT_EQ(a.ToString(), "{axis=1, causal=true, scale=0x1.8p+1, spec=\"b s c, c d -> b s d\"}");
  EXPECT_EQ(Attributes().ToString(), "{}");
  Attributes lists{{"f", Floats{1}}, {"i", Ints{1, 2}}, {"s", Strings{"a"}}, {"e", Ints{}}};
  EXPECT_EQ(lists.ToString(), "{e=[]i, f=[0x1p+0], i=[1, 2], s=[\"a\"]}");
}

TEST(Attributes, PrintSpecialFloats) {
  const double inf = std::numeric_limits<double>::infinity();
  Attributes a{{"a", inf}, {"b", -inf}, {"c", std::nan("")}, {"d", -0.0}};
  EXPECT_EQ(a.ToString(), "{a=inf, b=-inf, c=nan, d=-0x0p+0}");
}

TEST(Attributes, EqualityIsThatOfTheText) {
  EXPECT_TRUE(Attributes({{"x", std::nan("")}}) == Attributes({{"x", std::nan("")}}));
  EXPECT_FALSE(Attributes({{"x", 0.0}}) == Attributes({{"x", -0.0}}));
  EXPECT_FALSE(Attributes({{"x", 1}}) == Attributes({{"x", 1.0}}));
  EXPECT_FALSE(Attributes({{"x", Ints{}}}) == Attributes({{"x", Floats{}}}));
}

TEST(Attributes, TypedAccessAndDefaults) {
  Attributes a{{"n", 3}, {"x", 0.5}, {"on", true}, {"s", "text"}, {"roles", Strings{"weight"}}};
  EXPECT_EQ(a.Int("n"), 3);
  EXPECT_EQ(a.Float("x"), 0.5);
  EXPECT_TRUE(a.Bool("on"));
  EXPECT_EQ(a.String("s"), "text");
  EXPECT_EQ(a.StringList("roles"), Strings{"weight"});
  EXPECT_EQ(a.IntOr("m", 7), 7);
  EXPECT_EQ(a.FloatOr("y", 1.5), 1.5);
  EXPECT_FALSE(a.BoolOr("off", false));
  EXPECT_EQ(a.StringOr("t", "none"), "none");
  EXPECT_TRUE(a.StringListOr("with", {}).empty());
  EXPECT_TRUE(a.HasType<int64_t>("n"));
  EXPECT_FALSE(a.HasType<double>("n"));
  EXPECT_FALSE(a.HasType<double>("absent"));
}

TEST(Attributes, SetAndErase) {
  Attributes a;
  a.Set("n", 3);
  a.Set("n", 4);
  EXPECT_EQ(a.Int("n"), 4);
  a.Erase("n");
  EXPECT_FALSE(a.Has("n"));
}

TEST(AttributesDeathTest, TheWrongTypeIsABug) {
  Attributes a{{"n", 3}};
  EXPECT_DEATH(a.Float("n"), "n");
  EXPECT_DEATH(a.Int("absent"), "absent");
}

}  // namespace
}  // namespace colossus
