#include "tensor/kernels/reference/interpreter.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace colossus {
namespace {

absl::Status RunNode(const Graph& graph, const Node& node, KernelList kernels,
                     std::vector<HostTensor>& values) {
  Types operands = graph.OperandTypes(node), results = graph.ResultTypes(node);
  ASSIGN_OR_RETURN(PlannedKernel kernel,
                   PlanKernel(kernels, {node.op, &node.attributes, operands, results, 1}));
  std::vector<const void*> x;
  std::vector<void*> y;
  for (ValueId v : node.operands) x.push_back(values[v].raw());
  for (ValueId v : node.results) {
    values[v] = HostTensor(graph.value(v).type);
    y.push_back(values[v].raw());
  }
  HostTensor workspace(Type{DType::kU8, {kernel.workspace_bytes}});
  return RunKernel(kernel, {x, y, workspace.raw()});
}

absl::StatusOr<std::vector<HostTensor>> RunGraph(const Graph& graph, const HostTensors& inputs,
                                                 KernelList kernels) {
  std::vector<HostTensor> values(graph.values().size());
  for (size_t v = 0; v < values.size(); ++v) {
    const Value& value = graph.values()[v];
    if (value.producer != kNoNode) continue;
    auto input = inputs.find(value.name);
    if (input == inputs.end() || input->second.type() != value.type) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", value.name, "' of type ", ToString(value.type), " is ",
          input == inputs.end() ? "missing" : ToString(input->second.type())));
    }
    values[v] = input->second;
  }
  for (const Node& node : graph.nodes()) RETURN_IF_ERROR(RunNode(graph, node, kernels, values));
  return values;
}

}  // namespace

absl::StatusOr<HostTensors> Interpret(const Graph& graph, const HostTensors& inputs,
                                      KernelList kernels) {
  ASSIGN_OR_RETURN(std::vector<HostTensor> values, RunGraph(graph, inputs, kernels));
  HostTensors out;
  for (const Output& output : graph.outputs()) out[output.name] = values[output.value];
  for (const State& state : graph.states()) out[state.info.name] = values[state.out];
  return out;
}

absl::StatusOr<HostTensors> InterpretAll(const Graph& graph, const HostTensors& inputs,
                                         KernelList kernels) {
  ASSIGN_OR_RETURN(std::vector<HostTensor> values, RunGraph(graph, inputs, kernels));
  HostTensors out;
  for (size_t v = 0; v < values.size(); ++v) {
    out[graph.values()[v].name] = std::move(values[v]);
  }
  return out;
}

}  // namespace colossus
