#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/attention_merge.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/embedding.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/loss_parts.h"
#include "tensor/ops/norm.h"
#include "tensor/ops/rotary.h"
#include "tensor/testing/case_run.h"
#include "tensor/testing/op_cases.h"

namespace colossus {
namespace {

// The forward op's results for these operands.
std::vector<HostTensor> Forward(const Op& op, const Attributes& attributes,
                                const std::vector<HostTensor>& operands) {
  Types types = TypesOf(operands);
  absl::StatusOr<Types> results = op.Infer({types, attributes});
  CHECK_OK(results.status());
  return RunReference(*FindReference(op.name()), attributes, operands, *results);
}

void AddNorms(DType f, std::vector<OpCase>& cases) {
  DType s = WideDType(f);
  auto add = [&](std::string name, const Op& op, Attributes attributes, Types operands) {
    OpCase c{.name = std::move(name),
             .op = &op,
             .attributes = std::move(attributes),
             .operands = std::move(operands)};
    // Statistics are kept for the gradient, not differentiated by.
    c.unused_results = {1, 2};
    c.differentiable = &op == &LayerNormOp() || &op == &RmsNormOp();
    c.magnitude = 4;
    cases.push_back(std::move(c));
  };
  Strings both{"weight", "bias"}, one{"weight"};
  add("layer_norm/full", LayerNormOp(), {{"eps", 1e-5}, {"with", both}},
      {{f, {3, 17}}, {f, {17}}, {f, {17}}});
  add("layer_norm/plain", LayerNormOp(), {{"eps", 1e-5}}, {{f, {2, 3, 33}}});
  add("layer_norm/wide_weight", LayerNormOp(), {{"eps", 1e-5}, {"with", one}},
      {{f, {5, 8}}, {s, {8}}});
  add("layer_norm_grad/full", LayerNormGradOp(), {{"bias", true}, {"with", one}},
      {{f, {3, 17}}, {f, {3, 17}}, {s, {3}}, {s, {3}}, {f, {17}}});
  add("layer_norm_grad/plain", LayerNormGradOp(), {{"bias", false}},
      {{f, {2, 3, 5}}, {f, {2, 3, 5}}, {s, {2, 3}}, {s, {2, 3}}});
  add("rms_norm/weight", RmsNormOp(), {{"eps", 1e-6}, {"with", one}}, {{f, {3, 17}}, {f, {17}}});
  add("rms_norm/offset", RmsNormOp(), {{"eps", 1e-6}, {"offset", 1}, {"with", one}},
      {{f, {2, 2, 9}}, {f, {9}}});
  add("rms_norm/plain", RmsNormOp(), {{"eps", 1e-6}}, {{f, {33}}});
  add("rms_norm_grad/offset", RmsNormGradOp(), {{"offset", 1}, {"with", one}},
      {{f, {3, 17}}, {f, {3, 17}}, {s, {3}}, {f, {17}}});
  add("rms_norm_grad/plain", RmsNormGradOp(), {}, {{f, {2, 5}}, {f, {2, 5}}, {s, {2}}});
}

void AddRotary(DType f, std::vector<OpCase>& cases) {
  for (bool interleaved : {false, true}) {
    for (bool inverse : {false, true}) {
      Attributes attributes{{"scale", 1.25}};
      if (interleaved) attributes.Set("interleaved", true);
      if (inverse) attributes.Set("inverse", true);
      cases.push_back({.name = absl::StrCat("rotary/", interleaved ? "pairs" : "halves",
                                            inverse ? "_inverse" : ""),
                       .op = &RotaryOp(),
                       .attributes = attributes,
                       .operands = {{f, {2, 5, 3, 10}}, {DType::kI32, {2, 5}}, {DType::kF32, {4}}},
                       .fills = {{1, Fill::Uniform(0, 50)}, {2, Fill::Uniform(0, 1)}},
                       .constants = {2},
                       .magnitude = 2});
    }
  }
}

void AddEmbedding(DType f, std::vector<OpCase>& cases) {
  std::map<int, Fill> ids = {{1, Fill::Uniform(0, 7)}};
  cases.push_back({.name = "embedding/plain",
                   .op = &EmbeddingOp(),
                   .operands = {{f, {7, 5}}, {DType::kI32, {2, 9}}},
                   .fills = ids});
  cases.push_back({.name = "embedding/part",
                   .op = &EmbeddingOp(),
                   .attributes = {{"origin", 2}},
                   .operands = {{f, {3, 5}}, {DType::kI64, {9}}},
                   .fills = ids});
  cases.push_back({.name = "embedding_grad/repeated",
                   .op = &EmbeddingGradOp(),
                   .attributes = {{"rows", 7}, {"dtype", Name(WideDType(f))}},
                   .operands = {{f, {2, 9, 5}}, {DType::kI32, {2, 9}}},
                   .fills = ids,
                   .differentiable = false});
  cases.push_back({.name = "embedding_grad/part",
                   .op = &EmbeddingGradOp(),
                   .attributes = {{"rows", 3}, {"dtype", Name(WideDType(f))}, {"origin", 2}},
                   .operands = {{f, {9, 5}}, {DType::kI32, {9}}},
                   .fills = ids,
                   .differentiable = false,
                   .flops_low = 0});
}

// Columns 5 to 14 of 20, of which the first 12 are classes; labels are also of other columns.
void AddLossParts(DType f, std::vector<OpCase>& cases) {
  DType s = WideDType(f);
  Fill labels = Fill::Uniform(0, 12);
  const Attributes columns{{"origin", 5}, {"classes", 12}};
  cases.push_back({.name = "cross_entropy_part/padded",
                   .op = &CrossEntropyPartOp(),
                   .attributes = columns,
                   .operands = {{f, {2, 7, 9}}, {DType::kI32, {2, 7}}},
                   .fills = {{1, labels}},
                   .differentiable = false,
                   .magnitude = 8});
  cases.push_back({.name = "cross_entropy_merge/three",
                   .op = &CrossEntropyMergeOp(),
                   .attributes = {{"classes", 12}},
                   .operands = {{s, {6, 2, 5}}, {DType::kI64, {2, 5}}},
                   .fills = {{1, labels}},
                   .prepare = [](std::vector<HostTensor>& x) { x[1].Set(3, kIgnoreLabel); },
                   .differentiable = false,
                   .flops_low = 0.9,
                   .magnitude = 30});
  Attributes rounded = columns;
  rounded.Set("dtype", Name(f));
  cases.push_back({.name = "cross_entropy_grad/part",
                   .op = &CrossEntropyGradOp(),
                   .attributes = rounded,
                   .operands = {{s, {}}, {s, {7, 9}}, {DType::kI64, {7}}, {s, {7}}},
                   .fills = {{2, labels}, {3, Fill::Uniform(1, 2)}},
                   .differentiable = false,
                   .flops_low = 0.9});
}

void AddLosses(DType f, std::vector<OpCase>& cases) {
  DType s = WideDType(f);
  Fill labels = Fill::Uniform(0, 9);
  // Positions 1 and 4 do not count.
  auto ignore = [](int operand) {
    return [operand](std::vector<HostTensor>& x) {
      for (int64_t i : {1, 4}) x[operand].Set(i, kIgnoreLabel);
    };
  };
  OpCase plain{.name = "cross_entropy/plain",
               .op = &CrossEntropyOp(),
               .operands = {{f, {2, 3, 9}}, {DType::kI32, {2, 3}}},
               .fills = {{1, labels}},
               .unused_results = {1},
               .magnitude = 8};
  cases.push_back(plain);
  OpCase ignored = plain;
  ignored.name = "cross_entropy/ignored";
  ignored.prepare = ignore(1);
  ignored.flops_low = 0.5;
  cases.push_back(ignored);
  OpCase padded = plain;
  padded.name = "cross_entropy/padded";
  padded.attributes = {{"classes", 9}};
  padded.operands[0].dims = {2, 3, 16};
  cases.push_back(padded);
  cases.push_back({.name = "cross_entropy_grad/ignored",
                   .op = &CrossEntropyGradOp(),
                   .operands = {{s, {}}, {f, {7, 9}}, {DType::kI64, {7}}, {s, {7}}},
                   .fills = {{2, labels}},
                   .prepare =
                       [ignore](std::vector<HostTensor>& x) {
                         ignore(2)(x);
                         x[3] = Forward(CrossEntropyOp(), {}, {x[1], x[2]})[1];
                       },
                   .differentiable = false,
                   .flops_low = 0.5});
  AddLossParts(f, cases);
  for (bool bias : {false, true}) {
    OpCase fused{
        .name = absl::StrCat("linear_cross_entropy/seed", bias ? "_bias" : ""),
        .op = &LinearCrossEntropyOp(),
        .attributes = {{"chunk", 3}, {"with", bias ? Strings{"seed", "bias"} : Strings{"seed"}}},
        .operands = {{f, {2, 4, 5}}, {f, {9, 5}}, {DType::kI32, {2, 4}}, {s, {}}},
        .fills = {{2, labels}, {3, Fill::Uniform(0.5, 1)}},
        .prepare = ignore(2),
        .constants = {3},
        .unused_results = {1, 2, 3},
        .given_cotangents = {{0, 3}},
        .flops_low = 0.5,
        .magnitude = 20,
        // Over the classes, |dlogit| adds up to at most 2 * seed, and |w| is below 1.
        .inner_magnitude = 2};
    if (bias) fused.operands.push_back({f, {9}});
    cases.push_back(std::move(fused));
  }
  cases.push_back({.name = "linear_cross_entropy/forward",
                   .op = &LinearCrossEntropyOp(),
                   .operands = {{f, {5, 7}}, {f, {9, 7}}, {DType::kI32, {5}}},
                   .fills = {{2, labels}},
                   .differentiable = false,
                   .magnitude = 10});
}

void AddDropout(DType f, std::vector<OpCase>& cases) {
  OpCase c{.name = "dropout/plain",
           .op = &DropoutOp(),
           .attributes = {{"rate", 0.25}, {"site", "h.0.mlp"}},
           .operands = {{f, {4, 3, 17}}, {DType::kI64, {2}}, {DType::kI64, {}}},
           .fills = {{1, Fill::Values({7, 3})}, {2, Fill::Values({2})}}};
  cases.push_back(c);
  c.name = "dropout/part";
  c.attributes.Set("origin", Ints{0, 1, 2});
  c.attributes.Set("global", Ints{8, 5, 20});
  cases.push_back(c);
  OpCase dealt = c;
  dealt.name = "dropout/positions";
  dealt.attributes.Set("with", Strings{"positions"});
  dealt.operands.push_back({DType::kI32, {4, 3}});
  dealt.fills[3] = Fill::Values({2, 0, 4, 1, 2, 3, 0, 3, 4, 4, 1, 2});
  cases.push_back(dealt);
  c.name = "dropout/none";
  c.attributes = {{"rate", 0.0}, {"site", "x"}};
  cases.push_back(c);
}

// Operands of attention beyond q, k, v, by role.
struct AttentionRow {
  std::string name;
  Attributes attributes;
  Dims q, k, v;
  std::vector<std::pair<std::string, Type>> optional;
};

std::vector<AttentionRow> AttentionRows(DType f) {
  const DType i32 = DType::kI32, f32 = DType::kF32, i64 = DType::kI64;
  Dims q{2, 5, 4, 3}, k{2, 5, 2, 3}, v{2, 5, 2, 6};
  Attributes causal{{"scale", 0.6}, {"causal", true}};
  Attributes window = causal, cap = causal, drop = causal;
  window.Set("window", 3);
  cap.Set("softcap", 2.0);
  drop.Set("dropout_rate", 0.25);
  drop.Set("site", "h.1.attn");
  return {
      {"full", {{"scale", 0.6}}, q, {2, 7, 2, 3}, {2, 7, 2, 6}, {}},
      {"causal", causal, q, k, v, {}},
      {"one_group", causal, q, {2, 5, 1, 3}, {2, 5, 1, 3}, {}},
      {"window", window, q, k, v, {}},
      {"softcap", cap, q, k, v, {}},
      {"segments", causal, q, k, v, {{"q_segments", {i32, {2, 5}}}, {"k_segments", {i32, {2, 5}}}}},
      {"positions",
       window,
       q,
       k,
       v,
       {{"q_positions", {i32, {2, 5}}}, {"k_positions", {i32, {2, 5}}}}},
      {"slopes", causal, q, k, v, {{"slopes", {f32, {4}}}}},
      {"bias", {{"scale", 0.6}}, q, k, v, {{"bias", {f, {4, 5, 5}}}}},
      {"bias_per_batch", causal, q, k, v, {{"bias", {f, {2, 4, 5, 5}}}}},
      {"cache",
       causal,
       {2, 2, 4, 3},
       {2, 7, 2, 3},
       {2, 7, 2, 6},
       {{"q_positions", {i32, {2, 2}}}, {"kv_length", {i32, {2}}}}},
      {"dropout", drop, q, k, v, {{"dropout_key", {i64, {2}}}, {"first_row", {i64, {}}}}},
  };
}

// Every query sees a key: positions ascend, segments do not decrease, the cache is ahead.
Fill AttentionFill(const std::string& role) {
  if (role == "q_segments" || role == "k_segments")
    return Fill::Values({0, 0, 1, 1, 1, 0, 1, 2, 2, 2});
  if (role == "k_positions") return Fill::Values({0, 1, 2, 0, 1, 0, 1, 2, 3, 4});
  if (role == "kv_length") return Fill::Values({4, 6});
  if (role == "dropout_key") return Fill::Values({11, 5});
  if (role == "first_row") return Fill::Values({3});
  return Fill::Uniform(-1, 1);
}

OpCase AttentionCase(const AttentionRow& row, DType f) {
  OpCase c{.name = "attention/" + row.name,
           .op = &AttentionOp(),
           .attributes = row.attributes,
           .operands = {{f, row.q}, {f, row.k}, {f, row.v}},
           .unused_results = {1},
           .magnitude = 4};
  Strings roles;
  for (const auto& [role, type] : row.optional) {
    int operand = static_cast<int>(c.operands.size());
    if (role == "slopes") c.constants = {operand};
    c.fills[operand] = AttentionFill(role);
    if (role == "q_positions") {
      c.fills[operand] = row.name == "cache" ? Fill::Values({2, 3, 4, 5})
                                             : Fill::Values({0, 1, 2, 0, 1, 0, 1, 2, 3, 4});
    }
    if (role == "q_positions") c.flops_high = 1.5;  // restarting positions show more pairs
    // Pairs that segments, positions or lengths hide are counted by CostOf.
    if (role != "bias" && role != "slopes" && role != "dropout_key") c.flops_low = 0.2;
    if (row.name == "dropout") c.flops_low = 0.8;
    roles.push_back(role);
    c.operands.push_back(type);
  }
  if (!roles.empty()) c.attributes.Set("with", roles);
  return c;
}

void AddAttention(DType f, std::vector<OpCase>& cases) {
  for (const AttentionRow& row : AttentionRows(f)) {
    OpCase forward = AttentionCase(row, f);
    cases.push_back(forward);
    OpCase grad = forward;
    grad.name = "attention_grad/" + row.name;
    grad.op = &AttentionGradOp();
    grad.differentiable = false;
    absl::StatusOr<Types> results = AttentionOp().Infer({forward.operands, forward.attributes});
    CHECK_OK(results.status());
    grad.operands.insert(grad.operands.begin(), (*results)[0]);
    grad.operands.insert(grad.operands.begin() + 4, results->begin(), results->end());
    grad.fills.clear();
    for (const auto& [operand, fill] : forward.fills) grad.fills[operand + 3] = fill;
    grad.prepare = [attributes = forward.attributes](std::vector<HostTensor>& x) {
      std::vector<HostTensor> operands(x.begin() + 1, x.begin() + 4);
      operands.insert(operands.end(), x.begin() + 6, x.end());
      std::vector<HostTensor> y = Forward(AttentionOp(), attributes, operands);
      x[4] = y[0];
      x[5] = y[1];
    };
    cases.push_back(std::move(grad));
  }
}

void AddAttentionMerge(DType f, std::vector<OpCase>& cases) {
  const Type out{WideDType(f), {2, 5, 3, 17}}, lse{WideDType(f), {2, 3, 5}};
  cases.push_back({.name = "attention_merge/plain",
                   .op = &AttentionMergeOp(),
                   .operands = {out, lse, {f, out.dims}, lse},
                   .fills = {{1, Fill::Uniform(-3, 3)}, {3, Fill::Uniform(-3, 3)}},
                   .differentiable = false,
                   .magnitude = 4});
}

}  // namespace

std::vector<OpCase> ModelCases(DType f) {
  std::vector<OpCase> cases;
  AddNorms(f, cases);
  AddRotary(f, cases);
  AddEmbedding(f, cases);
  AddLosses(f, cases);
  AddDropout(f, cases);
  AddAttention(f, cases);
  AddAttentionMerge(f, cases);
  return cases;
}

}  // namespace colossus
