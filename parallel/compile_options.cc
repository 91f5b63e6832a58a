#include "parallel/compile_options.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/kernel.h"
#include "tensor/ops/chain.h"
#include "tensor/passes/fusion.h"
#include "tensor/passes/pass.h"

namespace colossus {
namespace {

bool ComputesChains(const Device& device, const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op != &ChainOp()) continue;
    const Types operands = graph.OperandTypes(node), results = graph.ResultTypes(node);
    const KernelRequest request{node.op, &node.attributes, operands, results, device.threads()};
    if (!PlanKernel(device.kernels(), request).ok()) return false;
  }
  return true;
}

}  // namespace

absl::Status DumpText(const CompileOptions& options, const std::string& name,
                      const std::string& text) {
  if (options.dump_graphs.empty()) return absl::OkStatus();
  FileSystem& files = RealFileSystem();
  RETURN_IF_ERROR(files.MakeDirs(options.dump_graphs));
  return files.WriteFileAtomically(JoinPath(options.dump_graphs, name + ".txt"), text);
}

absl::StatusOr<Segment> FusedSegment(Segment segment, const std::string& name,
                                     const CompileOptions& options, const Device& device) {
  if (!options.fusion) return segment;
  PassPipeline pipeline;
  pipeline.Add("fusion", Fusion);
  absl::StatusOr<Rewritten> fused = pipeline.Run(*segment.graph);
  if (!fused.ok()) return Annotate(fused.status(), absl::StrCat("segment ", segment.name));
  if (!ComputesChains(device, fused->graph)) return segment;
  RETURN_IF_ERROR(
      DumpText(options, absl::StrCat(name, ".fused.", segment.name), ToText(fused->graph)));
  segment.graph = std::make_shared<const Graph>(std::move(fused->graph));
  return segment;
}

}  // namespace colossus
