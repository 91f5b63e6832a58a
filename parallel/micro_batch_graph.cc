#include "parallel/micro_batch_graph.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/graph/rewriter.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

// A gradient output and whether its value is rounded here.
struct GradientOutput {
  std::string name;
  bool finished;  // no sum over uses or ranks comes before rounding
};

// By the (old) value they stand for. Two parameters may share a value.
std::map<ValueId, std::vector<GradientOutput>> Collect(
    const Graph& graph, const std::vector<ParameterGradients>& parameters,
    const GradientLayout& layout) {
  std::map<ValueId, std::vector<GradientOutput>> outputs;
  for (const ParameterGradients& parameter : parameters) {
    for (const std::string& name : parameter.outputs) {
      const ValueId v = graph.FindOutput(name);
      if (v == kNoValue) continue;  // another stage's
      const bool summed = layout.Of(name, graph.value(v).type.rank()).partial.empty();
      outputs[v].push_back({name, parameter.outputs.size() == 1 && summed});
    }
  }
  return outputs;
}

ValueId Finished(GraphBuilder& builder, const GradientOutput& output, ValueId value,
                 MicroBatchVariant variant, DType gradient) {
  if (variant == MicroBatchVariant::kRest || variant == MicroBatchVariant::kLast) {
    value = Add(builder, builder.Feed(PreviousName(output.name), builder.type(value)), value);
  }
  const bool complete = variant == MicroBatchVariant::kOnly || variant == MicroBatchVariant::kLast;
  return complete && output.finished ? Convert(builder, value, gradient) : value;
}

}  // namespace

Sharding GradientLayout::Of(const std::string& output, int dims) const {
  auto found = outputs.find(output);
  return found == outputs.end() ? Replicated(dims) : found->second;
}

std::string SumName(absl::string_view gradient_output) {
  return absl::StrCat("sum/", gradient_output);
}

std::string PreviousName(absl::string_view gradient_output) {
  return absl::StrCat("previous/", gradient_output);
}

absl::StatusOr<Graph> MicroBatchGraph(const Graph& graph,
                                      const std::vector<ParameterGradients>& parameters,
                                      MicroBatchVariant variant, DType gradient,
                                      const GradientLayout& layout) {
  std::map<ValueId, std::vector<GradientOutput>> outputs = Collect(graph, parameters, layout);
  GraphRewriter rewriter(graph);
  GraphBuilder& builder = rewriter.builder();
  auto replace = [&](ValueId v) {
    auto found = outputs.find(v);
    if (found == outputs.end()) return;
    for (const GradientOutput& output : found->second) {
      rewriter.ReplaceOutput(output.name, SumName(output.name),
                             Finished(builder, output, rewriter.Map(v), variant, gradient));
    }
  };
  // A gradient may be the seed itself, or another parameter.
  for (ValueId feed : graph.feeds()) replace(feed);
  for (const State& state : graph.states()) replace(state.in);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    rewriter.Keep(static_cast<NodeId>(n));
    BlockScope scope(builder, node.block);
    for (ValueId v : node.results) replace(v);
  }
  ASSIGN_OR_RETURN(Rewritten result, std::move(rewriter).Finish());
  return std::move(result.graph);
}

}  // namespace colossus
