#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensor/ops/cache_append.h"
#include "tensor/ops/element_segments.h"
#include "tensor/ops/experts.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/sum_squares.h"
#include "tensor/ops/topk.h"
#include "tensor/testing/op_cases.h"

namespace colossus {
namespace {

// adamw and sgd of several parameters, every second one decayed.
void AddSeveral(const std::string& kind, DType f, const std::vector<Dims>& parameters,
                Attributes adamw, Attributes sgd, std::vector<OpCase>& cases) {
  const DType s = WideDType(f);
  OpCase a{.name = "adamw/" + kind, .op = &AdamwOp(), .differentiable = false};
  OpCase b{.name = "sgd/" + kind, .op = &SgdOp(), .differentiable = false};
  Floats decay;
  for (const Dims& dims : parameters) {
    a.fills[static_cast<int>(a.operands.size()) + 3] = Fill::Uniform(0.1, 1);
    a.operands.insert(a.operands.end(), {{s, dims}, {f, dims}, {s, dims}, {s, dims}});
    b.operands.insert(b.operands.end(), {{s, dims}, {f, dims}, {s, dims}});
    decay.push_back(decay.size() % 2 == 0 ? 0.1 : 0);
  }
  for (double value : {1e-3, 0.5, 0.271, 0.1426}) {
    a.fills[static_cast<int>(a.operands.size())] = Fill::Values({value});
    a.operands.push_back({s, {}});
  }
  for (double value : {1e-2, 0.5}) {
    b.fills[static_cast<int>(b.operands.size())] = Fill::Values({value});
    b.operands.push_back({s, {}});
  }
  adamw.Set("weight_decay", decay);
  sgd.Set("weight_decay", decay);
  a.attributes = std::move(adamw);
  b.attributes = std::move(sgd);
  cases.push_back(std::move(a));
  cases.push_back(std::move(b));
}

// Moments in bf16: of two parts of a tensor and something that is in none.
void AddNarrowMoments(DType f, std::vector<OpCase>& cases) {
  if (f == DType::kF64) return;
  const Type state{DType::kF32, {4, 50}}, grad{f, {4, 50}}, moment{DType::kBF16, {4, 50}};
  const Type scalar{DType::kF32, {}}, key{DType::kI64, {2}};
  const std::vector<ElementSegment> segments = {
      {.site = "w", .at = 1, .count = 90, .first = 5, .dims = {10, 10}, .origin = {3, 20},
       .global = {20, 40}},
      {.site = "b", .at = 100, .count = 100, .dims = {100}, .origin = {0}, .global = {100}}};
  OpCase adamw{.name = "adamw/narrow_moments", .op = &AdamwOp(), .differentiable = false};
  adamw.attributes = {
      {"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", Floats{0.1}},
      {"moments", "bf16"}};
  SetSegments(adamw.attributes, segments);
  adamw.operands = {state, grad, moment, moment, scalar, scalar, scalar, scalar, key};
  adamw.fills = {{3, Fill::Uniform(0.1, 1)},   {4, Fill::Values({1e-3})},
                 {5, Fill::Values({0.5})},     {6, Fill::Values({0.271})},
                 {7, Fill::Values({0.1426})}, {8, Fill::Values({7, 3})}};
  cases.push_back(std::move(adamw));
  OpCase sgd{.name = "sgd/narrow_moments", .op = &SgdOp(), .differentiable = false};
  sgd.attributes = {{"momentum", 0.9}, {"weight_decay", Floats{0.1}}, {"moments", "bf16"}};
  SetSegments(sgd.attributes, segments);
  sgd.operands = {state, grad, moment, scalar, scalar, key};
  sgd.fills = {{3, Fill::Values({1e-2})}, {4, Fill::Values({0.5})}, {5, Fill::Values({7, 3})}};
  cases.push_back(std::move(sgd));
}

void AddUpdates(DType f, std::vector<OpCase>& cases) {
  DType s = WideDType(f);
  Attributes adamw{
      {"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", Floats{0.1}}};
  Attributes sgd{{"momentum", 0.9}, {"weight_decay", Floats{0.1}}};
  for (bool copy : {false, true}) {
    if (copy) adamw.Set("compute", Name(f));
    if (copy) sgd.Set("compute", Name(f));
    std::string kind = copy ? "copy" : "plain";
    cases.push_back({.name = "adamw/" + kind,
                     .op = &AdamwOp(),
                     .attributes = adamw,
                     .operands = {{s, {3, 67}},
                                  {f, {3, 67}},
                                  {s, {3, 67}},
                                  {s, {3, 67}},
                                  {s, {}},
                                  {s, {}},
                                  {s, {}},
                                  {s, {}}},
                     .fills = {{3, Fill::Uniform(0.1, 1)},
                               {4, Fill::Values({1e-3})},
                               {5, Fill::Values({0.5})},
                               {6, Fill::Values({0.271})},
                               {7, Fill::Values({0.1426})}},
                     .differentiable = false});
    cases.push_back({.name = "sgd/" + kind,
                     .op = &SgdOp(),
                     .attributes = sgd,
                     .operands = {{s, {201}}, {f, {201}}, {s, {201}}, {s, {}}, {s, {}}},
                     .fills = {{3, Fill::Values({1e-2})}, {4, Fill::Values({0.5})}},
                     .differentiable = false});
    // Of different dims, ends of blocks among them; and of the same, which can be split.
    AddSeveral("several_" + kind, f, {{3, 67}, {0}, {}, {1023}, {1}, {2, 5, 103}}, adamw, sgd,
               cases);
    AddSeveral("alike_" + kind, f, {{5, 7}, {5, 7}, {5, 7}}, adamw, sgd, cases);
  }
  AddNarrowMoments(f, cases);
  cases.push_back({.name = "sum_squares/one",
                   .op = &SumSquaresOp(),
                   .operands = {{f, {3, 17}}},
                   .differentiable = false,
                   // A cut off a block border adds up in blocks of its own.
                   .flops_low = 0.5});
  cases.push_back({.name = "sum_squares/several",
                   .op = &SumSquaresOp(),
                   .operands = {{f, {1025}}, {s, {2, 5}}, {f, {}}},
                   .differentiable = false});
  cases.push_back({.name = "sum_squares/continued",
                   .op = &SumSquaresOp(),
                   .attributes = {{"continues", true}},
                   .operands = {{DType::kF64, {}}, {f, {1025}}, {s, {2, 5}}},
                   .fills = {{0, Fill::Values({3.125})}},
                   .differentiable = false});
}

void AddExperts(DType f, std::vector<OpCase>& cases) {
  const DType i32 = DType::kI32;
  Fill order = Fill::Values({3, 0, 5, 1, 7, 2, 4, 6});
  cases.push_back(
      {.name = "topk/two", .op = &TopkOp(), .attributes = {{"k", 2}}, .operands = {{f, {5, 7}}}});
  cases.push_back({.name = "topk_grad/two",
                   .op = &TopkGradOp(),
                   .attributes = {{"entries", 7}},
                   .operands = {{f, {3, 2}}, {i32, {3, 2}}},
                   .fills = {{1, Fill::Values({4, 1, 0, 6, 2, 3})}},
                   .differentiable = false});
  cases.push_back({.name = "dispatch/two",
                   .op = &DispatchOp(),
                   .attributes = {{"experts", 3}},
                   .operands = {{f, {4, 5}}, {i32, {4, 2}}},
                   .fills = {{1, Fill::Values({2, 0, 0, 1, 2, 1, 0, 2})}}});
  cases.push_back({.name = "dispatch_grad/two",
                   .op = &DispatchGradOp(),
                   .attributes = {{"tokens", 4}, {"slots", 2}},
                   .operands = {{f, {8, 5}}, {i32, {8}}},
                   .fills = {{1, order}},
                   .differentiable = false});
  cases.push_back({.name = "combine/two",
                   .op = &CombineOp(),
                   .operands = {{f, {8, 5}}, {i32, {8}}, {f, {4, 2}}},
                   .fills = {{1, order}}});
  cases.push_back({.name = "combine_grad/two",
                   .op = &CombineGradOp(),
                   .operands = {{f, {4, 5}}, {f, {8, 5}}, {i32, {8}}, {f, {4, 2}}},
                   .fills = {{2, order}},
                   .differentiable = false});
  // The last row belongs to no expert, the second expert has no row.
  Fill counts = Fill::Values({3, 0, 4});
  cases.push_back({.name = "grouped_matmul/plain",
                   .op = &GroupedMatmulOp(),
                   .operands = {{f, {8, 5}}, {f, {3, 5, 7}}, {i32, {3}}},
                   .fills = {{2, counts}},
                   .flops_low = 0.8});
  cases.push_back({.name = "grouped_matmul/transposed",
                   .op = &GroupedMatmulOp(),
                   .attributes = {{"transpose", true}},
                   .operands = {{f, {8, 5}}, {f, {3, 7, 5}}, {i32, {3}}},
                   .fills = {{2, counts}},
                   .flops_low = 0.8});
  cases.push_back({.name = "grouped_matmul_grad_w/plain",
                   .op = &GroupedMatmulGradWOp(),
                   .operands = {{f, {8, 5}}, {f, {8, 7}}, {i32, {3}}},
                   .fills = {{2, counts}},
                   .differentiable = false,
                   .flops_low = 0.8});
}

}  // namespace

std::vector<OpCase> TrainingCases(DType f) {
  std::vector<OpCase> cases;
  AddUpdates(f, cases);
  AddExperts(f, cases);
  cases.push_back({.name = "cache_append/part_dropped",
                   .op = &CacheAppendOp(),
                   .operands = {{f, {2, 7, 2, 3}}, {f, {2, 3, 2, 3}}, {DType::kI32, {2}}},
                   .fills = {{2, Fill::Values({1, 5})}},
                   .differentiable = false});
  return cases;
}

}  // namespace colossus
