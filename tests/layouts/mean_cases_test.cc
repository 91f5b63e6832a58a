// Field cases A1 and A2 on ranks, with the cases' own numbers: one mean over the counting tokens of
// an update, whatever micro-batches and ranks they come from.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/config.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kSkip = -100;
constexpr char kHead[] = "lm_head.weight", kHeadGradient[] = "gradient/lm_head.weight";

// Parameters with which every position has the same logits: what comes before the last norm is
// multiplied by zero, its bias is `scale` in the first entry, and the head turns that into
// `logits`.
std::function<HostTensor(const StateInfo&)> SameLogits(std::vector<double> logits, double scale) {
  return [=](const StateInfo& info) {
    HostTensor values = RandomValues(info);
    const bool norm = absl::StrContains(info.name, "ln_f"), head = info.name == kHead;
    if (!norm && !head) return values;
    for (float& x : values.data<float>()) x = 0;
    if (info.name == "transformer.ln_f.bias") values.Set(0, scale);
    const int64_t width = info.global_dims.back();
    for (size_t v = 0; head && v < logits.size(); ++v) {
      values.Set(static_cast<int64_t>(v) * width, logits[v] / scale);
    }
    return values;
  };
}

// Logits whose softmax gives token 0 the loss `first`, token 1 the loss `second`, and the rest
// equal shares of what is left.
std::vector<double> LogitsFor(double first, double second, int64_t vocabulary) {
  const double rest = 1 - std::exp(-first) - std::exp(-second);
  std::vector<double> logits(static_cast<size_t>(vocabulary),
                             std::log(rest / static_cast<double>(vocabulary - 2)));
  logits[0] = -first;
  logits[1] = -second;
  return logits;
}

// Rows of the given targets, which all begin alike.
void GiveRows(LayoutRun& run, Table labels) {
  run.row = [labels](int64_t row, std::vector<int32_t>& ids, std::vector<int32_t>& targets,
                     std::vector<int32_t>&, std::vector<int32_t>&) {
    ids.assign(ids.size(), 0);
    targets = row < static_cast<int64_t>(labels.size())
                  ? labels[static_cast<size_t>(row)]
                  : std::vector<int32_t>(targets.size(), kSkip);
  };
}

Optimizer PlainSgd() {
  Optimizer optimizer;
  optimizer.kind = Optimizer::Kind::kSgd;
  optimizer.momentum = 0;
  optimizer.weight_decay = 0;
  return optimizer;
}

struct Split {
  int64_t data, micro_batch, micro_batches;
};

Plan PlanOf(const Split& split, int64_t length) {
  std::vector<MeshAxis> mesh;
  if (split.data > 1) mesh = {{"data", split.data}};
  return LayoutPlan(mesh, split.micro_batch, split.micro_batches, length);
}

std::string Text(const Split& split) {
  return absl::StrCat("data=", split.data, ", micro-batch ", split.micro_batch, ", accumulation ",
                      split.micro_batches);
}

// A1. Token losses [1, 1] in the first half of the update and [4, 4, 4, 4, 4, 4] in the second: the
// loss is 3.25 (the mean of means would be 2.5), and the gradient is that of the 8-token mean.
TEST(FieldCases, A1TokenWeightedMean) {
  LayoutRun run;
  run.config = SmallGpt2();
  run.values = SameLogits(LogitsFor(1, 4, run.config.vocabulary), 1);
  run.updates = 1;
  GiveRows(run, {{0, kSkip, kSkip}, {0, kSkip, kSkip}, {1, 1, 1}, {1, 1, 1}});
  run.plan = PlanOf({1, 4, 1}, 3);
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(run));
  EXPECT_NEAR(expected.losses[0], 3.25, 1e-6 * 3.25);
  const std::vector<double>& head = expected.gradients.at(kHeadGradient);
  const size_t width = head.size() / static_cast<size_t>(run.config.vocabulary);
  EXPECT_NEAR(head[0], std::exp(-1) - 2.0 / 8, 1e-6);
  EXPECT_NEAR(head[width], std::exp(-4) - 6.0 / 8, 1e-6);

  for (const Split& split : {Split{1, 2, 2}, {1, 1, 4}, {2, 2, 1}, {2, 1, 2}, {4, 1, 1}}) {
    for (int zero : {0, 3}) {
      SCOPED_TRACE(absl::StrCat(Text(split), ", ZeRO ", zero));
      run.plan = PlanOf(split, 3);
      run.plan.zero = split.data > 1 ? zero : 0;
      ASSERT_OK_AND_ASSIGN(const LayoutResult result, Train(run));
      EXPECT_NEAR(result.losses[0], 3.25, 1e-6 * 3.25);
      ExpectEqual(result, expected, {.relative = 1e-6, .states = false});
    }
  }
}

