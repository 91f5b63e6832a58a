// Field cases A12 and G6 on ranks: which keys a query sees, in packed rows and behind a window,
// where positions or heads are split.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/config.h"
#include "tests/layouts/forward_run.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kSkip = -100;
constexpr SequenceParallelism kRing = SequenceParallelism::kRing;
constexpr SequenceParallelism kAllToAll = SequenceParallelism::kAllToAll;

struct Layout {
  std::vector<MeshAxis> mesh;
  SequenceParallelism sequence = kRing;
};

std::vector<Layout> Layouts() {
  return {{{}},
          {{{"sequence", 2}}, kRing},
          {{{"sequence", 2}}, kAllToAll},
          {{{"tensor", 2}}},
          {{{"sequence", 2}, {"tensor", 2}}, kRing}};
}

Plan PlanOf(const Layout& layout, int64_t length, bool packed) {
  Plan plan = LayoutPlan(layout.mesh, 1, 1, length);
  plan.sequence = layout.sequence;
  plan.packed = packed;
  return plan;
}

std::string Text(const Layout& layout) {
  std::string text(Name(layout.sequence));
  for (const MeshAxis& axis : layout.mesh) absl::StrAppend(&text, " ", axis.name, "=", axis.size);
  return text;
}

// One row of ids and targets; positions and segments if given.
LayoutRun RowRun(const ModelConfig& config, const Plan& plan, const std::vector<int32_t>& row,
                 const std::vector<int32_t>& targets, const std::vector<int32_t>& places = {},
                 const std::vector<int32_t>& documents = {}) {
  LayoutRun run;
  run.config = config;
  run.plan = plan;
  run.updates = 1;
  run.row = [=](int64_t, std::vector<int32_t>& ids, std::vector<int32_t>& labels,
                std::vector<int32_t>& positions, std::vector<int32_t>& segments) {
    ids = row;
    labels = targets;
    if (!places.empty()) positions = places;
    if (!documents.empty()) segments = documents;
  };
  return run;
}

// Per tensor in the l2 norm, but for gradients that are zero in exact arithmetic (key biases).
void ExpectMean(const LayoutResult& whole, double a_weight, const LayoutResult& a, double b_weight,
                const LayoutResult& b) {
  const double loss = a_weight * a.losses[0] + b_weight * b.losses[0];
  EXPECT_NEAR(whole.losses[0], loss, 1e-5 * loss);
  std::map<std::string, std::vector<double>> mean;
  double largest = 0;
  for (const auto& [name, values] : a.gradients) {
    for (size_t i = 0; i < values.size(); ++i) {
      mean[name].push_back(a_weight * values[i] + b_weight * b.gradients.at(name)[i]);
      largest = std::max(largest, std::abs(mean[name].back()));
    }
  }
  ASSERT_EQ(whole.gradients.size(), mean.size());
  for (const auto& [name, values] : mean) {
    EXPECT_TRUE(TensorNear(whole.gradients.at(name), values,
                           {.absolute = 1e-6 * largest, .relative_l2 = 1e-5}))
        << name;
  }
}

const std::vector<int32_t> kPositions = {0, 1, 2, 0, 1, 2, 3, 4};
const std::vector<int32_t> kDocuments = {0, 0, 0, 1, 1, 1, 1, 1};

// A12. Documents of 3 and 5 tokens in a row of 8: 6 targets, loss and gradients the mean of the
// documents alone, weighted by their 2 and 4 targets. trainers/lib/data/rows_test.cc packs them so.
TEST(FieldCases, A12PackedDocuments) {
  for (const ModelConfig& config : {SmallGpt2(), SmallLlama(), SmallMistral()}) {
    const Layout one;
    ASSERT_OK_AND_ASSIGN(const LayoutResult three,
                         Train(RowRun(config, PlanOf(one, 3, false), {1, 2, 3}, {2, 3, kSkip})));
    ASSERT_OK_AND_ASSIGN(
        const LayoutResult five,
        Train(RowRun(config, PlanOf(one, 5, false), {4, 5, 6, 7, 8}, {5, 6, 7, 8, kSkip})));
    for (const Layout& layout : Layouts()) {
      SCOPED_TRACE(absl::StrCat(config.family, " ", Text(layout)));
      ASSERT_OK_AND_ASSIGN(const LayoutResult packed,
                           Train(RowRun(config, PlanOf(layout, 8, true), {1, 2, 3, 4, 5, 6, 7, 8},
                                        {2, 3, kSkip, 5, 6, 7, 8, kSkip}, kPositions, kDocuments)));
      ExpectMean(packed, 2.0 / 6, three, 4.0 / 6, five);
    }
  }
}

