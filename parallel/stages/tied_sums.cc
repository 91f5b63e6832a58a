#include "parallel/stages/tied_sums.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "parallel/micro_batch_graph.h"
#include "parallel/pipeline/messages.h"
#include "parallel/pipeline/transfers.h"
#include "parallel/sharding/convert.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/graph/rewriter.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/shape.h"

namespace colossus {
namespace {

SentValue ValueOf(const TiedSum& tied) { return {SumName(tied.gradient), tied.type}; }

bool Holds(const TiedSum& tied, int stage) {
  return std::count(tied.holders.begin(), tied.holders.end(), stage) > 0;
}

StageLayout LayoutOn(const TiedSum& tied, int stage, const StagePipeline& pipeline) {
  return pipeline.meshes->Of(stage, ValueOf(tied));
}

// As other holders get it.
ValueId Arriving(GraphBuilder& builder, ValueId whole, const Sharding& arriving,
                 const MeshPlace& place) {
  const Type type = builder.type(whole);
  if (place.mesh.IndexIn(place.rank, arriving.partial) != 0) {
    return Constant(builder, type.dtype, type.dims, {0});
  }
  // A copy: what a segment gives it has made.
  return Slice(builder, whole, Ints(type.dims.size(), 0), Ints(type.dims.begin(), type.dims.end()));
}

absl::StatusOr<StepSegment> MakerSegment(const TiedSum& tied, const Sharding& made,
                                         const StagePipeline& pipeline, const MeshPlace& place,
                                         absl::string_view name) {
  const StageLayout own = LayoutOn(tied, tied.maker, pipeline);
  Sharding whole = own.sharding;
  whole.partial.clear();
  const std::string sum = SumName(tied.gradient), last = absl::StrCat("last/", sum);
  GraphBuilder builder(absl::StrCat("share.", name));
  builder.SetBlock(builder.graph().name());
  ASSIGN_OR_RETURN(const Type local, LocalType(tied.type, made, place.mesh));
  const ValueId summand = builder.Feed(last, local);
  ASSIGN_OR_RETURN(const ValueId value, ConvertSharding(builder, summand, tied.type, made, whole,
                                                        place.mesh, place.rank));
  builder.Output(sum, Arriving(builder, value, own.sharding, place));
  for (int holder : tied.holders) {
    if (holder == tied.maker) continue;
    ASSIGN_OR_RETURN(const Transfers transfers,
                     PlanTransfers(tied.type.dims, own, LayoutOn(tied, holder, pipeline)));
    AddSends(builder, value, transfers, pipeline.rank, pipeline.meshes->ranks(),
             absl::StrCat("send/", name, "/", holder));
  }
  ASSIGN_OR_RETURN(Graph graph, std::move(builder).Build());
  StepSegment segment;
  segment.segment = {graph.name(), std::make_shared<const Graph>(std::move(graph))};
  segment.link = true;
  segment.carries.push_back({last, sum, Carry::From::kLast});
  return segment;
}

}  // namespace

std::vector<TiedSum> FindTiedSums(const Graph& graph,
                                  const std::vector<ParameterGradients>& parameters,
                                  const StageUses& uses) {
  std::vector<TiedSum> all;
  for (const ParameterGradients& parameter : parameters) {
    const std::vector<int>& holders = uses.of_state.at(parameter.state);
    if (holders.size() == 1) continue;
    for (const std::string& gradient : parameter.outputs) {
      all.push_back({gradient, graph.value(graph.FindOutput(gradient)).type,
                     uses.of_output.at(gradient), holders});
    }
  }
  return all;
}

absl::Status AddTiedSum(const TiedSum& tied, const Sharding& made, const StagePipeline& pipeline,
                        const MeshPlace& place, absl::string_view name,
                        std::vector<BlockCall>& calls, StepBuilder& step) {
  if (!Holds(tied, pipeline.stage)) return absl::OkStatus();
  std::optional<StepSegment> segment;
  if (tied.maker == pipeline.stage) {
    ASSIGN_OR_RETURN(segment, MakerSegment(tied, made, pipeline, place, name));
  } else {
    Message message;
    message.from = tied.maker;
    message.to = pipeline.stage;
    message.values = {ValueOf(tied)};
    ASSIGN_OR_RETURN(segment, ReceiveSegment(message, *pipeline.meshes, pipeline.rank,
                                             absl::StrCat(name, "/", pipeline.stage)));
  }
  calls.push_back({nullptr, -1, 0, step.AddSegment(*std::move(segment))});
  return absl::OkStatus();
}

absl::StatusOr<Graph> WithArrivingSums(const Graph& sums, const std::vector<TiedSum>& tied,
                                       const StagePipeline& pipeline) {
  GraphRewriter rewriter(sums);
  for (size_t n = 0; n < sums.nodes().size(); ++n) rewriter.Keep(static_cast<NodeId>(n));
  rewriter.KeepOutputs();
  for (const TiedSum& sum : tied) {
    if (sum.maker == pipeline.stage || !Holds(sum, pipeline.stage)) continue;
    const StageLayout layout = LayoutOn(sum, pipeline.stage, pipeline);
    ASSIGN_OR_RETURN(const Type local, LocalType(sum.type, layout.sharding, layout.mesh));
    const std::string name = SumName(sum.gradient);
    rewriter.builder().Output(name, rewriter.builder().Feed(name, local));
  }
  ASSIGN_OR_RETURN(Rewritten result, std::move(rewriter).Finish());
  return std::move(result.graph);
}

}  // namespace colossus
