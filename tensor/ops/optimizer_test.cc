#include "tensor/ops/optimizer.h"

#include <cmath>

#include "base/random.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/ops/element_segments.h"
#include "tensor/ops/stochastic_rounding.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

HostTensor Scalar(double value, DType dtype = DType::kF32) {
  HostTensor scalar(Type{dtype, {}});
  scalar.Set(0, value);
  return scalar;
}

Attributes AdamwAttributes(double weight_decay) {
  return {{"beta1", 0.9},
          {"beta2", 0.999},
          {"epsilon", 1e-8},
          {"weight_decay", Floats{weight_decay}}};
}

std::vector<HostTensor> AdamwStep(const HostTensor& master, const HostTensor& grad,
                                  const HostTensor& m, const HostTensor& v, double learning_rate,
                                  double grad_scale, int update, const Attributes& attributes) {
  DType dtype = master.type().dtype;
  return RunOp(AdamwOp(),
               {master, grad, m, v, Scalar(learning_rate, dtype), Scalar(grad_scale, dtype),
                Scalar(1 - std::pow(0.9, update), dtype),
                Scalar(1 - std::pow(0.999, update), dtype)},
               attributes);
}

// Field case A15: one parameter of value 1, constant gradient 1, rate 1e-3, 100 updates.
TEST(OptimizerTest, A15SmallUpdates) {
  HostTensor p = HostTensor::Of<float>({1}, {1}), m = HostTensor::Of<float>({1}, {0}), v = m;
  HostTensor grad(Type{DType::kBF16, {1}}), view;
  grad.Set(0, 1);
  Attributes attributes = AdamwAttributes(0);
  attributes.Set("compute", "bf16");
  for (int update = 1; update <= 100; ++update) {
    std::vector<HostTensor> y = AdamwStep(p, grad, m, v, 1e-3, 1, update, attributes);
    p = y[0], m = y[1], v = y[2], view = y[3];
  }
  EXPECT_NEAR(p.Get(0), 0.9, 1e-4);
  EXPECT_EQ(view.type().dtype, DType::kBF16);
  EXPECT_EQ(view.Get(0), 0.8984375);
}

// Field case E4, for one tensor: without a gradient a decayed parameter of 1 becomes 0.99.
TEST(OptimizerTest, E4Decay) {
  HostTensor p = HostTensor::Of<float>({1}, {1}), zero = HostTensor::Of<float>({1}, {0});
  EXPECT_EQ(AdamwStep(p, zero, zero, zero, 0.1, 1, 1, AdamwAttributes(0.1))[0].Get(0), 0.99f);
  EXPECT_EQ(AdamwStep(p, zero, zero, zero, 0.1, 1, 1, AdamwAttributes(0))[0].Get(0), 1);
}

