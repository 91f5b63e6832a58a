#include "tensor/exec/executable.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/ops/collective.h"

namespace colossus {
namespace {

std::vector<int64_t> InBytes(std::vector<int64_t> elements, DType dtype) {
  for (int64_t& n : elements) n *= SizeOf(dtype);
  return elements;
}

void PlanForHost(const Node& node, const OpCall& call, const Types& results,
                 const HostKernels& host, CompiledNode& compiled) {
  absl::StatusOr<std::shared_ptr<const PlannedKernel>> kernel =
      host.cache->Plan(node, Types(call.operands.begin(), call.operands.end()), results);
  if (!kernel.ok()) return;
  compiled.host_kernel = *std::move(kernel);
  compiled.host_seconds = compiled.host_kernel->seconds.value_or(
      OpSeconds(host.rates, node.op->CostOf(call), call.operands));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PlannedKernel>> KernelCache::Plan(const Node& node,
                                                                       const Types& operands,
                                                                       const Types& results) {
  std::string key = absl::StrCat(node.op->name(), node.attributes.ToString());
  for (const Type& type : operands) absl::StrAppend(&key, " ", ToString(type));
  absl::StrAppend(&key, " ->");
  for (const Type& type : results) absl::StrAppend(&key, " ", ToString(type));
  auto found = planned_.find(key);
  if (found != planned_.end()) return found->second;
  ASSIGN_OR_RETURN(PlannedKernel kernel,
                   PlanKernel(kernels_, {node.op, &node.attributes, operands, results, threads_}));
  auto shared = std::make_shared<const PlannedKernel>(std::move(kernel));
  planned_.emplace(std::move(key), shared);
  return shared;
}

absl::StatusOr<Executable> Compile(const Segment& segment, KernelCache& cache,
                                   const DeviceRates& rates, KernelCache* link,
                                   const HostKernels& host) {
  Executable executable;
  executable.name = segment.name;
  executable.graph = segment.graph;
  const Graph& graph = *segment.graph;
  for (const Node& node : graph.nodes()) {
    Types operands = graph.OperandTypes(node), results = graph.ResultTypes(node);
    OpCall call{operands, node.attributes};
    CompiledNode compiled;
    if (!node.op->IsView(call)) {
      compiled.link = link != nullptr && IsCollective(*node.op);
      absl::StatusOr<std::shared_ptr<const PlannedKernel>> kernel =
          (compiled.link ? *link : cache).Plan(node, operands, results);
      if (!kernel.ok()) {
        return Annotate(kernel.status(), absl::StrCat("'", graph.value(node.results[0]).name,
                                                      "' of segment ", segment.name));
      }
      compiled.kernel = *std::move(kernel);
      compiled.seconds =
          compiled.kernel->seconds.value_or(OpSeconds(rates, node.op->CostOf(call), operands));
      if (host.cache != nullptr && !IsCollective(*node.op)) {
        PlanForHost(node, call, results, host, compiled);
      }
      compiled.aliases = node.op->MayAlias(call);
      compiled.operand_places = InBytes(node.op->OperandPlaces(call), results[0].dtype);
    } else {
      compiled.view_offsets = InBytes(node.op->ViewOffsets(call), operands[0].dtype);
    }
    executable.nodes.push_back(std::move(compiled));
  }
  return executable;
}

}  // namespace colossus
