#include "parallel/update_graph.h"

#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "parallel/micro_batch_graph.h"
#include "parallel/sharding/axes.h"
#include "parallel/sharding/convert.h"
#include "parallel/square_sums.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

// The parameters in runs of those that the same block reads first. A node per run that measures and
// one that updates, since a run is
//  - wide enough that norms and biases cost no instruction and no parallel loop of their own;
//  - a range of each flat buffer of states, which lie in first-use order;
//  - narrow enough to be placed: the states of a block come and go with the segments of the block,
//    and while one block is updated, another's can be on their way.
// Runs change no bit: each element is updated by itself, and sums of squares go on from run to run.
std::vector<std::vector<ParameterGradients>> RunsOfBlocks(
    const Graph& forward, const std::vector<ParameterGradients>& parameters) {
  const std::vector<std::vector<NodeId>> uses = forward.Uses();
  std::vector<std::vector<ParameterGradients>> runs;
  std::string last;
  for (const ParameterGradients& parameter : parameters) {
    const State* state = forward.FindState(parameter.state);
    CHECK(state != nullptr && !uses[state->in].empty()) << parameter.state;
    const std::string& block = forward.node(uses[state->in].front()).block;
    if (runs.empty() || block != last || runs.back().size() == kMaxUpdated) runs.emplace_back();
    runs.back().push_back(parameter);
    last = block;
  }
  return runs;
}

// The finished gradient of a parameter: this rank's part, the same on all ranks that share it.
struct FinishedGradient {
  ValueId value = kNoValue;
  Sharding sharding;
};

// The ranks' summands added up: within the model first, then over the tokens.
ValueId SumOverRanks(GraphBuilder& builder, ValueId x, const AxisNames& partial, const Mesh& mesh) {
  AxisNames model, tokens;
  for (const std::string& axis : partial) {
    (SplitsTokens(axis) ? tokens : model).push_back(axis);
  }
  for (const AxisNames& axes : {model, tokens}) {
    x = AllReduce(builder, x, axes, mesh.SizeOf(axes));
  }
  return x;
}

// The uses of a parameter are added first where they wait for the same sums.
FinishedGradient Finish(GraphBuilder& builder, const Graph& micro_batch,
                        const ParameterGradients& parameter, const MeasureOptions& options) {
  ValueId sum = kNoValue;
  Sharding sharding;
  for (const std::string& name : parameter.outputs) {
    const std::string sum_name = SumName(name);
    const ValueId made = micro_batch.FindOutput(sum_name);
    CHECK(made != kNoValue) << sum_name;
    const Type& type = micro_batch.value(made).type;
    ValueId use = builder.Feed(sum_name, type);
    Sharding own = options.layout.Of(name, type.rank());
    if (sum == kNoValue) {
      sum = use;
      sharding = std::move(own);
      continue;
    }
    CHECK(own.dims == sharding.dims) << parameter.state;
    if (own.partial != sharding.partial) {
      sum = SumOverRanks(builder, sum, sharding.partial, options.layout.mesh);
      use = SumOverRanks(builder, use, own.partial, options.layout.mesh);
      sharding.partial.clear();
    }
    sum = Add(builder, sum, use);
  }
  sum = SumOverRanks(builder, sum, sharding.partial, options.layout.mesh);
  sharding.partial.clear();
  return {Convert(builder, sum, options.gradient), std::move(sharding)};
}

// From the parts of all ranks.
absl::StatusOr<ValueId> Whole(GraphBuilder& builder, const FinishedGradient& gradient,
                              const Mesh& mesh) {
  Type global = builder.type(gradient.value);
  for (size_t d = 0; d < global.dims.size(); ++d) {
    global.dims[d] *= mesh.SizeOf(gradient.sharding.dims[d]);
  }
  // Gathers are the same on all ranks.
  return ConvertSharding(builder, gradient.value, global, gradient.sharding,
                         Replicated(global.rank()), mesh, /*rank=*/0);
}

}  // namespace

std::string GradientName(absl::string_view parameter) {
  return absl::StrCat("gradient/", parameter);
}

std::string WholeGradientName(absl::string_view parameter) {
  return absl::StrCat("whole/", GradientName(parameter));
}

absl::StatusOr<Graph> MeasureGraph(const Graph& micro_batch,
                                   const std::vector<ParameterGradients>& parameters,
                                   const MeasureOptions& options) {
  GraphBuilder builder("measure");
  builder.SetBlock("measure");
  const Mesh& mesh = options.layout.mesh;
  std::vector<FinishedGradient> gradients;
  SquareSums squares(builder, mesh);
  for (const std::vector<ParameterGradients>& run : RunsOfBlocks(micro_batch, parameters)) {
    std::vector<MeasuredGradient> measured;
    for (const ParameterGradients& parameter : run) {
      gradients.push_back(Finish(builder, micro_batch, parameter, options));
      const FinishedGradient& finished = gradients.back();
      builder.Output(GradientName(parameter.state), finished.value);
      measured.push_back({InMeshOrder(SplitAxes(finished.sharding), mesh), finished.value});
    }
    if (!options.squares.empty()) squares.Add(measured);
  }
  if (!options.squares.empty()) builder.Output(options.squares, squares.Total());
  for (size_t i = 0; options.whole_gradients && i < gradients.size(); ++i) {
    if (options.not_owned.count(parameters[i].state) > 0) continue;
    ASSIGN_OR_RETURN(ValueId whole, Whole(builder, gradients[i], mesh));
    builder.Output(WholeGradientName(parameters[i].state), whole);
  }
  return std::move(builder).Build();
}

UpdateScalars FeedUpdateScalars(GraphBuilder& builder, const Optimizer& optimizer, DType compute) {
  const Type scalar{MasterDType(compute), {}};
  UpdateScalars scalars;
  scalars.learning_rate = builder.Feed("learning_rate", scalar);
  scalars.grad_scale = builder.Feed("grad_scale", scalar);
  if (optimizer.kind == Optimizer::Kind::kAdamw) {
    scalars.correction1 = builder.Feed("correction1", scalar);
    scalars.correction2 = builder.Feed("correction2", scalar);
  }
  if (optimizer.narrow_moments) {
    scalars.rounding_key = builder.Feed("rounding_key", {DType::kI64, {2}});
  }
  return scalars;
}

absl::StatusOr<Graph> UpdateGraph(const Graph& measure, const Graph& forward,
                                  const std::vector<ParameterGradients>& parameters,
                                  const Optimizer& optimizer, DType compute,
                                  const std::vector<LocalState>& parts) {
  std::map<std::string, Dims> origins;
  for (const LocalState& part : parts) origins[part.info.name] = part.slice.origin;
  GraphBuilder builder("update");
  builder.SetBlock("update");
  const UpdateScalars scalars = FeedUpdateScalars(builder, optimizer, compute);
  for (const std::vector<ParameterGradients>& run : RunsOfBlocks(forward, parameters)) {
    std::vector<UpdatedParameter> updated;
    for (const ParameterGradients& parameter : run) {
      const std::string name = GradientName(parameter.state);
      const ValueId gradient = builder.Feed(name, measure.value(measure.FindOutput(name)).type);
      const State& state = *forward.FindState(parameter.state);
      updated.push_back(
          {state.info, forward.value(state.in).type.dtype, gradient, origins[parameter.state]});
    }
    AddUpdate(builder, optimizer, updated, scalars);
  }
  return std::move(builder).Build();
}

}  // namespace colossus
