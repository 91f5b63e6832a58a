#include "tensor/testing/run_op.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/graph/builder.h"
#include "tensor/kernels/reference/counted.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

Types TypesOf(const std::vector<HostTensor>& tensors) {
  Types types;
  for (const HostTensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

std::vector<HostTensor> Run(ReferenceFunction function, const Op& op,
                            std::vector<HostTensor> operands, const Attributes& attributes,
                            const Aliases& aliases) {
  Types operand_types = TypesOf(operands);
  absl::StatusOr<Types> result_types = op.Infer({operand_types, attributes});
  CHECK_OK(result_types.status());
  std::vector<HostTensor> results;
  for (const Type& type : *result_types) results.emplace_back(type);
  std::vector<const void*> sources;
  for (HostTensor& operand : operands) sources.push_back(operand.raw());
  std::vector<void*> destinations;
  for (HostTensor& result : results) destinations.push_back(result.raw());
  for (auto [result, operand] : aliases) destinations[result] = operands[operand].raw();
  function(ReferenceCall(attributes, operand_types, *result_types, {sources, destinations}));
  for (auto [result, operand] : aliases) {
    std::memcpy(results[result].raw(), operands[operand].raw(), results[result].type().bytes());
  }
  return results;
}

double Dot(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.type().elements(); ++i) sum += a.Get(i) * b.Get(i);
  return sum;
}

// The gradients of `wanted` for the cotangent dy of result 0.
std::vector<HostTensor> BuiltGradients(const Op& op, const std::vector<HostTensor>& operands,
                                       const Attributes& attributes,
                                       const std::vector<int>& wanted, const HostTensor& dy) {
  GraphBuilder b("gradient");
  HostTensors inputs{{"dy", dy}};
  ValueIds x;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string name = absl::StrCat("x", i);
    x.push_back(b.Feed(name, operands[i].type()));
    inputs[name] = operands[i];
  }
  ValueIds y = b.Apply(op, x, attributes);
  CHECK_OK(b.status());
  ValueIds cotangents(y.size(), kNoValue);
  cotangents[0] = b.Feed("dy", dy.type());
  std::vector<bool> needed(x.size());
  for (int i : wanted) needed[i] = true;
  GradientBuilder gradient(b, attributes, x, y, cotangents, needed,
                           std::vector<bool>(x.size()));
  CHECK_OK(op.Gradient(gradient));
  for (int i : wanted) b.Output(absl::StrCat("dx", i), gradient.dx(i));
  absl::StatusOr<Graph> graph = std::move(b).Build();
  CHECK_OK(graph.status());
  absl::StatusOr<HostTensors> outputs = Interpret(*graph, inputs);
  CHECK_OK(outputs.status());
  std::vector<HostTensor> gradients;
  for (int i : wanted) gradients.push_back(outputs->at(absl::StrCat("dx", i)));
  return gradients;
}

std::vector<double> Differences(const Op& op, std::vector<HostTensor> operands,
                                const Attributes& attributes, int i, const HostTensor& dy) {
  constexpr double kStep = 1e-5;
  std::vector<double> differences;
  for (int64_t n = 0; n < operands[i].type().elements(); ++n) {
    double value = operands[i].Get(n);
    operands[i].Set(n, value + kStep);
    double above = Dot(RunOp(op, operands, attributes)[0], dy);
    operands[i].Set(n, value - kStep);
    double below = Dot(RunOp(op, operands, attributes)[0], dy);
    operands[i].Set(n, value);
    differences.push_back((above - below) / (2 * kStep));
  }
  return differences;
}

}  // namespace

absl::StatusOr<Types> InferOp(const Op& op, const Types& operands, const Attributes& attributes) {
  return op.Infer({operands, attributes});
}

std::vector<HostTensor> RunOp(const Op& op, const std::vector<HostTensor>& operands,
                              const Attributes& attributes) {
  return Run(FindReference(op.name())->run, op, operands, attributes, {});
}

HostTensor RandomTensor(DType dtype, Dims dims, std::mt19937_64& random) {
  HostTensor tensor(Type{dtype, std::move(dims)});
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < tensor.type().elements(); ++i) tensor.Set(i, normal(random));
  return tensor;
}

void ExpectGradient(const Op& op, const std::vector<HostTensor>& operands,
                    const Attributes& attributes, const std::vector<int>& wanted) {
  std::mt19937_64 random(TestSeed());
  Type result = RunOp(op, operands, attributes)[0].type();
  HostTensor dy = RandomTensor(result.dtype, result.dims, random);
  std::vector<HostTensor> built = BuiltGradients(op, operands, attributes, wanted, dy);
  for (size_t k = 0; k < wanted.size(); ++k) {
    EXPECT_EQ(built[k].type().dtype, DType::kF64);
    EXPECT_TRUE(TensorNear(built[k].ToDoubles(),
                           Differences(op, operands, attributes, wanted[k], dy),
                           {.absolute = 1e-9, .relative_to_max = 1e-7}))
        << op.name() << ": gradient of operand " << wanted[k];
  }
}

void ExpectFlops(const Op& op, const std::vector<HostTensor>& operands,
                 const Attributes& attributes) {
  CountedOperations() = 0;
  Run(FindReference(op.name())->count, op, operands, attributes, {});
  Types types = TypesOf(operands);
  EXPECT_EQ(op.CostOf({types, attributes}).flops, static_cast<double>(CountedOperations()))
      << op.name() << " " << attributes.ToString();
}

void ExpectAliasesHarmless(const Op& op, const std::vector<HostTensor>& operands,
                           const Attributes& attributes) {
  std::vector<HostTensor> expected = RunOp(op, operands, attributes);
  Types types = TypesOf(operands);
  Aliases aliases = op.MayAlias({types, attributes});
  EXPECT_FALSE(aliases.empty()) << op.name();
  std::vector<HostTensor> actual =
      Run(FindReference(op.name())->run, op, operands, attributes, aliases);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(actual[i] == expected[i]) << op.name() << ": result " << i << " when aliased";
  }
}

}  // namespace colossus
