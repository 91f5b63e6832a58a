// attention and attention_grad against the reference.
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "gtest/gtest.h"
#include "tensor/graph/attributes.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/kernels/cpu/isa.h"
#include "tensor/kernels/cpu/kernel_case.h"
#include "tensor/kernels/kernel.h"
#include "tensor/ops/op_list.h"

namespace colossus {
namespace {

struct Shape {
  int64_t b, s, t, h, g, d, e;
};

struct Variant {
  std::string name;
  bool causal = false;
  int64_t window = 0;
  Strings with = {};
  double softcap = 0, dropout_rate = 0;
};

const Shape kShapes[] = {
    {1, 1, 1, 1, 1, 1, 1},      {2, 5, 7, 2, 1, 3, 4},     {1, 70, 70, 2, 2, 8, 8},
    {1, 130, 130, 4, 2, 16, 24}, {2, 1, 150, 4, 2, 32, 32}, {1, 3, 65, 1, 1, 64, 40},
    {1, 20, 90, 2, 1, 24, 24},   {1, 9, 33, 1, 1, 80, 96},  {1, 17, 20, 1, 1, 128, 33},
};

const Variant kVariants[] = {
    {"plain"},
    {"causal", true},
    {"window", true, 5},
    {"segments", true, 0, {"q_segments", "k_segments"}},
    {"positions", true, 40, {"q_positions", "k_positions"}},
    {"cache", true, 0, {"q_positions", "kv_length"}},
    {"softcap", true, 0, {}, 1.5},
    {"slopes", true, 0, {"slopes"}},
    {"dropout", true, 0, {"dropout_key", "first_row"}, 0, 0.25},
    {"bias", true, 0, {"bias"}},
    {"bias_per_batch", true, 30, {"q_positions", "kv_length", "bias"}, 2},
    {"everything", true, 90, {"q_segments", "k_segments", "slopes", "dropout_key", "first_row"},
     2.5, 0.1},
};

// Operand types and values of the roles in `with`, appended.
void AddOptional(const Shape& p, const Variant& variant, KernelCase& c) {
  for (const std::string& role : variant.with) {
    const int index = static_cast<int>(c.operands.size());
    const bool of_query = role[0] == 'q';
    Type type{DType::kI32, {p.b, of_query ? p.s : p.t}};
    if (role == "kv_length") type = {DType::kI32, {p.b}};
    if (role == "bias") type = {c.operands[0].dtype, {p.h, p.s, p.t}};
    if (role == "bias" && variant.name == "bias_per_batch") {
      type = {DType::kF32, {p.b, p.h, p.s, p.t}};
    }
    if (role == "slopes") type = {DType::kF32, {p.h}};
    if (role == "dropout_key") type = {DType::kI64, {2}};
    if (role == "first_row") type = {DType::kI64, {}};
    c.operands.push_back(type);
    if (role == "slopes") c.values[index] = {0.25, 0.0625};
    else if (role == "dropout_key") c.values[index] = {7, 3};
    else if (role == "first_row") c.values[index] = {5};
    else if (role == "kv_length") c.values[index] = {static_cast<double>(p.t / 2 + 1)};
    else if (role.find("segments") != std::string::npos) c.bounds[index] = 3;
    else if (role != "bias") c.bounds[index] = p.t;
  }
  if (!variant.with.empty()) c.attributes.Set("with", variant.with);
}

// Where bf16 pairs are multiplied, probabilities and score gradients are rounded to bf16, by up to
// 2^-8 of each, before they enter a sum: the result is off by up to 2^-8 of the sum of its terms'
// magnitudes. So its own rounding, too, falls elsewhere than the reference's: another 2^-8.
double PairRoundings(DType dtype) {
  return dtype == DType::kBF16 && Bf16Pairs() != PairSupport::kNone ? 2 * 0x1p+16 : 0;
}

KernelCase Forward(const Shape& p, const Variant& variant, DType dtype) {
  KernelCase c{.op = "attention",
               .attributes = {{"scale", 1 / std::sqrt(static_cast<double>(p.d))},
                              {"causal", variant.causal}, {"window", variant.window},
                              {"softcap", variant.softcap}},
               .operands = {{dtype, {p.b, p.s, p.h, p.d}}, {dtype, {p.b, p.t, p.g, p.d}},
                            {dtype, {p.b, p.t, p.g, p.e}}},
               // Sums over d and over at most 150 keys, and exp of scores of a few units.
               .roundings = 256 + PairRoundings(dtype)};
  if (variant.dropout_rate > 0) {
    c.attributes.Set("dropout_rate", variant.dropout_rate);
    c.attributes.Set("site", "h.0.attention");
  }
  AddOptional(p, variant, c);
  return c;
}

// Results of the forward kernel are operands of the gradient: lse is computed here in double, out
// is random (it only enters by its product with dout).
KernelCase Backward(const Shape& p, const Variant& variant, DType dtype) {
  KernelCase c = Forward(p, variant, dtype);
  c.op = "attention_grad";
  const Type out{dtype, {p.b, p.s, p.h, p.e}};
  Types operands = {out, c.operands[0], c.operands[1], c.operands[2], out,
                    {DType::kF32, {p.b, p.h, p.s}}};
  std::map<int, int64_t> bounds;
  std::map<int, std::vector<double>> values;
  for (size_t i = 3; i < c.operands.size(); ++i) operands.push_back(c.operands[i]);
  for (auto& [index, bound] : c.bounds) bounds[index + 3] = bound;
  for (auto& [index, value] : c.values) values[index + 3] = value;
  values[5] = {std::log(static_cast<double>(p.t)) + 1, 2.5, 4};
  c.operands = operands;
  c.bounds = bounds;
  c.values = values;
  c.roundings = 512 + PairRoundings(dtype);
  return c;
}

TEST(AttentionTest, ForwardAgrees) {
  for (const Shape& shape : kShapes) {
    for (const Variant& variant : kVariants) {
      SCOPED_TRACE(variant.name);
      Check(Forward(shape, variant, DType::kF32));
      Check(Forward(shape, variant, DType::kBF16));
    }
  }
}

TEST(AttentionTest, BackwardAgrees) {
  for (const Shape& shape : kShapes) {
    for (const Variant& variant : kVariants) {
      SCOPED_TRACE(variant.name);
      Check(Backward(shape, variant, DType::kF32));
      Check(Backward(shape, variant, DType::kBF16));
    }
  }
}

// The non-finite check of a step must see what enters here.
TEST(AttentionTest, NanIsKept) {
  KernelCase c = Forward({1, 70, 70, 1, 1, 8, 8}, {"causal", true}, DType::kF32);
  for (int operand : {0, 1}) {
    c.prepare = [operand](std::vector<HostTensor>& x) {
      x[operand].Set(20 * 8, std::nan(""));
    };
    Check(c);
  }
}

// More than one span of query rows.
TEST(AttentionTest, LongCausal) {
  const Shape shape{1, 600, 600, 1, 1, 8, 8};
  Check(Forward(shape, {"causal", true}, DType::kF32));
  Check(Backward(shape, {"causal", true}, DType::kF32));
}

// So many query rows of a key/value head that their dq does not fit a thread's workspace.
TEST(AttentionTest, ManyQueryHeads) {
  const Shape shape{1, 6, 9, 1200, 1, 64, 64};
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    KernelCase c = Backward(shape, {"causal", true}, dtype);
    c.roundings = 8192;  // dk and dv are sums over 7200 rows
    Check(c);
  }
}

// 2 MiB a thread at any length, head size and number of heads.
TEST(AttentionTest, WorkspaceIsBounded) {
  const Shape shapes[] = {{1, 32768, 32768, 2, 2, 64, 64}, {1, 32768, 32768, 8, 1, 128, 128},
                          {2, 64, 1 << 20, 4, 4, 96, 80}, {4, 512, 512, 12, 12, 256, 256}};
  const Variant variants[] = {{"causal", true}, {"bias", true, 0, {"slopes"}, 30}};
  for (const Shape& shape : shapes) {
    for (const Variant& variant : variants) {
      for (const KernelCase& c : {Forward(shape, variant, DType::kF32),
                                  Backward(shape, variant, DType::kBF16)}) {
        const Op* op = FindOp(c.op);
        const Types results = *op->Infer({c.operands, c.attributes});
        absl::StatusOr<PlannedKernel> planned =
            PlanKernel(CpuKernels(), {op, &c.attributes, c.operands, results, 3});
        ASSERT_TRUE(planned.ok()) << planned.status().ToString();
        EXPECT_NE(planned->name, "reference");
        EXPECT_LE(planned->workspace_bytes, 3 * (int64_t{2} << 20));
      }
    }
  }
}

// A query that sees no key: out 0, lse -infinity, no gradients.
TEST(AttentionTest, QueriesWithoutKeys) {
  const Shape shape{1, 4, 9, 1, 1, 8, 8};
  const Variant variant{"segments", false, 0, {"q_segments", "k_segments"}};
  KernelCase c = Forward(shape, variant, DType::kF32);
  c.values[3] = {0, 5, 1, 5};
  c.values[4] = {0, 1, 0};
  c.bounds.clear();
  Check(c);
  KernelCase grad = Backward(shape, variant, DType::kF32);
  grad.values[6] = c.values[3];
  grad.values[7] = c.values[4];
  grad.bounds.clear();
  grad.values[5] = {2, -std::numeric_limits<double>::infinity(), 3,
                    -std::numeric_limits<double>::infinity()};
  Check(grad);
}

// A bias of -infinity hides its key, and all of them leave a query without keys.
TEST(AttentionTest, BiasHidesKeys) {
  const double hidden = -std::numeric_limits<double>::infinity();
  const Shape shape{1, 70, 70, 2, 1, 8, 8};
  const Variant variant{"bias", true, 0, {"bias"}};
  for (KernelCase c :
       {Forward(shape, variant, DType::kF32), Backward(shape, variant, DType::kF32)}) {
    c.prepare = [hidden, gradient = c.op != "attention"](std::vector<HostTensor>& x) {
      HostTensor& bias = x.back();  // [2, 70, 70]
      for (int64_t i = 0; i < 140; ++i) bias.Set(i * 70 + 3, hidden);
      for (int64_t j = 0; j < 70; ++j) bias.Set(20 * 70 + j, hidden);
      if (gradient) x[5].Set(20, hidden);  // lse [1, 2, 70]
    };
    Check(c);
  }
}

}  // namespace
}  // namespace colossus
