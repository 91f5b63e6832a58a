#include "base/check.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

enum class Color : uint8_t { kRed = 3 };
struct Opaque {
  bool operator==(const Opaque&) const { return false; }
};

constexpr int Checked(int x) {
  CHECK(x > 0) << "x is " << x;
  return x;
}
static_assert(Checked(2) == 2, "CHECK is usable in constant expressions");

TEST(Check, HoldingConditionsDoNothingAndEvaluateOnce) {
  int calls = 0;
  CHECK(++calls == 1) << "never printed " << ++calls;
  CHECK_EQ(++calls, 2) << ++calls;
  CHECK_OK(absl::OkStatus()) << ++calls;
  CHECK_OK(absl::StatusOr<int>(4)) << ++calls;
  EXPECT_EQ(calls, 2);
}

TEST(Check, ComparesIntegersOfMixedSignednessByValue) {
  const std::vector<int> three(3);
  CHECK_EQ(three.size(), 3);
  CHECK_LT(-1, three.size());
  CHECK_GT(uint8_t{200}, int8_t{-56});
  CHECK_NE(-1, ~uint32_t{0});
  CHECK_LE(1.5, 2);
  CHECK_GE("b" + std::string(), "a");
}

TEST(Check, ComparesPointersWithNull) {
  const auto value = std::make_unique<int>(1);
  CHECK_NE(value, nullptr);
  CHECK(value);
}

TEST(Check, IsAStatementThatTakesNoElse) {
  bool reached = false;
  if (reached)
    CHECK_EQ(1, 1);
  else
    reached = true;
  EXPECT_TRUE(reached);
}

TEST(CheckDeathTest, PrintsPlaceConditionValuesAndMessage) {
  const int x = 4;
  EXPECT_DEATH(CHECK(x == 5) << "for rank " << 7,
               "base/check_test.cc:[0-9]+: CHECK failed: x == 5 for rank 7");
  EXPECT_DEATH(CHECK_EQ(x, 5) << "sizes", "CHECK failed: x == 5 \\(4 vs 5\\) sizes");
  EXPECT_DEATH(CHECK_GE(x, uint64_t{5}), "\\(4 vs 5\\)");
  EXPECT_DEATH(CHECK_LT(-1, -2), "-1 < -2 \\(-1 vs -2\\)");
  EXPECT_DEATH(CHECK_EQ(Opaque{}, Opaque{}), "a value without operator<<");
  EXPECT_DEATH(CHECK_NE(Color::kRed, Color::kRed), "\\(3 vs 3\\)");
  EXPECT_DEATH(CHECK_NE(&x, &x), "0x");
  EXPECT_DEATH(CHECK_EQ(uint8_t{7}, true), "\\(7 vs true\\)");
}

TEST(CheckDeathTest, CheckOkPrintsTheStatus) {
  EXPECT_DEATH(CHECK_OK(absl::NotFoundError("no such op")) << "here",
               "is NOT_FOUND: no such op here");
  EXPECT_DEATH(CHECK_OK(absl::StatusOr<int>(absl::AbortedError("gone"))), "ABORTED: gone");
}

TEST(CheckDeathTest, DchecksFollowTheBuildMode) {
  int calls = 0;
  DCHECK(++calls > 0);
  DCHECK_EQ(++calls, calls);
#ifdef NDEBUG
  EXPECT_EQ(calls, 0);
  DCHECK(false);
  DCHECK_EQ(1, 2);
  DCHECK_OK(absl::AbortedError(""));
#else
  EXPECT_EQ(calls, 2);
  EXPECT_DEATH(DCHECK(false) << "off", "CHECK failed: false off");
  EXPECT_DEATH(DCHECK_EQ(1, 2), "1 vs 2");
  EXPECT_DEATH(DCHECK_OK(absl::AbortedError("")), "ABORTED");
#endif
}

}  // namespace
}  // namespace colossus
