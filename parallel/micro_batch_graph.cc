#include "parallel/micro_batch_graph.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/graph/rewriter.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

// Output names of gradients by the (old) value they stand for. Two parameters may share a value.
using GradientOutputs = std::map<ValueId, std::vector<std::string>>;

GradientOutputs Collect(const Graph& graph, const std::vector<ParameterGradients>& parameters,
                        MicroBatchVariant variant) {
  GradientOutputs outputs;
  for (const ParameterGradients& parameter : parameters) {
    if (variant == MicroBatchVariant::kFirst) break;
    // Several uses are added before they are rounded, outside of the micro-batch.
    if (variant == MicroBatchVariant::kOnly && parameter.outputs.size() > 1) continue;
    for (const std::string& name : parameter.outputs) {
      outputs[graph.FindOutput(name)].push_back(name);
    }
  }
  return outputs;
}

}  // namespace

std::string PreviousName(absl::string_view gradient_output) {
  return absl::StrCat("previous/", gradient_output);
}

absl::StatusOr<Graph> MicroBatchGraph(const Graph& graph,
                                      const std::vector<ParameterGradients>& parameters,
                                      MicroBatchVariant variant, DType gradient) {
  GradientOutputs outputs = Collect(graph, parameters, variant);
  GraphRewriter rewriter(graph);
  GraphBuilder& builder = rewriter.builder();
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    rewriter.Keep(static_cast<NodeId>(n));
    BlockScope scope(builder, node.block);
    for (ValueId v : node.results) {
      auto found = outputs.find(v);
      if (found == outputs.end()) continue;
      for (const std::string& name : found->second) {
        ValueId value = rewriter.Map(v);
        if (variant == MicroBatchVariant::kOnly) {
          value = Convert(builder, value, gradient);
        } else {
          value = Add(builder, builder.Feed(PreviousName(name), builder.type(value)), value);
        }
        rewriter.ReplaceOutput(name, value);
      }
    }
  }
  ASSIGN_OR_RETURN(Rewritten result, std::move(rewriter).Finish());
  return std::move(result.graph);
}

}  // namespace colossus
