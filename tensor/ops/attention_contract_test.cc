// Attention's gradients, costs, factors and constraints.
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/ops/attention.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// b 2, s 3, t 4, h 4, g 2, d 3, e 2.
class AttentionContractTest : public ::testing::Test {
 protected:
  AttentionContractTest() : random_(TestSeed()) {}

  HostTensor Random(DType dtype, Dims dims) {
    return RandomTensor(dtype, std::move(dims), random_);
  }

  HostTensor Role(const std::string& role) {
    if (role == "q_segments") return HostTensor::Of<int32_t>({2, 3}, {0, 0, 1, 0, 1, 1});
    if (role == "k_segments") return HostTensor::Of<int32_t>({2, 4}, {0, 0, 1, 1, 0, 1, 1, 0});
    if (role == "q_positions") return HostTensor::Of<int32_t>({2, 3}, {1, 2, 3, 0, 1, 2});
    if (role == "k_positions") return HostTensor::Of<int32_t>({2, 4}, {0, 1, 2, 3, 3, 2, 1, 0});
    if (role == "kv_length") return HostTensor::Of<int32_t>({2}, {3, 4});
    if (role == "slopes") return HostTensor::Of<float>({4}, {0.5f, 0.25f, 0.125f, 0.0625f});
    if (role == "bias") return Random(DType::kF64, {4, 3, 4});
    if (role == "dropout_key") return HostTensor::Of<int64_t>({2}, {1, 2});
    return HostTensor::Of<int64_t>({}, {0});
  }

  std::vector<HostTensor> Operands(const Strings& roles) {
    std::vector<HostTensor> operands{Random(DType::kF64, {2, 3, 4, 3}),
                                     Random(DType::kF64, {2, 4, 2, 3}),
                                     Random(DType::kF64, {2, 4, 2, 2})};
    for (const std::string& role : roles) operands.push_back(Role(role));
    return operands;
  }

  std::mt19937_64 random_;
};

TEST_F(AttentionContractTest, GradientsAndFlops) {
  const Attributes cases[] = {
      {{"scale", 0.5}},
      {{"scale", 0.5}, {"causal", true}, {"window", 2}},
      {{"scale", 0.5}, {"softcap", 1.5}},
      {{"scale", 0.5}, {"causal", true}, {"with", Strings{"slopes", "bias"}}},
      {{"scale", 0.5}, {"with", Strings{"q_segments", "k_segments"}}},
      {{"scale", 0.5}, {"causal", true}, {"with", Strings{"q_positions", "k_positions"}}},
      {{"scale", 0.5}, {"causal", true}, {"with", Strings{"q_positions", "kv_length"}}},
      {{"scale", 0.5},
       {"softcap", 1.5},
       {"dropout_rate", 0.25},
       {"site", "a"},
       {"with", Strings{"bias", "dropout_key", "first_row"}}},
  };
  for (const Attributes& attributes : cases) {
    Strings roles = attributes.StringListOr("with", {});
    std::vector<HostTensor> operands = Operands(roles);
    std::vector<int> wanted{0, 1, 2};
    int bias = OptionalOperand(attributes, 3, "bias");
    if (bias >= 0) wanted.push_back(bias);
    ExpectGradient(AttentionOp(), operands, attributes, wanted);
    bool by_data = roles.size() >= 2 && roles[1] != "bias" && roles[0] != "bias";
    if (by_data) continue;  // the cost is a bound there
    ExpectFlops(AttentionOp(), operands, attributes);
    std::vector<HostTensor> y = RunOp(AttentionOp(), operands, attributes);
    std::vector<HostTensor> gradient{y[0], operands[0], operands[1], operands[2], y[0], y[1]};
    gradient.insert(gradient.end(), operands.begin() + 3, operands.end());
    ExpectFlops(AttentionGradOp(), gradient, attributes);
  }
}

TEST_F(AttentionContractTest, BiasPerBatch) {
  std::vector<HostTensor> operands = Operands({});
  operands.push_back(Random(DType::kF64, {2, 4, 3, 4}));
  ExpectGradient(AttentionOp(), operands, {{"scale", 0.5}, {"with", Strings{"bias"}}},
                 {0, 1, 2, 3});
}

FactorKind KindOf(const FactorRule& rule, absl::string_view label) {
  return rule.factors[rule.Find(label)].kind;
}

