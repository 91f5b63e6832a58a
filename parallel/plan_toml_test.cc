#include "parallel/plan_toml.h"

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

int Draw(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

Plan RandomPlan(std::mt19937& random) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF64};
  Plan plan;
  plan.micro_batch = Draw(random, 1, 64);
  plan.micro_batches = Draw(random, 1, 64);
  plan.sequence_length = Draw(random, 1, 4096);
  plan.precision = {kTypes[Draw(random, 0, 3)], kTypes[Draw(random, 0, 3)]};
  plan.recomputation = static_cast<Recomputation>(Draw(random, 0, 5));
  plan.recompute_budget_bytes = Draw(random, 0, 1 << 30);
  plan.packed = Draw(random, 0, 1) == 1;
  plan.dropout = Draw(random, 0, 1) == 1;
  plan.zero = Draw(random, 0, 3);
  plan.chunk_elements = Draw(random, 1, 1 << 30);
  plan.sequence = static_cast<SequenceParallelism>(Draw(random, 0, 1));
  plan.tensor_layout = static_cast<TensorLayout>(Draw(random, 0, 1));
  plan.norms = static_cast<NormLayout>(Draw(random, 0, 2));
  plan.schedule = Draw(random, 0, 1) == 1 ? "zb-v" : "searched";
  plan.chunks = Draw(random, 0, 4);
  for (int b = Draw(random, 0, 2); b > 0; --b) plan.borders.push_back(absl::StrCat("h.", b));
  plan.accumulation_order = static_cast<AccumulationOrder>(Draw(random, 0, 2));
  plan.update = static_cast<UpdateTime>(Draw(random, 0, 1));
  const int placement = Draw(random, -1, 2);
  if (placement >= 0) plan.placement = static_cast<PlacementPolicy>(placement);
  plan.stages.clear();
  for (int s = Draw(random, 1, 3); s > 0; --s) {
    StagePlan stage;
    stage.ranks.clear();
    for (int r = Draw(random, 1, 6); r > 0; --r) stage.ranks.push_back(Draw(random, 0, 9));
    if (Draw(random, 0, 1) == 1) stage.mesh.push_back({"data", Draw(random, 1, 4)});
    if (Draw(random, 0, 1) == 1) stage.mesh.push_back({"tensor", Draw(random, 1, 4)});
    plan.stages.push_back(stage);
  }
  for (int o = Draw(random, 0, 2); o > 0; --o) {
    plan.overrides.push_back({o == 1 ? "*.\"odd\\ \xC3\xA9" : "h.?.w", {{}, {"tensor", "data"}}});
  }
  return plan;
}

TEST(PlanTomlTest, PrintsAndParsesExactly) {
  std::mt19937 random(1);
  for (int seed = 0; seed < 300; ++seed) {
    const Plan plan = RandomPlan(random);
    const std::string text = PlanToml(plan);
    SCOPED_TRACE(text);
    ASSERT_OK_AND_ASSIGN(const Plan parsed, ParsePlan(text, "plan"));
    EXPECT_EQ(PlanToml(parsed), text);
    EXPECT_EQ(parsed.overrides, plan.overrides);
    EXPECT_EQ(parsed.rows(), plan.rows());
    ASSERT_EQ(parsed.stages.size(), plan.stages.size());
    if (plan.stages.size() > 1) {
      EXPECT_EQ(parsed.schedule, plan.schedule);
      EXPECT_EQ(parsed.chunks, plan.chunks);
      EXPECT_EQ(parsed.borders, plan.borders);
    }
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      EXPECT_EQ(parsed.stages[s].ranks, plan.stages[s].ranks);
      EXPECT_EQ(parsed.stages[s].mesh, plan.stages[s].mesh);
    }
  }
}

TEST(PlanTomlTest, WhatIsAbsentHasItsDefault) {
  std::map<std::string, int> lines;
  ASSERT_OK_AND_ASSIGN(const Plan plan, ParsePlan("[plan]\nzero = 2\n\n[[stage]]\nranks = \"0-3\"\n"
                                                  "mesh = \"data=2,tensor=2\"\n",
                                                  "plan", &lines));
  EXPECT_EQ(plan.zero, 2);
  EXPECT_EQ(plan.ranks(), 4);
  EXPECT_EQ(plan.AxisSize("tensor"), 2);
  EXPECT_EQ(plan.micro_batch, Plan().micro_batch);
  EXPECT_THAT(lines, UnorderedElementsAre(Pair("zero", 2), Pair("stage", 4), Pair("ranks", 5),
                                          Pair("mesh", 6)));
  ASSERT_OK_AND_ASSIGN(const Plan empty, ParsePlan("", "plan"));
  EXPECT_EQ(PlanToml(empty), PlanToml(Plan()));
}

TEST(PlanTomlTest, Refusals) {
  const std::pair<const char*, const char*> kTable[] = {
      {"[plan]\nzeor = 1\n", "p.toml:2: unknown key 'zeor' (did you mean zero?)"},
      {"[plan]\nzero = 4\n", "p.toml:2: zero must be an integer between 0 and 3"},
      {"[plan]\nzero = \"3\"\n", "zero must be an integer"},
      {"[plan]\nmicro_batch = 1.5\n", "micro_batch must be an integer"},
      {"[plan]\npacked = 1\n", "packed must be true or false"},
      {"[plan]\ncompute = \"f32\"\n", "compute must be one of fp32"},
      {"[plan]\nsequence = \"rings\"\n", "sequence must be one of ring, all_to_all"},
      {"[plans]\n", "p.toml:1: 'plans' is no part of a plan (did you mean plan?)"},
      {"[stage]\nranks = \"0\"\n", "'stage' is no part of a plan; its parts are"},
      {"[[stage]]\nranks = \"3-1\"\n", "ranks \"3-1\" are no numbers"},
      {"[[stage]]\nranks = \"0-99999999\"\n", "are no numbers"},
      {"[[stage]]\nranks = \"\"\n", "are no numbers"},
      {"[[stage]]\nmesh = \"data\"\n", "p.toml:2: mesh: 'data' is no axis"},
      {"[[override]]\ndims = [\"tensor\"]\n", "dims must be a list with a list of axes"},
      {"[plan]\nzero = 1\nzero = 2\n", "p.toml:3: "},
      {"[plan\n", "p.toml:1: "},
  };
  for (const auto& [text, why] : kTable) {
    EXPECT_THAT(ParsePlan(text, "p.toml"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                    AllOf(HasSubstr("p.toml:"), HasSubstr(why))))
        << text;
  }
  EXPECT_THAT(ParsePlan(std::string(200 << 10, ' '), "p.toml"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 131072")));
}

}  // namespace
}  // namespace colossus
