#include "tensor/testing/op_conformance.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/testing/tensor_near.h"
#include "tensor/graph/builder.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/factor_rule.h"
#include "tensor/ops/gradient_builder.h"
#include "tensor/testing/case_run.h"

namespace colossus {
namespace {

absl::StatusOr<Types> InferCase(const OpCase& c) {
  absl::StatusOr<Types> types = c.op->Infer({c.operands, c.attributes});
  if (types.ok()) return types;
  return Fails(c, "infer", types.status().ToString());
}

// The reference as a kernel for these operand and result types.
std::function<void(const KernelArgs&)> AsKernel(const OpCase& c, const Reference& reference,
                                                const Types& results) {
  return [&c, reference, &results](const KernelArgs& args) {
    reference.run(ReferenceCall(c.attributes, c.operands, results, args));
  };
}

// A graph of the op and its gradient. The weights are the cotangents of the float results.
struct GradientGraph {
  Graph graph;
  std::vector<bool> has_dx;  // per operand
};

bool HasWeight(const OpCase& c, const Type& result, int r) {
  return IsFloat(result.dtype) && !c.unused_results.count(r);
}

// `parameters`: every operand counts as the start value of a state.
absl::StatusOr<GradientGraph> BuildGradient(const OpCase& c, bool parameters) {
  GraphBuilder b("gradient");
  ValueIds x, dy;
  std::vector<bool> needed;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    x.push_back(b.Feed(absl::StrCat("x", i), c.operands[i]));
    needed.push_back(IsFloat(c.operands[i].dtype) && !c.constants.count(static_cast<int>(i)));
  }
  ValueIds y = b.Apply(*c.op, x, c.attributes);
  RETURN_IF_ERROR(b.status());
  for (size_t r = 0; r < y.size(); ++r) {
    int index = static_cast<int>(r);
    auto given = c.given_cotangents.find(index);
    if (given != c.given_cotangents.end())
      dy.push_back(x[given->second]);
    else if (!HasWeight(c, b.type(y[r]), index))
      dy.push_back(kNoValue);
    else
      dy.push_back(b.Feed(absl::StrCat("w", r), b.type(y[r])));
  }
  GradientBuilder gradient(b, c.attributes, x, y, dy, needed,
                           std::vector<bool>(x.size(), parameters));
  RETURN_IF_ERROR(c.op->Gradient(gradient));
  RETURN_IF_ERROR(b.status());
  GradientGraph result;
  for (size_t i = 0; i < x.size(); ++i) {
    ValueId dx = gradient.dx(static_cast<int>(i));
    result.has_dx.push_back(dx != kNoValue);
    if (dx != kNoValue) b.Output(absl::StrCat("dx", i), dx);
  }
  ASSIGN_OR_RETURN(result.graph, std::move(b).Build());
  return result;
}

// Weights of the results in the scalar that is differentiated, in (-1, 1) and never 0.
HostTensor Weights(const Type& type, int result) {
  HostTensor w(type);
  for (int64_t i = 0; i < type.elements(); ++i) {
    w.Set(i, std::sin(1.0 + 0.7 * static_cast<double>(i) + 1.3 * result));
  }
  return w;
}

// Sum over results of weight * result.
double Objective(const OpCase& c, const Reference& reference, const Types& types,
                 const std::vector<HostTensor>& operands, const std::vector<HostTensor>& weights) {
  std::vector<HostTensor> y = RunReference(reference, c.attributes, operands, types);
  double sum = 0;
  for (size_t r = 0; r < y.size(); ++r) {
    auto given = c.given_cotangents.find(static_cast<int>(r));
    if (given == c.given_cotangents.end() && !HasWeight(c, types[r], static_cast<int>(r))) continue;
    for (int64_t i = 0; i < types[r].elements(); ++i) sum += weights[r].Get(i) * y[r].Get(i);
  }
  return sum;
}

// Step 2^-14 in fp64: central differences leave step^2 / 6 = 6e-10 of the third derivative, and
// 2^-53 * |sum| / step = 2e-12 |sum| of rounding; with sums and derivatives of up to 100 both stay
// below 1e-7 of the largest gradient element or of 1.
constexpr double kStep = 0x1p-14;
constexpr Limit kGradientLimit{.absolute = 1e-7, .relative_to_max = 1e-7};

absl::Status CheckDifferences(const OpCase& c, int operand, const HostTensor& dx,
                              const std::function<double(const std::vector<HostTensor>&)>& f) {
  std::vector<HostTensor> operands = MakeOperands(c);
  HostTensor& x = operands[operand];
  // Large operands: every n-th element.
  int64_t stride = 1 + x.type().elements() / 64;
  std::vector<double> actual, expected;
  for (int64_t i = 0; i < x.type().elements(); i += stride) {
    double value = x.Get(i);
    x.Set(i, value + kStep);
    double above = f(operands);
    x.Set(i, value - kStep);
    double below = f(operands);
    x.Set(i, value);
    expected.push_back((above - below) / (2 * kStep));
    actual.push_back(dx.Get(i));
  }
  NearReport report = CompareTensors(actual, expected, kGradientLimit);
  if (report.ok) return absl::OkStatus();
  return Fails(c, "gradient", absl::StrCat("operand ", operand, ": ", report.text));
}

absl::Status CheckGradientValues(const OpCase& c, const Types& types) {
  absl::StatusOr<GradientGraph> built = BuildGradient(c, false);
  if (!built.ok()) return Fails(c, "gradient", built.status().ToString());
  ASSIGN_OR_RETURN(Reference reference, ReferenceOf(c));
  std::vector<HostTensor> operands = MakeOperands(c), weights;
  HostTensors inputs;
  for (size_t i = 0; i < operands.size(); ++i) inputs[absl::StrCat("x", i)] = operands[i];
  for (size_t r = 0; r < types.size(); ++r) {
    auto given = c.given_cotangents.find(static_cast<int>(r));
    weights.push_back(given != c.given_cotangents.end() ? operands[given->second]
                                                        : Weights(types[r], static_cast<int>(r)));
    inputs[absl::StrCat("w", r)] = weights.back();
  }
  absl::StatusOr<HostTensors> out = Interpret(built->graph, inputs);
  if (!out.ok()) return Fails(c, "gradient", out.status().ToString());
  auto f = [&](const std::vector<HostTensor>& x) {
    return Objective(c, reference, types, x, weights);
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    bool wanted = IsFloat(c.operands[i].dtype) && !c.constants.count(static_cast<int>(i));
    if (wanted && !built->has_dx[i]) {
      return Fails(c, "gradient", absl::StrCat("operand ", i, " got no cotangent"));
    }
    if (!wanted) continue;
    RETURN_IF_ERROR(CheckDifferences(c, static_cast<int>(i), out->at(absl::StrCat("dx", i)), f));
  }
  return absl::OkStatus();
}

bool AnyFloat(const Types& types) {
  return std::any_of(types.begin(), types.end(), [](const Type& t) { return IsFloat(t.dtype); });
}

bool HasF64(const OpCase& c) {
  return std::any_of(c.operands.begin(), c.operands.end(),
                     [](const Type& t) { return t.dtype == DType::kF64; });
}

// The part of a tensor along the dims made of `factor`, or all of it.
struct Box {
  Dims origin, extent;
};

Box BoxOf(const FactorRule& rule, const ValueFactors& dims, const Type& whole,
          absl::Span<const FactorPart> parts) {
  Box box{Dims(whole.dims.size(), 0), whole.dims};
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].empty()) continue;
    FactorPart range = PartOfDim(rule, dims[d], parts);
    box.origin[d] = range.origin;
    box.extent[d] = range.extent;
  }
  return box;
}