TEST_F(AttentionContractTest, Factors) {
  auto types = [&](const Strings& roles) {
    Types types;
    for (const HostTensor& operand : Operands(roles)) types.push_back(operand.type());
    return types;
  };
  Attributes causal{{"scale", 1.0}, {"causal", true}};
  FactorRule rule = AttentionOp().Factors({types({}), causal});
  EXPECT_EQ(rule.ToString(), "b s (g r) d, b t g d, b t g e -> b s (g r) e, b (g r) s");
  EXPECT_EQ(rule.factors[rule.Find("r")].extent, 2);
  EXPECT_EQ(KindOf(rule, "s"), FactorKind::kIndexed);
  EXPECT_EQ(KindOf(rule, "t"), FactorKind::kExpand);
  EXPECT_EQ(KindOf(rule, "d"), FactorKind::kWhole);
  EXPECT_EQ(KindOf(rule, "e"), FactorKind::kWhole);
  for (const char* label : {"b", "g", "r"}) {
    EXPECT_EQ(KindOf(rule, label), FactorKind::kParallel) << label;
  }
  Strings roles{"q_positions", "k_positions", "slopes", "bias"};
  causal.Set("with", roles);
  rule = AttentionOp().Factors({types(roles), causal});
  EXPECT_EQ(rule.ToString(),
            "b s (g r) d, b t g d, b t g e, b s, b t, (g r), (g r) s t -> "
            "b s (g r) e, b (g r) s");
  EXPECT_EQ(KindOf(rule, "s"), FactorKind::kParallel);
  roles = {"dropout_key", "first_row"};
  Attributes dropout{{"scale", 1.0}, {"dropout_rate", 0.5}, {"site", "a"}, {"with", roles}};
  rule = AttentionOp().Factors({types(roles), dropout});
  for (const char* label : {"b", "g", "r", "s"}) {
    EXPECT_EQ(KindOf(rule, label), FactorKind::kIndexed) << label;
  }
}

TEST_F(AttentionContractTest, Constraints) {
  Type q{DType::kF32, {2, 3, 4, 3}}, k{DType::kF32, {2, 4, 2, 3}}, v{DType::kF32, {2, 4, 2, 2}};
  Type qs{DType::kI32, {2, 3}}, ks{DType::kI32, {2, 4}}, length{DType::kI32, {2}};
  Type key{DType::kI64, {2}}, row{DType::kI64, {}};
  auto with = [](Strings roles, Attributes attributes = {}) {
    attributes.Set("scale", 1.0);
    attributes.Set("with", std::move(roles));
    return attributes;
  };
  Attributes plain{{"scale", 1.0}};
  const struct {
    const char* constraint;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"attention_c1", {q, k, {DType::kBF16, {2, 4, 2, 2}}}, plain},
      {"attention_c1", {{DType::kF32, {2, 3, 12}}, k, v}, plain},
      {"attention_c2", {{DType::kF32, {2, 3, 3, 3}}, k, v}, plain},
      {"attention_c2", {q, k, {DType::kF32, {2, 5, 2, 2}}}, plain},
      {"attention_c3", {q, k, v}, {}},
      {"attention_c3", {q, k, v}, {{"scale", 1.0}, {"mask", true}}},
      {"attention_c3", {q, k, v}, {{"scale", 1.0}, {"causal", 1}}},
      {"attention_c4", {q, k}, plain},
      {"attention_c4", {q, k, v, qs}, plain},
      {"attention_c4", {q, k, v, ks, qs}, with({"k_segments", "q_segments"})},
      {"attention_c5", {q, k, v, qs}, with({"q_segments"})},
      {"attention_c5", {q, k, v, ks, ks}, with({"q_segments", "k_segments"})},
      {"attention_c6", {q, k, v, ks}, with({"q_positions"})},
      {"attention_c7", {q, k, v, qs}, with({"kv_length"})},
      {"attention_c7", {q, k, v, length}, with({"kv_length"}, {{"causal", true}})},
      {"attention_c8", {q, k, v, {DType::kF32, {2}}}, with({"slopes"})},
      {"attention_c9", {q, k, v, {DType::kF32, {3, 4}}}, with({"bias"})},
      {"attention_c10", {q, k, v}, {{"scale", 1.0}, {"dropout_rate", 0.5}, {"site", "a"}}},
      {"attention_c10", {q, k, v}, {{"scale", 1.0}, {"dropout_rate", 1.0}}},
      {"attention_c10", {q, k, v, key, row}, with({"dropout_key", "first_row"})},
      {"attention_c11", {q, k, v}, {{"scale", 1.0}, {"window", -1}}},
      {"attention_c11", {q, k, v}, {{"scale", 1.0}, {"softcap", -1.0}}},
      {"attention_c12", {q, k, v}, {{"scale", 1.0}, {"origin", Ints{0, 1}}}},
      {"attention_c12", {q, k, v}, {{"scale", 1.0}, {"origin", Ints{0, 1, 0, 0}}}},
      {"attention_c12", {q, k, v}, {{"scale", 1.0}, {"key_global", 3}}},
      {"attention_c12", {q, k, v, ks}, with({"k_positions"}, {{"key_global", 0}})},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(AttentionOp(), r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
  EXPECT_THAT(InferOp(AttentionGradOp(), {q, q, k, v, q, qs}, plain),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("attention_c13")));
}

}  // namespace
}  // namespace colossus