// Three updates of random values against the formula in double.
TEST(OptimizerTest, AdamwFormula) {
  std::mt19937_64 random(TestSeed());
  HostTensor p = RandomTensor(DType::kF64, {8}, random), p32(Type{DType::kF32, {8}});
  std::vector<double> expected = p.ToDoubles(), m(8), v(8);
  for (int i = 0; i < 8; ++i) p32.Set(i, p.Get(i));
  HostTensor m64(p.type()), v64(p.type()), m32(p32.type()), v32(p32.type());
  for (int update = 1; update <= 3; ++update) {
    HostTensor grad = RandomTensor(DType::kF64, {8}, random), grad32(Type{DType::kF32, {8}});
    for (int i = 0; i < 8; ++i) {
      grad32.Set(i, grad.Get(i));
      double g = 0.5 * grad.Get(i);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      double m_hat = m[i] / (1 - std::pow(0.9, update));
      double v_hat = v[i] / (1 - std::pow(0.999, update));
      expected[i] -= 0.01 * 0.1 * expected[i];
      expected[i] -= 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
    auto wide = AdamwStep(p, grad, m64, v64, 0.01, 0.5, update, AdamwAttributes(0.1));
    p = wide[0], m64 = wide[1], v64 = wide[2];
    auto narrow = AdamwStep(p32, grad32, m32, v32, 0.01, 0.5, update, AdamwAttributes(0.1));
    p32 = narrow[0], m32 = narrow[1], v32 = narrow[2];
  }
  // f64: some 20 roundings a step; f32: roundings of 2^-24 of values up to about 3, and of steps.
  EXPECT_TRUE(TensorNear(p.ToDoubles(), expected, {.relative_to_max = 1e-14}));
  EXPECT_TRUE(TensorNear(p32.ToDoubles(), expected, {.relative_to_max = 1e-6}));
}

// Every intermediate is rounded to f32, in the order the header tells.
TEST(OptimizerTest, AdamwBits) {
  constexpr int kElements = 64;
  std::mt19937_64 random(TestSeed());
  HostTensor p = RandomTensor(DType::kF32, {kElements}, random);
  HostTensor g = RandomTensor(DType::kF32, {kElements}, random);
  HostTensor m = RandomTensor(DType::kF32, {kElements}, random), v = p;
  for (int i = 0; i < kElements; ++i) v.Set(i, p.Get(i) * g.Get(i) * p.Get(i) * g.Get(i));
  const float lr = 0.01f, scale = 0.37f, c1 = 0.19f, c2 = 0.002f, wd = 0.1f, eps = 1e-8f;
  const float b1 = 0.9f, a1 = static_cast<float>(1 - 0.9);
  const float b2 = 0.999f, a2 = static_cast<float>(1 - 0.999);
  std::vector<HostTensor> y =
      RunOp(AdamwOp(), {p, g, m, v, Scalar(lr), Scalar(scale), Scalar(c1), Scalar(c2)},
            AdamwAttributes(0.1));
  for (int i = 0; i < kElements; ++i) {
    const float gi = g.data<float>()[i] * scale;
    const float mi = b1 * m.data<float>()[i] + a1 * gi;
    const float vi = b2 * v.data<float>()[i] + (a2 * gi) * gi;
    const float pi = p.data<float>()[i] * (1 - lr * wd) -
                     ((lr / c1) * mi) / (std::sqrt(vi) / std::sqrt(c2) + eps);
    EXPECT_EQ(y[0].data<float>()[i], pi) << i;
    EXPECT_EQ(y[1].data<float>()[i], mi) << i;
    EXPECT_EQ(y[2].data<float>()[i], vi) << i;
  }
}

// Two updates: u is the gradient first, then momentum * u + gradient.
TEST(OptimizerTest, SgdFormula) {
  HostTensor p = HostTensor::Of<double>({1}, {2}), u = HostTensor::Of<double>({1}, {0});
  HostTensor grad = HostTensor::Of<double>({1}, {6});
  HostTensor rate = Scalar(0.25, DType::kF64), scale = Scalar(0.5, DType::kF64);
  Attributes attributes{{"momentum", 0.5}, {"weight_decay", Floats{0.5}}, {"compute", "bf16"}};
  std::vector<HostTensor> y = RunOp(SgdOp(), {p, grad, u, rate, scale}, attributes);
  EXPECT_EQ(y[1].Get(0), 4);  // 6 * 0.5 + 0.5 * 2
  EXPECT_EQ(y[0].Get(0), 1);  // 2 - 0.25 * 4
  EXPECT_EQ(y[2].Get(0), 1);
  y = RunOp(SgdOp(), {y[0], grad, y[1], rate, scale}, attributes);
  EXPECT_EQ(y[1].Get(0), 5.5);  // 0.5 * 4 + 3.5
  EXPECT_EQ(y[0].Get(0), -0.375);
}

// bf16 moments: computed and used in f32, rounded by the bits of (key, site, element) when stored,
// and right on average where rounding to nearest would never move.
TEST(OptimizerTest, NarrowMoments) {
  constexpr int kElements = 4096;
  const HostTensor p(Type{DType::kF32, {kElements}});
  HostTensor m(Type{DType::kBF16, {kElements}}), grad = p;
  for (int i = 0; i < kElements; ++i) m.Set(i, 1), grad.Set(i, 1e-3);
  Attributes sgd{{"momentum", 0.0}, {"weight_decay", Floats{0}}};
  const HostTensor key = HostTensor::Of<int64_t>({2}, {5, 9});
  const HostTensor one = Scalar(1);
  // u = 1 * 1 + 1e-3, between 1 and 1 + 2^-7.
  sgd.Set("momentum", std::nextafter(1.0, 0.0));
  const std::vector<HostTensor> wide = RunOp(SgdOp(), {p, grad, p, one, one}, sgd);
  EXPECT_EQ(wide[1].type().dtype, DType::kF32);
  sgd.Set("moments", "bf16");
  SetSegments(sgd, {WholeSegment("w", {kElements})});
  const std::vector<HostTensor> y = RunOp(SgdOp(), {p, grad, m, one, one, key}, sgd);
  double sum = 0;
  for (int i = 0; i < kElements; ++i) {
    EXPECT_EQ(y[0].data<float>()[i], -(1.0f + 1e-3f));
    const uint32_t bits = RandomBits({5, 9}, SiteId("w"), static_cast<uint64_t>(i));
    EXPECT_EQ(y[1].Get(i), ToDouble(RoundStochastically(1.0f + 1e-3f, LowHalf(bits))));
    sum += y[1].Get(i) - 1;
  }
  // The share that is rounded up is 0.128; five standard deviations of the mean are 0.026 of it.
  EXPECT_LE(std::abs(sum / kElements - 1e-3), 1e-3 * 0.21);
}

// Protects: values of bf16 stay, both neighbours are reached, infinities and NaN are kept.
TEST(OptimizerTest, StochasticRounding) {
  EXPECT_EQ(ToDouble(RoundStochastically(1.5f, 0xffff)), 1.5);
  EXPECT_EQ(ToDouble(RoundStochastically(-1.001f, 0)), -1);
  EXPECT_EQ(ToDouble(RoundStochastically(-1.001f, 0xffff)), -1.0078125);
  EXPECT_EQ(ToDouble(RoundStochastically(0, 0xffff)), 0);
  EXPECT_EQ(ToDouble(RoundStochastically(INFINITY, 0xffff)), INFINITY);
  EXPECT_TRUE(std::isnan(ToDouble(RoundStochastically(NAN, 0xffff))));
}

TEST(OptimizerTest, FlopsAliasesFactors) {
  std::mt19937_64 random(TestSeed());
  HostTensor p = RandomTensor(DType::kF32, {3, 2}, random), v = p;
  HostTensor grad = RandomTensor(DType::kBF16, {3, 2}, random);
  for (int i = 0; i < 6; ++i) v.Set(i, v.Get(i) * v.Get(i));
  HostTensor scalar = Scalar(0.5);
  std::vector<HostTensor> adamw{p, grad, p, v, scalar, scalar, scalar, scalar};
  std::vector<HostTensor> sgd{p, grad, p, scalar, scalar};
  Attributes adamw_attributes = AdamwAttributes(0.1);
  Attributes sgd_attributes{{"momentum", 0.9}, {"weight_decay", Floats{0.1}}};
  for (bool compute : {false, true}) {
    if (compute) {
      adamw_attributes.Set("compute", "bf16");
      sgd_attributes.Set("compute", "bf16");
    }
    ExpectFlops(AdamwOp(), adamw, adamw_attributes);
    ExpectAliasesHarmless(AdamwOp(), adamw, adamw_attributes);
    ExpectFlops(SgdOp(), sgd, sgd_attributes);
    ExpectAliasesHarmless(SgdOp(), sgd, sgd_attributes);
  }
  Types types;
  for (const HostTensor& operand : adamw) types.push_back(operand.type());
  EXPECT_EQ(AdamwOp().Factors({types, adamw_attributes}).ToString(),
            "d0 d1, d0 d1, d0 d1, d0 d1, , , ,  -> d0 d1, d0 d1, d0 d1, d0 d1");
  // The copy may overwrite the gradient: both are of 2 bytes.
  EXPECT_EQ(AdamwOp().MayAlias({types, adamw_attributes}),
            (Aliases{{0, 0}, {1, 2}, {2, 3}, {3, 1}}));
}

// Parameters of one node: each in place by itself; split together where their dims agree.
TEST(OptimizerTest, SeveralParameters) {
  const Type p{DType::kF32, {3}}, g{DType::kBF16, {3}}, s{DType::kF32, {}};
  const Type q{DType::kF32, {2, 5}}, h{DType::kF16, {2, 5}};
  const Attributes attributes{
      {"momentum", 0.9}, {"weight_decay", Floats{0, 0.1}}, {"compute", "bf16"}};
  const Types mixed{p, p, p, q, h, q, s, s}, alike{p, g, p, p, g, p, s, s};
  ASSERT_OK_AND_ASSIGN(Types results, InferOp(SgdOp(), mixed, attributes));
  EXPECT_EQ(results, (Types{p, p, g, q, q, {DType::kBF16, {2, 5}}}));
  EXPECT_EQ(SgdOp().MayAlias({mixed, attributes}),
            (Aliases{{0, 0}, {1, 2}, {3, 3}, {4, 5}, {5, 4}}));  // the copy of 2 bytes over h alone
  for (const Factor& factor : SgdOp().Factors({mixed, attributes}).factors) {
    EXPECT_EQ(factor.kind, FactorKind::kWhole);
  }
  EXPECT_EQ(SgdOp().Factors({alike, attributes}).ToString(),
            "d0, d0, d0, d0, d0, d0, ,  -> d0, d0, d0, d0, d0, d0");
}

// Helpers give an entry per parameter also where the node is refused.
TEST(OptimizerTest, HelpersAfterAnError) {
  GraphBuilder b("update");
  const ValueId p = b.Feed("p", {DType::kF32, {3}}), s = b.Feed("s", {DType::kF32, {}});
  EXPECT_EQ(Adamw(b, std::vector<AdamwParameter>(30, {p, s, p, p}), {s, s, s, s}, {}).size(), 30u);
  EXPECT_EQ(Sgd(b, std::vector<SgdParameter>(30, {p, s, p}), s, s, {}).back().master, kNoValue);
  EXPECT_THAT(b.status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("update_c2: grad 0")));
}