HostTensor Cut(const HostTensor& whole, const Box& box) {
  HostTensor part(Type{whole.type().dtype, box.extent});
  int64_t at = 0;
  ForEachIndex(box.extent, [&](const Dims& index) {
    Dims source = index;
    for (size_t d = 0; d < index.size(); ++d) source[d] += box.origin[d];
    part.Set(at++, whole.Get(OffsetOf(source, whole.type().dims)));
  });
  return part;
}

// Adds the part into the whole, which starts as zeros: places it where the parts do not overlap.
void AddInto(std::vector<double>& whole, const Dims& dims, const HostTensor& part, const Box& box) {
  int64_t at = 0;
  ForEachIndex(box.extent, [&](const Dims& index) {
    Dims target = index;
    for (size_t d = 0; d < index.size(); ++d) target[d] += box.origin[d];
    whole[OffsetOf(target, dims)] += part.Get(at++);
  });
}

// Whether `factor` is the major one of every dim that it is in.
bool IsMajorEverywhere(const FactorRule& rule, int factor) {
  for (const std::vector<ValueFactors>* side : {&rule.operands, &rule.results}) {
    for (const ValueFactors& value : *side) {
      for (const DimFactors& dim : value) {
        auto at = std::find(dim.begin(), dim.end(), factor);
        if (at != dim.end() && at != dim.begin()) return false;
      }
    }
  }
  return true;
}

