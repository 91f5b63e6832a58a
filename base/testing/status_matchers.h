// GoogleTest matchers and assertions for absl::Status and absl::StatusOr.
//
//   EXPECT_OK(Verify(graph)) << "after fusion";
//   ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(text));
//   EXPECT_THAT(ParseGraph("x"), StatusIs(absl::StatusCode::kInvalidArgument,
//                                         HasSubstr("line 1")));
//   EXPECT_THAT(ParseDType("f32"), IsOkAndHolds(DType::kF32));
#ifndef COLOSSUS_BASE_TESTING_STATUS_MATCHERS_H_
#define COLOSSUS_BASE_TESTING_STATUS_MATCHERS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace internal {
inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}
}  // namespace internal

// Matches an ok Status or StatusOr.
MATCHER(IsOk, negation ? "is an error" : "is ok") {
  const absl::Status& status = internal::StatusOf(arg);
  *result_listener << "whose status is " << status.ToString();
  return status.ok();
}

// Matches a Status or StatusOr by code (a value or a matcher) and message (likewise).
MATCHER_P2(StatusIs, code, message,
           std::string(negation ? "does not have" : "has") + " the expected code and message") {
  const absl::Status& status = internal::StatusOf(arg);
  *result_listener << "whose status is " << status.ToString() << ", ";
  return ::testing::ExplainMatchResult(code, status.code(), result_listener) &&
         ::testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

// The same for any message.
template <class Code>
auto StatusIs(Code code) {
  return StatusIs(std::move(code), ::testing::_);
}

// Matches an ok StatusOr whose value matches `value` (a value or a matcher).
MATCHER_P(IsOkAndHolds, value,
          std::string(negation ? "is an error or does not hold" : "is ok and holds") +
              " the expected value") {
  if (!arg.ok()) {
    *result_listener << "whose status is " << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(value, *arg, result_listener);
}

}  // namespace colossus

#define EXPECT_OK(expr) EXPECT_THAT(expr, ::colossus::IsOk())
#define ASSERT_OK(expr) ASSERT_THAT(expr, ::colossus::IsOk())

// Moves the value of the StatusOr after the first comma into `lhs`, or fails and leaves the test.
#define ASSERT_OK_AND_ASSIGN(lhs, ...)                                                  \
  COLOSSUS_ASSERT_OK_AND_ASSIGN_(COLOSSUS_TEST_CONCAT_(statusor_for_test_, __LINE__), lhs, \
                                 (__VA_ARGS__))
#define COLOSSUS_ASSERT_OK_AND_ASSIGN_(statusor, lhs, expr) \
  auto statusor = expr;                                     \
  ASSERT_OK(statusor.status());                             \
  lhs = *std::move(statusor)
#define COLOSSUS_TEST_CONCAT_(a, b) COLOSSUS_TEST_CONCAT_INNER_(a, b)
#define COLOSSUS_TEST_CONCAT_INNER_(a, b) a##b

#endif  // COLOSSUS_BASE_TESTING_STATUS_MATCHERS_H_