// A1. 10 samples where an update takes 8: the second update has one micro-batch of them, whose mean
// gradient 2.0 is what is applied (0.5 would count the micro-batches that are not there).
TEST(FieldCases, A1ShortLastWindow) {
  LayoutRun run;
  run.config = SmallGpt2(R"({"vocab_size": 2})");
  // Both tokens have the probability 1/2, and the head sees -4: a target's row gets -4 (1/2 - 1).
  run.values = SameLogits({0, 0}, -4);
  run.optimizer = PlainSgd();
  run.learning_rate = 1;
  run.updates = 2;
  run.gradients_of = 1;
  run.all_rows = 10;
  // In the first update each token is the target of half the rows: nothing moves.
  Table labels;
  for (int32_t row = 0; row < 8; ++row) labels.push_back({row % 2, row % 2});
  labels.push_back({0, 0});
  labels.push_back({0, 0});
  GiveRows(run, labels);
  for (const Split& split : {Split{1, 2, 4}, {1, 8, 1}, {2, 1, 4}, {2, 2, 2}, {4, 2, 1}}) {
    for (int zero : {0, 3}) {
      SCOPED_TRACE(absl::StrCat(Text(split), ", ZeRO ", zero));
      run.plan = PlanOf(split, 2);
      run.plan.zero = split.data > 1 ? zero : 0;
      ASSERT_OK_AND_ASSIGN(const LayoutResult result, Train(run));
      EXPECT_NEAR(result.losses[1], std::log(2), 1e-6);
      const std::vector<double>& head = result.gradients.at(kHeadGradient);
      EXPECT_EQ(head[0], 2.0);
      EXPECT_EQ(head[head.size() / 2], -2.0);
      EXPECT_EQ(result.states.at(kHead).Get(0), -2.0);
    }
  }
}

// A2. data=2: the row of rank 0 has no target, that of rank 1 two with losses 1 and 3. Then an
// update in which nobody has one.
TEST(FieldCases, A2RankAndStepWithoutTarget) {
  LayoutRun run;
  run.config = SmallGpt2();
  run.values = SameLogits(LogitsFor(1, 3, run.config.vocabulary), 1);
  run.updates = 1;
  GiveRows(run, {{0, 1, kSkip, kSkip}});
  run.plan = LayoutPlan({}, 1, 1, 4);
  ASSERT_OK_AND_ASSIGN(const LayoutResult alone, Train(run));

  GiveRows(run, {{kSkip, kSkip, kSkip, kSkip}, {0, 1, kSkip, kSkip}});
  for (int zero = 0; zero <= 3; ++zero) {
    SCOPED_TRACE(zero);
    run.plan = LayoutPlan({{"data", 2}}, 1, 1, 4);
    run.plan.zero = zero;
    run.updates = 1;
    ASSERT_OK_AND_ASSIGN(const LayoutResult one, Train(run));  // ranks agree, or this fails
    EXPECT_NEAR(one.losses[0], 2.0, 1e-6);
    ExpectEqual(one, alone, {.relative = 1e-6, .states = false});
    run.updates = 2;
    ASSERT_OK_AND_ASSIGN(const LayoutResult two, Train(run));
    EXPECT_THAT(two.skipped[1], HasSubstr("no position of the update counts"));
    EXPECT_TRUE(std::isfinite(two.losses[1]) && std::isfinite(two.norms[1]));
    EXPECT_EQ(two.states.size(), one.states.size());
    for (const auto& [name, value] : one.states) EXPECT_TRUE(two.states.at(name) == value) << name;
  }
}

// A2. Nothing that only ignored positions read gets a gradient: not a bit, on any rank.
TEST(FieldCases, A2IgnoredPositionsGiveZeroGradient) {
  LayoutRun run;
  run.config = SmallGpt2();
  run.updates = 1;
  run.plan = LayoutPlan({{"data", 2}}, 1, 1, 4);
  run.row = [](int64_t row, std::vector<int32_t>& ids, std::vector<int32_t>& labels,
               std::vector<int32_t>&, std::vector<int32_t>&) {
    ids = row == 0 ? std::vector<int32_t>{3, 4, 5, 6} : std::vector<int32_t>{1, 2, 7, 8};
    labels = row == 0 ? std::vector<int32_t>(4, kSkip) : std::vector<int32_t>{0, 1, kSkip, kSkip};
  };
  ASSERT_OK_AND_ASSIGN(const LayoutResult result, Train(run));
  const auto zero = [](const std::vector<double>& table, size_t row) {
    for (size_t i = 24 * row; i < 24 * (row + 1); ++i) {
      if (table[i] != 0) return false;
    }
    return true;
  };
  const std::vector<double>& tokens = result.gradients.at("gradient/transformer.wte.weight");
  const std::vector<double>& places = result.gradients.at("gradient/transformer.wpe.weight");
  for (size_t id = 0; id < 13; ++id) EXPECT_EQ(zero(tokens, id), id != 1 && id != 2) << id;
  for (size_t at = 0; at < 16; ++at) EXPECT_EQ(zero(places, at), at > 1) << at;
}

}  // namespace
}  // namespace colossus