// Runs the op in parts of `sizes` along one factor and compares with the whole.
absl::Status CheckSplit(const OpCase& c, const FactorRule& rule, int factor,
                        const std::vector<int64_t>& sizes, const std::vector<HostTensor>& whole) {
  ASSIGN_OR_RETURN(Reference reference, ReferenceOf(c));
  std::vector<HostTensor> operands = MakeOperands(c);
  std::string what = absl::StrCat("factor '", rule.factors[factor].label, "' of '", rule.ToString(),
                                  "' in ", sizes.size(), " parts: ");
  std::vector<std::vector<double>> sums;
  for (const HostTensor& y : whole) sums.emplace_back(y.type().elements(), 0.0);
  int64_t origin = 0;
  for (int64_t size : sizes) {
    std::vector<FactorPart> parts;
    for (const Factor& f : rule.factors) parts.push_back({0, f.extent});
    parts[factor] = {origin, size};
    origin += size;
    absl::StatusOr<Attributes> local = c.op->Localize({c.operands, c.attributes}, parts);
    if (!local.ok()) return Fails(c, "factors", what + local.status().ToString());
    std::vector<HostTensor> x;
    for (size_t i = 0; i < operands.size(); ++i) {
      x.push_back(Cut(operands[i], BoxOf(rule, rule.operands[i], operands[i].type(), parts)));
    }
    Types types = TypesOf(x);
    absl::StatusOr<Types> results = c.op->Infer({types, *local});
    if (!results.ok()) return Fails(c, "factors", what + results.status().ToString());
    std::vector<HostTensor> y = RunReference(reference, *local, x, *results);
    for (size_t r = 0; r < y.size(); ++r) {
      Box box = BoxOf(rule, rule.results[r], whole[r].type(), parts);
      if (y[r].type().dims != box.extent) {
        return Fails(c, "factors",
                     absl::StrCat(what, "result ", r, " of a part is ", ToString(y[r].type())));
      }
      AddInto(sums[r], whole[r].type().dims, y[r], box);
    }
  }
  // Sums of parts differ from the whole by the order of fewer than 1000 additions in fp64.
  for (size_t r = 0; r < whole.size(); ++r) {
    NearReport report = CompareTensors(sums[r], whole[r].ToDoubles(),
                                       {.absolute = 1e-13, .relative_to_max = 1e-13});
    if (!report.ok) return Fails(c, "factors", absl::StrCat(what, "result ", r, ": ", report.text));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInference(const OpCase& c) {
  ASSIGN_OR_RETURN(Types types, InferCase(c));
  ASSIGN_OR_RETURN(Reference reference, ReferenceOf(c));
  std::vector<HostTensor> operands = MakeOperands(c);
  std::vector<HostTensor> runs[2];
  for (int i : {0, 1}) {
    absl::StatusOr<std::vector<HostTensor>> y =
        RunGuarded(AsKernel(c, reference, types), operands, types,
                   {.garbage = static_cast<uint8_t>(i == 0 ? 0xa5 : 0x3c)});
    if (!y.ok()) return Fails(c, "infer", y.status().message());
    runs[i] = *std::move(y);
  }
  int unwritten = FirstDifferent(runs[0], runs[1]);
  if (unwritten >= 0)
    return Fails(c, "infer", absl::StrCat("result ", unwritten, " is not written"));
  for (size_t r = 0; r < types.size(); ++r) {
    for (double value : runs[0][r].ToDoubles()) {
      if (!std::isfinite(value))
        return Fails(c, "infer", absl::StrCat("result ", r, " is ", value));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGradient(const OpCase& c) {
  ASSIGN_OR_RETURN(Types types, InferCase(c));
  if (!AnyFloat(types) || !AnyFloat(c.operands)) return absl::OkStatus();
  // In Gradient() a cotangent of another type than promised is a failed CHECK.
  absl::StatusOr<GradientGraph> built = BuildGradient(c, true);
  if (!c.differentiable) {
    if (!built.ok()) return absl::OkStatus();
    return Fails(c, "gradient", "the op has a gradient that the case denies");
  }
  if (!built.ok()) return Fails(c, "gradient", built.status().ToString());
  return HasF64(c) ? CheckGradientValues(c, types) : absl::OkStatus();
}

absl::Status CheckFactors(const OpCase& c) {
  ASSIGN_OR_RETURN(Types types, InferCase(c));
  ASSIGN_OR_RETURN(Reference reference, ReferenceOf(c));
  FactorRule rule = c.op->Factors({c.operands, c.attributes});
  absl::Status bound = rule.Bind(c.operands, types);
  if (!bound.ok()) return Fails(c, "factors", bound.ToString());
  std::vector<HostTensor> whole = RunReference(reference, c.attributes, MakeOperands(c), types);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    int index = static_cast<int>(f);
    if (factor.kind == FactorKind::kWhole || factor.kind == FactorKind::kExpand ||
        c.unsplit.count(factor.label) || !IsMajorEverywhere(rule, index)) {
      continue;
    }
    int64_t n = factor.extent;
    std::vector<std::vector<int64_t>> splits;
    if (n >= 2) splits = {{n - n / 2, n / 2}, {1, n - 1}};
    if (n >= 3) splits.push_back({n - n / 3 - n / 3, n / 3, n / 3});
    for (const std::vector<int64_t>& sizes : splits) {
      RETURN_IF_ERROR(CheckSplit(c, rule, index, sizes, whole));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFlops(const OpCase& c) {
  ASSIGN_OR_RETURN(Types types, InferCase(c));
  ASSIGN_OR_RETURN(Reference reference, ReferenceOf(c));
  Reference counting = reference;
  counting.run = reference.count;
  CountedOperations() = 0;
  RunReference(counting, c.attributes, MakeOperands(c), types);
  double counted = static_cast<double>(CountedOperations());
  Cost cost = c.op->CostOf({c.operands, c.attributes});
  if (counted < c.flops_low * cost.flops || counted > c.flops_high * cost.flops) {
    return Fails(c, "flops", absl::StrCat("CostOf says ", cost.flops, ", counted ", counted));
  }
  return cost.bytes >= 0 ? absl::OkStatus() : Fails(c, "flops", "bytes are negative");
}

absl::Status CheckAliases(const OpCase& c) {
  ASSIGN_OR_RETURN(Types types, InferCase(c));
  ASSIGN_OR_RETURN(Reference reference, ReferenceOf(c));
  std::vector<HostTensor> operands = MakeOperands(c);
  std::vector<HostTensor> apart = RunReference(reference, c.attributes, operands, types);
  for (auto [result, operand] : c.op->MayAlias({c.operands, c.attributes})) {
    std::string what = absl::StrCat("result ", result, " over operand ", operand);
    if (types[result].bytes() > c.operands[operand].bytes()) {
      return Fails(c, "aliases", what + " does not fit");
    }
    absl::StatusOr<std::vector<HostTensor>> y =
        RunGuarded(AsKernel(c, reference, types), operands, types,
                   {.alias_result = result, .alias_operand = operand});
    if (!y.ok()) return Fails(c, "aliases", absl::StrCat(what, ": ", y.status().ToString()));
    int different = FirstDifferent(*y, apart);
    if (different >= 0) {
      return Fails(c, "aliases", absl::StrCat(what, ": result ", different, " differs"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOp(const OpCase& c) {
  RETURN_IF_ERROR(CheckInference(c));
  RETURN_IF_ERROR(CheckGradient(c));
  RETURN_IF_ERROR(CheckFlops(c));
  RETURN_IF_ERROR(CheckAliases(c));
  return HasF64(c) || !AnyFloat(c.operands) ? CheckFactors(c) : absl::OkStatus();
}

}  // namespace colossus
