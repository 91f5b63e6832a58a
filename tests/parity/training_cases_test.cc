// Cases about one update of a whole model, for every family: how losses and gradients are averaged,
// packed documents, dropout under recomputation. More of them: parallel/field_cases_test.cc.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

using Gradients = std::map<std::string, std::vector<double>>;

constexpr int32_t kSkip = -100;

struct Model {
  const char* name;
  ModelConfig config;
};

std::vector<Model> Models() {
  const char* tied = R"({"tie_word_embeddings": true})";
  return {{"gpt2", SmallGpt2()},   {"gpt2 tied", SmallGpt2(tied)},   {"llama", SmallLlama()},
          {"llama tied", SmallLlama(tied)}, {"mistral", SmallMistral()}, {"qwen2", SmallQwen2()}};
}

// Per tensor in the l2 norm; the floor, `limit` times the largest entry of any gradient, is for
// tensors whose gradient is zero in exact arithmetic (key biases).
void ExpectNear(const Gradients& actual, const Gradients& expected, double limit) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const auto& item : expected) {
    for (double v : item.second) largest = std::max(largest, std::fabs(v));
  }
  for (const auto& item : expected) {
    EXPECT_TRUE(TensorNear(actual.at(item.first), item.second,
                           {.absolute = limit * largest, .relative_l2 = limit}))
        << item.first;
  }
}

Gradients WeightedSum(double a_weight, const Gradients& a, double b_weight, const Gradients& b) {
  Gradients sum;
  for (const auto& item : a) {
    for (size_t i = 0; i < item.second.size(); ++i) {
      sum[item.first].push_back(a_weight * item.second[i] + b_weight * b.at(item.first)[i]);
    }
  }
  return sum;
}

SmallUpdate UpdateOf(const ModelConfig& config, const Plan& plan,
                     std::vector<MicroBatch> micro_batches) {
  absl::StatusOr<std::unique_ptr<SmallTrainer>> trainer = SmallTrainer::Make(config, plan);
  CHECK_OK(trainer.status());
  absl::StatusOr<SmallUpdate> update = (*trainer)->Update(std::move(micro_batches));
  CHECK_OK(update.status());
  return *std::move(update);
}

// Two counting targets in one row, six in the other.
const Table kUneven = {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}};
const Table kUnevenLabels = {{2, 3, kSkip, kSkip, kSkip, kSkip}, {8, 9, 10, 11, 12, 0}};

TEST(FieldCases, A1AccumulationIsOneTokenWeightedMean) {
  for (const Model& model : Models()) {
    SCOPED_TRACE(model.name);
    SmallUpdate at_once =
        UpdateOf(model.config, SmallPlan(2, 1, 6), {Rows(kUneven, kUnevenLabels)});
    SmallUpdate split = UpdateOf(model.config, SmallPlan(1, 2, 6),
                                 {Rows({kUneven[0]}, {kUnevenLabels[0]}),
                                  Rows({kUneven[1]}, {kUnevenLabels[1]})});
    EXPECT_EQ(at_once.result.tokens, 8);
    EXPECT_EQ(split.result.tokens, 8);
    EXPECT_NEAR(split.result.loss, at_once.result.loss, 1e-6 * at_once.result.loss);
    EXPECT_NEAR(split.result.grad_norm, at_once.result.grad_norm, 1e-6 * at_once.result.grad_norm);
    ExpectNear(split.gradients, at_once.gradients, 1e-6);
    // Not the mean of the two rows' means.
    SmallUpdate first = UpdateOf(model.config, SmallPlan(1, 1, 6),
                                 {Rows({kUneven[0]}, {kUnevenLabels[0]})});
    SmallUpdate second = UpdateOf(model.config, SmallPlan(1, 1, 6),
                                  {Rows({kUneven[1]}, {kUnevenLabels[1]})});
    EXPECT_NEAR(split.result.loss, (2 * first.result.loss + 6 * second.result.loss) / 8, 1e-6);
    ExpectNear(split.gradients,
               WeightedSum(2.0 / 8, first.gradients, 6.0 / 8, second.gradients), 1e-6);
  }
}

