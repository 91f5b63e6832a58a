#include "tests/gate/gate_graph.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

double LossOf(const Graph& graph, const HostTensors& inputs) {
  absl::StatusOr<HostTensors> out = Interpret(graph, inputs);
  CHECK_OK(out.status());
  return out->at("loss").Get(0);
}

}  // namespace

absl::StatusOr<Graph> ReadGateGraph(absl::string_view name) {
  std::string path = absl::StrCat("tests/gate/", name, ".graph");
  ASSIGN_OR_RETURN(std::string text, RealFileSystem().ReadFile(path));
  ASSIGN_OR_RETURN(Graph graph, ParseGraph(text));
  RETURN_IF_ERROR(Verify(graph));
  std::string printed = ToText(graph);
  ASSIGN_OR_RETURN(Graph again, ParseGraph(printed));
  if (ToText(again) != printed) return absl::InternalError(absl::StrCat(path, " changes"));
  return graph;
}

HostTensors RandomParameters(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensors values;
  for (const State& state : graph.states()) {
    if (state.info.role != Role::kParameter) continue;
    const Type& type = graph.value(state.in).type;
    values[state.info.name] = RandomTensor(type.dtype, type.dims, random);
  }
  return values;
}

HostTensor ScalarF64(double value) {
  HostTensor scalar(Type{DType::kF64, {}});
  scalar.Set(0, value);
  return scalar;
}

// Differences with step 1e-5 have errors of step^2 and of 1e-16 / step, both near 1e-10, times
// third derivatives that may reach a thousand.
void ExpectGradientsOfLoss(const Graph& forward, const Differentiated& differentiated,
                           const HostTensors& inputs) {
  constexpr double kStep = 1e-5;
  absl::StatusOr<HostTensors> out = Interpret(differentiated.graph, inputs);
  ASSERT_TRUE(out.ok()) << out.status();
  HostTensors moved = inputs;
  const double seed = inputs.at("seed").Get(0);
  for (const ParameterGradients& gradients : differentiated.parameters) {
    HostTensor& parameter = moved.at(gradients.state);
    std::vector<double> built(parameter.type().elements()), differences;
    for (const std::string& use : gradients.outputs) {
      std::vector<double> values = out->at(use).ToDoubles();
      for (size_t i = 0; i < built.size(); ++i) built[i] += values[i];
    }
    for (int64_t i = 0; i < parameter.type().elements(); ++i) {
      const double value = parameter.Get(i);
      parameter.Set(i, value + kStep);
      const double above = LossOf(forward, moved);
      parameter.Set(i, value - kStep);
      const double below = LossOf(forward, moved);
      parameter.Set(i, value);
      differences.push_back(seed * (above - below) / (2 * kStep));
    }
    EXPECT_TRUE(TensorNear(built, differences, {.absolute = 1e-7, .relative_to_max = 1e-6}))
        << gradients.state;
  }
}

}  // namespace colossus
