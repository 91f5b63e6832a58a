#include "trainers/lib/plan.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/config.h"
#include "trainers/lib/largest.h"
#include "trainers/lib/log.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Planned> Plan(std::vector<std::string> flags) {
  flags.push_back("--threads=1");
  absl::StatusOr<Config> config = ReadConfig(Trainer::kPlan, flags, RealFileSystem());
  if (!config.ok()) return config.status();
  Log log(nullptr, false);
  JobContext context{*config, log};
  return PlanRun(RealFileSystem(), context);
}

nlohmann::json Json(std::vector<std::string> flags) {
  flags.push_back("--json");
  const absl::StatusOr<Planned> planned = Plan(flags);
  EXPECT_OK(planned);
  return planned.ok() ? nlohmann::json::parse(planned->text) : nlohmann::json::object();
}

// Bytes of a model that fits, so that tests can give less.
int64_t DevicePeak(const std::vector<std::string>& flags) {
  return Json(flags)["peak_bytes"]["device"].get<int64_t>();
}

TEST(Plan, AModelThatFitsStaysOnTheDevice) {
  const nlohmann::json plan = Json({"--preset=gpt2-tiny"});
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(plan["parameters"], 859008);
  EXPECT_EQ(plan["tokens"], 16 * 256);
  EXPECT_GT(plan["peak_bytes"]["device"], 16 * 859008 - 2);
  EXPECT_EQ(plan["peak_bytes"]["disk"], 0);
  EXPECT_EQ(plan["capacity_bytes"]["device"], nullptr);
  EXPECT_EQ(plan["largest"]["device"].size(), 5u);
  EXPECT_EQ(plan["traffic"]["host_to_device"]["parameters"], 0);
  EXPECT_GT(plan["step_seconds"], 0.0);
}

TEST(Plan, AModelThatDoesNotFitUsesTheHost) {
  const int64_t peak = DevicePeak({"--preset=gpt2-tiny"});
  const nlohmann::json plan =
      Json({"--preset=gpt2-tiny", absl::StrCat("--device_memory=", peak * 9 / 10)});
  EXPECT_EQ(plan["fits"], true);
  EXPECT_LE(plan["peak_bytes"]["device"], peak * 9 / 10);
  EXPECT_GT(plan["peak_bytes"]["host"], 0);
  EXPECT_GT(plan["traffic_lower_bound_bytes"], 0);
}

TEST(Plan, HostMemoryThatIsShortNeedsDisk) {
  const std::vector<std::string> flags = {"--preset=gpt2-tiny", "--placement=cpu",
                                          "--device_memory=1GB", "--host_memory=6MB"};
  const nlohmann::json without = Json(flags);
  EXPECT_EQ(without["fits"], false);
  EXPECT_THAT(without["reason"].get<std::string>(), HasSubstr("host"));
  EXPECT_THAT(without["would_fit_with"].dump(), HasSubstr("more --host_memory"));
  EXPECT_THAT(without["would_fit_with"].dump(), HasSubstr("more --disk"));
  std::vector<std::string> more = flags;
  more.push_back("--disk=1GB");
  const nlohmann::json with = Json(more);
  EXPECT_EQ(with["fits"], true);
  EXPECT_GT(with["peak_bytes"]["disk"], 0);
  EXPECT_LE(with["peak_bytes"]["host"], 6000000);
  EXPECT_GT(with["traffic"]["disk_written"]["states"], 0);
}

TEST(Plan, WhatIsFarTooSmallIsRefusedWithWhatWouldDo) {
  const absl::StatusOr<Planned> planned =
      Plan({"--preset=gpt2-tiny", "--device_memory=2MB", "--global_batch=4"});
  ASSERT_OK(planned);
  EXPECT_FALSE(planned->fits);
  EXPECT_THAT(planned->text, HasSubstr("fits: no"));
  EXPECT_THAT(planned->text, HasSubstr("would fit with: "));
  EXPECT_THAT(planned->text, HasSubstr("--device_memory="));
}

TEST(Plan, TheLargestModelFitsAndTheNextDoesNot) {
  const std::vector<std::string> memory = {"--device_memory=100MB", "--host_memory=200MB",
                                           "--micro_batch=1", "--sequence_length=64"};
  std::vector<std::string> flags = memory;
  flags.push_back("--largest");
  const nlohmann::json found = Json(flags);
  EXPECT_EQ(found["fits"], true);
  EXPECT_LE(found["peak_bytes"]["device"], 100000000);
  EXPECT_EQ(found["hidden"], 128 * found["heads"].get<int64_t>());
  EXPECT_GE(found["layers"], found["heads"]);
}

TEST(LargestFitting, IsTheLastThatFits) {
  for (int64_t last = 0; last <= 20; ++last) {
    const auto fits = [&](int64_t n) -> absl::StatusOr<bool> { return n <= last; };
    const absl::StatusOr<int64_t> found = LargestFitting(1, 15, fits);
    ASSERT_OK(found);
    EXPECT_EQ(*found, std::min<int64_t>(last, 15)) << last;
  }
}

TEST(Plan, FlagsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(Plan({}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no model")));
  EXPECT_THAT(Plan({"--largest"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device_memory")));
  EXPECT_THAT(Plan({"--largest", "--preset=gpt2-tiny", "--device_memory=1GB"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run.largest")));
}

}  // namespace
}  // namespace colossus
