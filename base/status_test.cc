#include "base/status.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

absl::StatusOr<int> Half(int x) {
  if (x % 2 != 0) return absl::InvalidArgumentError("odd");
  return x / 2;
}

absl::Status Count(absl::Status status, int& calls) {
  ++calls;
  return status;
}

TEST(ReturnIfError, ReturnsTheErrorAndEvaluatesOnce) {
  int calls = 0;
  bool reached = false;
  auto run = [&](absl::Status status) -> absl::Status {
    RETURN_IF_ERROR(Count(std::move(status), calls));
    reached = true;
    return absl::OkStatus();
  };
  EXPECT_EQ(run(absl::NotFoundError("x")), absl::NotFoundError("x"));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(reached);
  EXPECT_TRUE(run(absl::OkStatus()).ok());
  EXPECT_TRUE(reached);
}

TEST(ReturnIfError, WorksInAFunctionReturningStatusOrAndInAnUnbracedIf) {
  auto run = [](bool first) -> absl::StatusOr<std::string> {
    if (first)
      RETURN_IF_ERROR(absl::NotFoundError("first"));
    else
      RETURN_IF_ERROR(absl::AbortedError("second"));
    return "unreached";
  };
  EXPECT_EQ(run(true).status(), absl::NotFoundError("first"));
  EXPECT_EQ(run(false).status(), absl::AbortedError("second"));
}

TEST(AssignOrReturn, DeclaresAssignsAndReturnsErrors) {
  auto quarter = [](int x) -> absl::StatusOr<int> {
    ASSIGN_OR_RETURN(int half, Half(x));
    ASSIGN_OR_RETURN(half, Half(half));
    return half;
  };
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).status(), absl::InvalidArgumentError("odd"));
  EXPECT_EQ(quarter(5).status(), absl::InvalidArgumentError("odd"));
}

TEST(AssignOrReturn, MovesOutOfTheResultAndTakesCommasInTheExpression) {
  auto make = [](auto a, auto b) -> absl::StatusOr<std::unique_ptr<int>> {
    return std::make_unique<int>(a + b);
  };
  auto run = [&]() -> absl::StatusOr<int> {
    ASSIGN_OR_RETURN(const std::unique_ptr<int> sum, make.operator()<int, int>(2, 3));
    return *sum;
  };
  EXPECT_EQ(*run(), 5);
}

TEST(Annotate, KeepsCodeAndPayloadsAndPutsThePrefixInFront) {
  absl::Status inner = absl::DataLossError("bad header");
  inner.SetPayload("type.colossus/rank", absl::Cord("3"));
  const absl::Status outer = Annotate(inner, "model.safetensors");
  EXPECT_EQ(outer.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(outer.message()), "model.safetensors: bad header");
  EXPECT_EQ(outer.GetPayload("type.colossus/rank"), absl::Cord("3"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

}  // namespace
}  // namespace colossus
