#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensor/ops/chain.h"
#include "tensor/ops/pointwise.h"
#include "tensor/testing/op_cases.h"

namespace colossus {
namespace {

// Dims of the operands; the last is used for those beyond.
struct Shape {
  std::string name;
  std::vector<Dims> dims;
};

const std::vector<Shape>& Shapes() {
  static const auto* const shapes = new std::vector<Shape>{
      {"row", {{67}}},
      {"block", {{3, 17}}},
      {"scalar", {{}}},
      {"empty", {{0, 3}}},
      {"broadcast", {{2, 3, 5}, {3, 1}, {5}}},
      {"widen", {{1, 5}, {4, 2, 1}, {}}},
  };
  return *shapes;
}

// Operand dtypes of an op for float type f.
std::vector<DType> OperandDTypes(absl::string_view name, DType f) {
  for (absl::string_view two : {"add", "sub", "mul", "div", "maximum", "minimum", "equal", "less",
                                "less_equal", "greater", "greater_equal"}) {
    if (name == two) return {f, f};
  }
  if (name == "select") return {DType::kBool, f, f};
  if (name == "logical_not") return {DType::kBool};
  if (absl::StartsWith(name, "logical_")) return {DType::kBool, DType::kBool};
  if (absl::EndsWith(name, "_grad")) return {f, f};
  return {f};
}

OpCase MakeCase(const Op& op, const Shape& shape, const std::vector<DType>& dtypes) {
  OpCase c;
  c.name = absl::StrCat(op.name(), "/", shape.name, "/", Name(dtypes.back()));
  c.op = &op;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    c.operands.push_back({dtypes[i], shape.dims[std::min(i, shape.dims.size() - 1)]});
    // Activations are met on both sides of where they bend; logarithms and divisors are positive.
    bool positive = op.name() == "log" || op.name() == "sqrt" || op.name() == "rsqrt" ||
                    (op.name() == "div" && i == 1);
    int operand = static_cast<int>(i);
    if (IsFloat(dtypes[i])) {
      c.fills[operand] = positive ? Fill::Uniform(0.5, 2) : Fill::Uniform(-3, 3);
    }
  }
  if (op.name() == "scale") c.attributes.Set("factor", -1.75);
  if (op.name() == "add_scalar") c.attributes.Set("value", 0.3);
  c.differentiable = !absl::EndsWith(op.name(), "_grad");
  c.magnitude = 3;
  return c;
}

// Chains that broadcast, convert, and have several results, also before their last operand is read.
std::vector<OpCase> ChainCases(DType f) {
  const DType wide = WideDType(f);
  std::vector<OpCase> cases;
  auto add = [&](absl::string_view name, const Strings& steps, const Ints& results,
                 const Types& operands) {
    OpCase c;
    c.name = absl::StrCat("chain/", name, "/", Name(f));
    c.op = &ChainOp();
    c.attributes = {{"steps", steps}, {"results", results}};
    c.operands = operands;
    c.differentiable = false;
    c.magnitude = 3;
    cases.push_back(std::move(c));
  };
  const std::string widen = absl::StrCat("convert t0 dtype=", Name(wide));
  const std::string narrow = absl::StrCat("convert t2 dtype=", Name(f));
  add("activation", {"add x0 x1", "gelu_tanh t0"}, {0, 1}, {{f, {3, 5, 7}}, {f, {5, 7}}});
  add("residual", {"add x0 x1", widen, "add x2 t1", narrow}, {2, 3},
      {{f, {9, 67}}, {f, {67}}, {wide, {9, 67}}});
  add("early", {"scale x0 factor=0x1.8p+0", "add x1 t0", "sub x2 t1"}, {0, 1, 2},
      {{f, {3, 600}}, {f, {3, 600}}, {f, {3, 600}}});
  add("columns", {"mul x0 x1", "greater t0 x2", "select t1 x0 t0"}, {0, 2},
      {{f, {4, 3, 5}}, {f, {4, 1, 5}}, {f, {3, 1}}});
  add("dropped",
      {"add x0 x1", widen, "dropout t1 x2 x3 rate=0x1p-2 site=h.0/out", "add x4 t2"}, {3},
      {{f, {5, 7, 67}}, {f, {67}}, {DType::kI64, {2}}, {DType::kI64, {}}, {wide, {5, 7, 67}}});
  cases.back().fills = {{2, Fill::Values({7, 3})}, {3, Fill::Values({2})}};
  add("converted", {absl::StrCat("convert x0 dtype=", Name(f)), "add x0 x0"}, {0, 1},
      {{wide, {5, 131}}});
  return cases;
}

}  // namespace

std::vector<OpCase> PointwiseCases(DType f) {
  std::vector<OpCase> cases;
  for (const Op* op : PointwiseOps()) {
    std::vector<DType> dtypes = OperandDTypes(op->name(), f);
    for (const Shape& shape : Shapes()) {
      if (dtypes.size() == 1 && shape.dims.size() > 1) continue;
      cases.push_back(MakeCase(*op, shape, dtypes));
    }
  }
  for (absl::string_view name : {"add", "sub", "mul", "maximum", "minimum", "equal", "less"}) {
    OpCase c = MakeCase(PointwiseOp(name), Shapes()[4], {DType::kI32, DType::kI32});
    c.fills = {{0, Fill::Uniform(-3, 4)}, {1, Fill::Uniform(-3, 4)}};
    cases.push_back(std::move(c));
  }
  for (OpCase& c : ChainCases(f)) cases.push_back(std::move(c));
  return cases;
}

}  // namespace colossus
