#include "trainers/lib/report/profile_report.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/step.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// One product of 2·2·3·4 = 48 flops and 24 + 48 + 32 bytes in a block, one addition outside.
std::unique_ptr<Program> Ready(Device& device) {
  absl::StatusOr<Graph> graph = ParseGraph(
      "graph g { state %w: f32[3,4] {role=parameter, global=[3,4], disk=[], axes=[\"\",\"\"]} "
      "feed %x: f32[2,3] "
      "%y: f32[2,4] = matmul(%x, %w) {spec=\"m k, k n -> m n\"} @h.0 "
      "%z: f32[2,4] = add(%y, %y) "
      "output z = %z }");
  EXPECT_OK(graph.status());
  StepSegment segment;
  segment.segment = {"forward", std::make_shared<const Graph>(*std::move(graph))};
  segment.fetched = {"z"};
  StepBuilder builder({"run"});
  builder.AddCall(builder.AddSegment(std::move(segment)), 0, 0);
  absl::StatusOr<Step> step = std::move(builder).Build();
  EXPECT_OK(step.status());
  ProgramOptions options;
  // A product takes 1 + 48/16 = 4 s, the addition 1 + 96/96 = 2 s.
  options.rates = {.flops_f32 = 16, .flops_16 = 16, .bytes_per_second = 96, .launch_seconds = 1};
  absl::StatusOr<std::unique_ptr<Program>> program =
      Program::Compile(*std::move(step), device, options);
  EXPECT_OK(program.status());
  EXPECT_OK((*program)->Allocate());
  return *std::move(program);
}

// A feed of 24 bytes and a fetch of 32 take 3 s and 4 s.
std::unique_ptr<Device> Null() {
  NullDeviceOptions options;
  options.kernels = ReferenceKernels();
  options.copy_bytes_per_second = 8;
  return NewNullDevice(options);
}

// What an update is, with `more` seconds of the host beside it.
double RunUpdate(Program& program, UpdateProfiler& profiler, double data, double more) {
  const double start = program.device().clock().Seconds();
  EXPECT_OK(program.RunPhase(0, nullptr, profiler.Next()).status());
  const double seconds = program.device().clock().Seconds() - start + data + more;
  profiler.Done({seconds, data});
  return seconds;
}

ProfileFigures FiguresOf(const UpdateProfiler& profiler) {
  ProfileFigures figures;
  figures.warm_up = profiler.warm_up();
  figures.updates = profiler.updates();
  figures.sums = profiler.sums();
  figures.tokens_per_update = 26;
  figures.flops_per_token = 4;
  figures.peak_flops_per_second = 24;
  figures.threads = 2;
  return figures;
}

// Protects: in virtual time an update is the sum of its instructions, to the last digit; what the
// host adds is told apart.
TEST(ProfileReportTest, AccountsForEverySecond) {
  const std::unique_ptr<Device> device = Null();
  const std::unique_ptr<Program> program = Ready(*device);
  UpdateProfiler bare(*program, 4);
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(RunUpdate(*program, bare, 0, 0), 13);
  EXPECT_EQ(bare.warm_up(), 2);
  EXPECT_EQ(bare.updates(), 2);
  EXPECT_DOUBLE_EQ(AccountedShare(bare.profile(), FiguresOf(bare)), 1);

  UpdateProfiler hosted(*program, 1);  // a single update is its own warm-up
  RunUpdate(*program, hosted, 3, 10);
  EXPECT_EQ(hosted.warm_up(), 0);
  EXPECT_DOUBLE_EQ(AccountedShare(hosted.profile(), FiguresOf(hosted)), 0.5);
}

TEST(ProfileReportTest, ProfilesAtMostTen) {
  const std::unique_ptr<Device> device = Null();
  const std::unique_ptr<Program> program = Ready(*device);
  UpdateProfiler profiler(*program, 20);
  for (int i = 0; i < 20; ++i) RunUpdate(*program, profiler, 0, 0);
  EXPECT_EQ(profiler.updates(), 10);
  EXPECT_EQ(profiler.profile().by_op().at("matmul").count, 10);
  EXPECT_DOUBLE_EQ(profiler.sums().seconds, 130);
}

TEST(ProfileReportTest, Tables) {
  const std::unique_ptr<Device> device = Null();
  const std::unique_ptr<Program> program = Ready(*device);
  UpdateProfiler profiler(*program, 3);
  for (int i = 0; i < 3; ++i) RunUpdate(*program, profiler, 3, 10);
  const std::string text =
      absl::StrJoin(ProfileLines(profiler.profile(), FiguresOf(profiler)), "\n");
  EXPECT_THAT(
      text,
      AllOf(
          HasSubstr("profile: mean of 1 updates after 2 of warm-up; 2 threads"),
          // 48 flops in 4 s are 12 a second, half of the peak.
          HasSubstr("  4000.000  15.4%        1       0.0   50.0%       0.0  matmul\n"),
          HasSubstr("  h.0\n"),
          HasSubstr("  matmul (m k, k n -> m n) f32[2,3] f32[3,4]\n"),
          HasSubstr("accounted: 50.0 % of the 26000.000 ms of an update; the rest: 3000.000 ms "
                    "making rows and feeds, 10000.000 ms between instructions and phases"),
          // 26 tokens in 26 s, 4 flops each, of 24 a second.
          HasSubstr("utilisation: 16.7 % of the matmul peak: 1.0 tokens/s x 4 flop a token")));
}

TEST(ProfileReportTest, Json) {
  const std::unique_ptr<Device> device = Null();
  const std::unique_ptr<Program> program = Ready(*device);
  UpdateProfiler profiler(*program, 4);
  for (int i = 0; i < 4; ++i) RunUpdate(*program, profiler, 3, 10);
  const nlohmann::json json =
      nlohmann::json::parse(ProfileJson(profiler.profile(), FiguresOf(profiler)));
  EXPECT_EQ(json.at("updates"), 2);
  EXPECT_DOUBLE_EQ(json.at("step_seconds").get<double>(), 26);
  EXPECT_DOUBLE_EQ(json.at("accounted").get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(json.at("data_seconds").get<double>(), 3);
  EXPECT_DOUBLE_EQ(json.at("other_seconds").get<double>(), 10);
  double seconds = 0;
  for (const nlohmann::json& row : json.at("by_op")) seconds += row.at("seconds").get<double>();
  EXPECT_DOUBLE_EQ(seconds, 13);
  const nlohmann::json& longest = json.at("by_call").at(0);
  EXPECT_DOUBLE_EQ(longest.at("seconds").get<double>(), 4);
  EXPECT_EQ(json.at("by_block").size(), 2);  // h.0 and the segment's own name
}

}  // namespace
}  // namespace colossus
