#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pack.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/shape.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/stack.h"
#include "tensor/testing/op_cases.h"

namespace colossus {
namespace {

void AddReductions(DType f, std::vector<OpCase>& cases) {
  struct Row {
    std::string name;
    Dims dims;
    Ints reduced;
    bool keep;
  };
  const Row rows[] = {
      {"last", {3, 17}, {1}, false},        {"first", {5, 33}, {0}, false},
      {"all", {3, 4, 5}, {0, 1, 2}, false}, {"middle_kept", {2, 7, 3}, {1}, true},
      {"ends", {3, 2, 5}, {0, 2}, false},   {"ones_kept", {1, 5, 1}, {0, 2}, true},
  };
  for (const Row& row : rows) {
    Attributes attributes{{"dims", row.reduced}, {"keep", row.keep}};
    cases.push_back({.name = "reduce_sum/" + row.name,
                     .op = &ReduceSumOp(),
                     .attributes = attributes,
                     .operands = {{f, row.dims}}});
    cases.push_back({.name = "reduce_max/" + row.name,
                     .op = &ReduceMaxOp(),
                     .attributes = attributes,
                     .operands = {{f, row.dims}}});
  }
  Attributes wide{{"dims", Ints{0}}, {"keep", false}, {"dtype", Name(WideDType(f))}};
  cases.push_back({.name = "reduce_sum/wide",
                   .op = &ReduceSumOp(),
                   .attributes = wide,
                   .operands = {{f, {65, 3}}}});
  cases.push_back({.name = "reduce_sum/i32",
                   .op = &ReduceSumOp(),
                   .attributes = {{"dims", Ints{0}}, {"keep", false}, {"dtype", "i64"}},
                   .operands = {{DType::kI32, {7, 3}}}});
}

void AddMoves(DType f, std::vector<OpCase>& cases) {
  auto add = [&](std::string name, const Op& op, Attributes attributes, Types operands) {
    cases.push_back({.name = std::move(name),
                     .op = &op,
                     .attributes = std::move(attributes),
                     .operands = std::move(operands)});
  };
  add("reshape/split", ReshapeOp(), {{"spec", "b s (h d) -> b s h d"}, {"dims", Ints{2, 5, 4, 3}}},
      {{f, {2, 5, 12}}});
  add("reshape/merge", ReshapeOp(), {{"spec", "b s h d -> (b s) (h d)"}, {"dims", Ints{10, 12}}},
      {{f, {2, 5, 4, 3}}});
  add("reshape/ones", ReshapeOp(), {{"spec", "1 a b -> a 1 b 1"}, {"dims", Ints{4, 1, 3, 1}}},
      {{f, {1, 4, 3}}});
  add("transpose/pair", TransposeOp(), {{"perm", Ints{1, 0}}}, {{f, {5, 33}}});
  add("transpose/heads", TransposeOp(), {{"perm", Ints{0, 2, 1, 3}}}, {{f, {2, 5, 3, 4}}});
  add("transpose/turn", TransposeOp(), {{"perm", Ints{2, 0, 1}}}, {{f, {4, 3, 5}}});
  add("slice/inner", SliceOp(), {{"starts", Ints{0, 2}}, {"limits", Ints{4, 5}}}, {{f, {4, 7}}});
  add("slice/empty", SliceOp(), {{"starts", Ints{1, 0}}, {"limits", Ints{1, 7}}}, {{f, {4, 7}}});
  add("pad/both", PadOp(), {{"low", Ints{0, 1}}, {"high", Ints{0, 3}}, {"value", 0.5}},
      {{f, {4, 7}}});
  add("concat/last", ConcatOp(), {{"dim", 1}}, {{f, {4, 3}}, {f, {4, 1}}, {f, {4, 5}}});
  add("concat/first", ConcatOp(), {{"dim", 0}}, {{f, {2, 5}}, {f, {3, 5}}});
  add("concat/one", ConcatOp(), {{"dim", 0}}, {{f, {2, 5}}});
  add("broadcast/rows", BroadcastOp(), {{"dims", Ints{4, 2, 5}}}, {{f, {2, 1}}});
  add("broadcast/scalar", BroadcastOp(), {{"dims", Ints{3, 5}}}, {{f, {}}});
  add("unstack/middle", UnstackOp(), {{"dim", 1}}, {{f, {4, 3, 5}}});
  add("unpack/dims", UnpackOp(),
      {{"offsets", Ints{0, 12, 12, 20}}, {"ranks", Ints{2, 1, 0, 1}}, {"dims", Ints{3, 4, 0, 5}}},
      {{f, {29}}});
  add("pack/gaps", PackOp(), {{"offsets", Ints{2, 14, 14, 15}}, {"elements", 21}},
      {{f, {3, 4}}, {f, {0, 2}}, {f, {}}, {f, {5}}});
  add("pack/whole", PackOp(), {{"offsets", Ints{0, 6}}, {"elements", 9}}, {{f, {2, 3}}, {f, {3}}});
  add("stack/middle", StackOp(), {{"dim", 1}}, {{f, {4, 5}}, {f, {4, 5}}, {f, {4, 5}}});
}

void AddConstants(DType f, std::vector<OpCase>& cases) {
  auto add = [&](std::string name, const Op& op, Attributes attributes) {
    cases.push_back({.name = std::move(name), .op = &op, .attributes = std::move(attributes)});
  };
  add("constant/splat", ConstantOp(),
      {{"dtype", Name(f)}, {"dims", Ints{3, 5}}, {"floats", Floats{0.3}}});
  add("constant/list", ConstantOp(),
      {{"dtype", Name(f)}, {"dims", Ints{3}}, {"floats", Floats{0.5, -1, 0.3}}});
  add("constant/ints", ConstantOp(),
      {{"dtype", "i64"}, {"dims", Ints{2}}, {"ints", Ints{int64_t{1} << 62, -3}}});
  add("iota/inner", IotaOp(), {{"dtype", Name(f)}, {"dims", Ints{3, 7, 2}}, {"dim", 1}});
  add("iota/start", IotaOp(), {{"dtype", "i32"}, {"dims", Ints{5}}, {"dim", 0}, {"start", 40}});
}

void AddConversions(DType f, std::vector<OpCase>& cases) {
  for (DType to : kAllDTypes) {
    OpCase c{.name = absl::StrCat("convert/to_", Name(to)),
             .op = &ConvertOp(),
             .attributes = {{"dtype", Name(to)}},
             .operands = {{f, {3, 17}}},
             .fills = {{0, Fill::Uniform(0, 100)}}};
    // A rounded function has no differences.
    if (to != f) c.constants = {0};
    cases.push_back(std::move(c));
  }
  cases.push_back({.name = "convert/from_i64",
                   .op = &ConvertOp(),
                   .attributes = {{"dtype", Name(f)}},
                   .operands = {{DType::kI64, {67}}},
                   .fills = {{0, Fill::Uniform(-9, 9)}}});
}

}  // namespace

std::vector<OpCase> ShapeCases(DType f) {
  std::vector<OpCase> cases;
  AddReductions(f, cases);
  AddMoves(f, cases);
  AddConstants(f, cases);
  AddConversions(f, cases);
  for (Dims dims : {Dims{3, 17}, Dims{2, 3, 33}, Dims{5, 1}, Dims{8}}) {
    std::string name = DimsToString(dims);
    cases.push_back({.name = "softmax/" + name,
                     .op = &SoftmaxOp(),
                     .operands = {{f, dims}},
                     .fills = {{0, Fill::Uniform(-4, 4)}}});
    cases.push_back({.name = "softmax_grad/" + name,
                     .op = &SoftmaxGradOp(),
                     .operands = {{f, dims}, {f, dims}},
                     .fills = {{1, Fill::Uniform(0, 0.5)}},
                     .differentiable = false,
                     .magnitude = 4});
  }
  return cases;
}

std::vector<OpCase> MatmulCases(DType f) {
  struct Row {
    std::string name, spec;
    Dims a, b;
  };
  const Row rows[] = {
      {"plain", "m k, k n -> m n", {3, 17}, {17, 5}},
      {"right_transposed", "m k, n k -> m n", {33, 5}, {7, 5}},
      {"left_transposed", "k m, k n -> m n", {19, 3}, {19, 4}},
      {"result_transposed", "m k, k n -> n m", {3, 7}, {7, 5}},
      {"heads", "b s c, c k h d -> b s k h d", {2, 3, 5}, {5, 3, 2, 4}},
      {"merge_heads", "b s h d, h d c -> b s c", {2, 3, 2, 4}, {2, 4, 5}},
      {"weight_gradient", "b s c, b s k -> c k", {2, 7, 5}, {2, 7, 3}},
      {"batched", "b h s d, b h t d -> b h s t", {2, 3, 4, 5}, {2, 3, 7, 5}},
      {"one_row", "m k, k n -> m n", {1, 33}, {33, 65}},
      {"outer", "m, n -> m n", {5}, {7}},
      {"dot", "k, k -> ", {37}, {37}},
  };
  std::vector<OpCase> cases;
  for (const Row& row : rows) {
    OpCase c{.name = "matmul/" + row.name,
             .op = &MatmulOp(),
             .attributes = {{"spec", row.spec}},
             .operands = {{f, row.a}, {f, row.b}},
             .magnitude = 1};
    cases.push_back(c);
    if (f == DType::kF64) continue;
    c.name += "/f32";
    c.attributes.Set("dtype", "f32");
    cases.push_back(c);
  }
  return cases;
}

}  // namespace colossus
