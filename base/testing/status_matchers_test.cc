#include "base/testing/status_matchers.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AnyOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusMatchers, MatchStatusAndStatusOr) {
  EXPECT_OK(absl::OkStatus());
  EXPECT_OK(absl::StatusOr<int>(3));
  const absl::StatusOr<int> missing = absl::NotFoundError("file a");
  EXPECT_THAT(missing, Not(IsOk()));
  EXPECT_THAT(missing, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(missing.status(), StatusIs(absl::StatusCode::kNotFound, "file a"));
  EXPECT_THAT(missing, StatusIs(AnyOf(absl::StatusCode::kNotFound, absl::StatusCode::kAborted),
                                HasSubstr("file")));
  EXPECT_THAT(missing, Not(StatusIs(absl::StatusCode::kAborted, "file a")));
  EXPECT_THAT(missing, Not(StatusIs(absl::StatusCode::kNotFound, "file b")));
  EXPECT_THAT(missing, Not(IsOkAndHolds(3)));
  EXPECT_THAT(absl::StatusOr<int>(3), IsOkAndHolds(Gt(2)));
  EXPECT_THAT(absl::StatusOr<std::string>("x"), IsOkAndHolds("x"));
}

TEST(StatusMatchers, AssignMovesTheValue) {
  ASSERT_OK_AND_ASSIGN(const auto value,
                       absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(4)));
  EXPECT_EQ(*value, 4);
}

TEST(StatusMatchers, FailuresShowTheStatus) {
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(absl::NotFoundError("file a")), "NOT_FOUND: file a");
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(absl::StatusOr<int>(absl::AbortedError("b"))), "ABORTED: b");
  EXPECT_FATAL_FAILURE(
      {
        ASSERT_OK_AND_ASSIGN(int value, absl::StatusOr<int>(absl::AbortedError("c")));
        static_cast<void>(value);
      },
      "ABORTED: c");
}

}  // namespace
}  // namespace colossus