// What one layer's queries see of a row.
std::vector<int> Seen(const ModelConfig& config, const Layout& layout,
                      const std::vector<int32_t>& positions = {},
                      const std::vector<int32_t>& documents = {}) {
  const int64_t length = positions.empty() ? 6 : static_cast<int64_t>(positions.size());
  std::vector<int32_t> ids(static_cast<size_t>(length));
  std::iota(ids.begin(), ids.end(), 1);
  ForwardRun run{config, PlanOf(layout, length, !positions.empty()), {IntRows({ids})}, {}, {}};
  if (!positions.empty()) {
    run.positions = IntRows({positions});
    run.segments = IntRows({documents});
  }
  absl::StatusOr<std::vector<int>> seen = TokensSeen(std::move(run));
  EXPECT_OK(seen);
  return seen.value_or(std::vector<int>());
}

// A12. Exactly 21 pairs of query and key are visible; 36 would be one document.
TEST(FieldCases, A12VisiblePairs) {
  const ModelConfig config = SmallGpt2(R"({"n_layer": 1})");
  for (const Layout& layout : Layouts()) {
    SCOPED_TRACE(Text(layout));
    const std::vector<int> seen = Seen(config, layout, kPositions, kDocuments);
    EXPECT_THAT(seen, ElementsAre(1, 2, 3, 1, 2, 3, 4, 5));
    EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), 21);
  }
}

// G6. Length 6: window 3, null, 0, a switch that is off, a family without windows.
TEST(FieldCases, G6WindowOfOneLayer) {
  const std::string one = R"({"num_hidden_layers": 1, )";
  for (const Layout& layout : Layouts()) {
    SCOPED_TRACE(Text(layout));
    EXPECT_THAT(Seen(SmallMistral(one + R"("sliding_window": 3})"), layout),
                ElementsAre(1, 2, 3, 3, 3, 3));
    for (const char* off : {R"("layer_types": ["full_attention"]})", R"("sliding_window": 0})"}) {
      EXPECT_THAT(Seen(SmallMistral(one + off), layout), ElementsAre(1, 2, 3, 4, 5, 6)) << off;
    }
    EXPECT_THAT(
        Seen(SmallQwen2(one + R"("sliding_window": 3, "use_sliding_window": false})"), layout),
        ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(Seen(SmallLlama(one + R"("sliding_window": 3})"), layout),
                ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

// G6. A window inside packed documents: the border ends it, and it does not reach across.
TEST(FieldCases, G6WindowInPackedDocuments) {
  const ModelConfig config = SmallMistral(R"({"num_hidden_layers": 1, "sliding_window": 3})");
  for (const Layout& layout : Layouts()) {
    SCOPED_TRACE(Text(layout));
    EXPECT_THAT(Seen(config, layout, kPositions, kDocuments), ElementsAre(1, 2, 3, 1, 2, 3, 3, 3));
  }
}

// G6. A list of layers is obeyed layer by layer, in training too: every layout has the losses and
// gradients of one rank, and which layer has the window matters.
TEST(FieldCases, G6WindowsLayerByLayer) {
  const char* const lists[] = {
      R"(["full_attention", "sliding_attention"])", R"(["sliding_attention", "full_attention"])",
      R"(["sliding_attention", "sliding_attention"])", R"(["full_attention", "full_attention"])"};
  std::vector<double> losses;
  for (const char* list : lists) {
    const ModelConfig config = SmallQwen2(absl::StrCat(
        R"({"use_sliding_window": true, "sliding_window": 3, "layer_types": )", list, "}"));
    const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6}, labels = {2, 3, 4, 5, 6, 7};
    ASSERT_OK_AND_ASSIGN(const LayoutResult one,
                         Train(RowRun(config, PlanOf({}, 6, false), ids, labels)));
    losses.push_back(one.losses[0]);
    for (const Layout& layout : Layouts()) {
      SCOPED_TRACE(absl::StrCat(list, " ", Text(layout)));
      ASSERT_OK_AND_ASSIGN(const LayoutResult many,
                           Train(RowRun(config, PlanOf(layout, 6, false), ids, labels)));
      ExpectMean(many, 1, one, 0, one);
    }
  }
  std::sort(losses.begin(), losses.end());
  EXPECT_EQ(std::unique(losses.begin(), losses.end()), losses.end());
}

}  // namespace
}  // namespace colossus