// Nothing that only ignored positions read gets a gradient: the rows of their tokens and places.
TEST(FieldCases, A2IgnoredPositionsGiveZeroGradient) {
  SmallUpdate update = UpdateOf(SmallGpt2(), SmallPlan(2, 1, 4),
                                {Rows({{1, 2, 9, 10}, {11, 11, 11, 11}},
                                      {{5, 6, kSkip, kSkip}, {kSkip, kSkip, kSkip, kSkip}})});
  const std::vector<double>& tokens = update.gradients.at("transformer.wte.weight");
  const std::vector<double>& places = update.gradients.at("transformer.wpe.weight");
  auto row_is_zero = [](const std::vector<double>& table, size_t row) {
    for (size_t i = 24 * row; i < 24 * (row + 1); ++i) {
      if (table[i] != 0) return false;
    }
    return true;
  };
  for (size_t id = 0; id < 13; ++id) EXPECT_EQ(row_is_zero(tokens, id), id != 1 && id != 2) << id;
  for (size_t at = 0; at < 16; ++at) EXPECT_EQ(row_is_zero(places, at), at > 1) << at;
}

TEST(FieldCases, A10RecomputationWithDropout) {
  const char* dropout = R"({"attn_pdrop": 0.5, "embd_pdrop": 0.5, "resid_pdrop": 0.5})";
  const MicroBatch batch = Rows(kUneven, kUnevenLabels);
  Plan plan = SmallPlan(2, 1, 6);
  SmallUpdate without = UpdateOf(SmallGpt2(dropout), plan, {batch});
  plan.dropout = true;
  SmallUpdate kept = UpdateOf(SmallGpt2(dropout), plan, {batch});
  plan.recomputation = Recomputation::kBlock;
  SmallUpdate recomputed = UpdateOf(SmallGpt2(dropout), plan, {batch});
  EXPECT_EQ(recomputed.result.loss, kept.result.loss);
  EXPECT_EQ(recomputed.result.grad_norm, kept.result.grad_norm);
  EXPECT_TRUE(recomputed.result.gradients == kept.result.gradients);
  EXPECT_NE(kept.result.loss, without.result.loss);
}

// The mask is a function of seed, update, site and element: not of what ran before.
TEST(FieldCases, A10MasksDependOnTheUpdateAlone) {
  const char* dropout = R"({"attn_pdrop": 0.5, "embd_pdrop": 0.5, "resid_pdrop": 0.5})";
  const MicroBatch batch = Rows(kUneven, kUnevenLabels);
  Plan plan = SmallPlan(2, 1, 6);
  plan.dropout = true;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<SmallTrainer> trainer,
                       SmallTrainer::Make(SmallGpt2(dropout), plan));
  ASSERT_OK_AND_ASSIGN(SmallUpdate first, trainer->Update({batch}));
  ASSERT_OK_AND_ASSIGN(SmallUpdate second, trainer->Update({batch}));  // learning rate 0
  EXPECT_NE(first.result.loss, second.result.loss);
  ASSERT_OK_AND_ASSIGN(trainer, SmallTrainer::Make(SmallGpt2(dropout), plan));
  ASSERT_OK(trainer->Update({Rows(kUneven, {kUnevenLabels[1], kUnevenLabels[0]})}).status());
  ASSERT_OK_AND_ASSIGN(SmallUpdate again, trainer->Update({batch}));
  EXPECT_EQ(again.result.loss, second.result.loss);
  EXPECT_TRUE(again.result.gradients == second.result.gradients);
}

// Documents of 3 and 5 tokens in a row of 8.
TEST(FieldCases, A12PackedDocuments) {
  MicroBatch packed = Rows({{1, 2, 3, 4, 5, 6, 7, 8}}, {{2, 3, kSkip, 5, 6, 7, 8, kSkip}});
  packed.positions = IntRows({{0, 1, 2, 0, 1, 2, 3, 4}});
  packed.segments = IntRows({{0, 0, 0, 1, 1, 1, 1, 1}});
  for (const Model& model : Models()) {
    SCOPED_TRACE(model.name);
    Plan plan = SmallPlan(1, 1, 8);
    plan.packed = true;
    SmallUpdate together = UpdateOf(model.config, plan, {packed});
    SmallUpdate three =
        UpdateOf(model.config, SmallPlan(1, 1, 3), {Rows({{1, 2, 3}}, {{2, 3, kSkip}})});
    SmallUpdate five = UpdateOf(model.config, SmallPlan(1, 1, 5),
                                {Rows({{4, 5, 6, 7, 8}}, {{5, 6, 7, 8, kSkip}})});
    EXPECT_EQ(together.result.tokens, 6);
    const double mean = (2 * three.result.loss + 4 * five.result.loss) / 6;
    EXPECT_NEAR(together.result.loss, mean, 1e-5 * mean);
    ExpectNear(together.gradients,
               WeightedSum(2.0 / 6, three.gradients, 4.0 / 6, five.gradients), 1e-5);
  }
}

}  // namespace
}  // namespace colossus