TEST(OptimizerTest, Constraints) {
  Type p{DType::kF32, {3}}, s{DType::kF32, {}}, grad{DType::kBF16, {3}}, wide{DType::kF64, {3}};
  Attributes adamw = AdamwAttributes(0);
  Attributes sgd{{"momentum", 0.9}, {"weight_decay", Floats{0.1}}};
  Attributes narrow = sgd;
  narrow.Set("moments", "bf16");
  SetSegments(narrow, {WholeSegment("w", {3})});
  const Type key{DType::kI64, {2}}, w{DType::kF64, {}};
  auto changed = [](Attributes attributes, absl::string_view name, AttributeValue value) {
    attributes.Set(name, std::move(value));
    return attributes;
  };
  const struct {
    const char* constraint;
    const Op* op;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"update_c1", &AdamwOp(), {p, grad, p, p, s, s, s}, adamw},
      {"update_c1", &SgdOp(), {grad, grad, grad, s, s}, sgd},
      {"update_c1", &SgdOp(), {p, p, p, s, s}, changed(sgd, "weight_decay", Floats{0, 0})},
      {"update_c1", &SgdOp(), {s, s}, changed(sgd, "weight_decay", Floats{})},
      {"update_c1", &SgdOp(), Types(3 * 257 + 2, s),
       changed(sgd, "weight_decay", Floats(257, 0.0))},
      {"update_c1", &SgdOp(), {p, p, p, wide, wide, wide, s, s},
       changed(sgd, "weight_decay", Floats{0, 0})},
      {"update_c2", &SgdOp(), {p, {DType::kF32, {4}}, p, s, s}, sgd},
      {"update_c2", &SgdOp(), {p, wide, p, s, s}, sgd},
      {"update_c3", &SgdOp(), {p, p, grad, s, s}, sgd},
      {"update_c3", &SgdOp(), {p, p, p, p, s}, sgd},
      {"update_c4", &SgdOp(), {p, p, p, s, s}, {{"momentum", 0.9}}},
      {"update_c4", &SgdOp(), {p, p, p, s, s}, changed(sgd, "weight_decay", 0.1)},
      {"update_c4", &SgdOp(), {p, p, p, s, s}, changed(sgd, "nesterov", true)},
      {"update_c5", &SgdOp(), {p, p, p, s, s}, changed(sgd, "momentum", 1.0)},
      {"update_c5", &SgdOp(), {p, p, p, s, s}, changed(sgd, "weight_decay", Floats{-0.1})},
      {"update_c5", &AdamwOp(), {p, p, p, p, s, s, s, s}, changed(adamw, "epsilon", -1.0)},
      {"update_c6", &SgdOp(), {p, p, p, s, s}, changed(sgd, "compute", "i8")},
      {"update_c7", &SgdOp(), {p, p, p, s, s}, changed(sgd, "sites", Strings{})},
      {"update_c7", &SgdOp(), {p, p, grad, s, s, key}, changed(sgd, "moments", "bf16")},
      {"update_c7", &SgdOp(), {p, p, p, s, s, key}, changed(narrow, "moments", "f32")},
      {"update_c7", &SgdOp(), {p, p, grad, s, s, s}, narrow},
      {"update_c7", &SgdOp(), {wide, wide, grad, w, w, key}, narrow},
      {"update_c3", &SgdOp(), {p, p, p, s, s, key}, narrow},
      {"update_c1", &SgdOp(), {p, p, grad, s, s}, narrow},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(*r.op, r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
