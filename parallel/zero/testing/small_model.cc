#include "parallel/zero/testing/small_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tensor/graph/block.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/ops/pointwise.h"
#include "tensor/optim/update.h"

namespace colossus {
namespace {

std::string OutputName(const std::string& parameter, size_t use) {
  return use == 0 ? absl::StrCat("d.", parameter) : absl::StrCat("d.", parameter, ".", use);
}

bool Reads(const SmallParameter& parameter, const std::string& block) {
  return parameter.block == block ||
         std::count(parameter.also_read_by.begin(), parameter.also_read_by.end(), block) > 0;
}

std::vector<std::string> BlocksOf(const SmallModel& model) {
  std::vector<std::string> blocks;
  auto add = [&](const std::string& block) {
    if (std::count(blocks.begin(), blocks.end(), block) == 0) blocks.push_back(block);
  };
  for (const SmallParameter& parameter : model.parameters) add(parameter.block);
  for (const SmallParameter& parameter : model.parameters) {
    for (const std::string& block : parameter.also_read_by) add(block);
  }
  return blocks;
}

}  // namespace

std::string GradientFeed(const std::string& output) { return absl::StrCat("g.", output); }

SmallLocal MakeLocal(const SmallModel& model, int rank) {
  SmallLocal made;
  GraphBuilder builder("small");
  std::vector<ValueId> values;
  for (const SmallParameter& parameter : model.parameters) {
    LocalState state;
    state.info.name = parameter.name;
    state.info.global_dims = state.info.disk_dims = parameter.global;
    state.info.axes.assign(parameter.global.size(), "");
    state.info.decayed = parameter.decayed;
    state.info.trainable = !parameter.partial.empty();
    state.sharding = Replicated(static_cast<int>(parameter.global.size()));
    if (!parameter.split.empty()) state.sharding.dims = parameter.split;
    absl::StatusOr<Slice> slice = SliceOf(parameter.global, state.sharding, model.mesh, rank);
    CHECK_OK(slice.status());
    state.slice = *std::move(slice);
    const DType dtype = parameter.wide ? MasterDType(model.compute) : model.compute;
    state.type = {dtype, state.slice.extent};
    values.push_back(builder.AddState(state.info, state.type));
    made.local.states.push_back(std::move(state));
    if (!parameter.partial.empty()) made.gradients.push_back({parameter.name, {}});
  }
  const std::vector<std::string> blocks = BlocksOf(model);
  for (const std::string& block : blocks) {
    builder.SetBlock(block);
    for (size_t p = 0; p < values.size(); ++p) {
      if (Reads(model.parameters[p], block)) Tanh(builder, values[p]);
    }
  }
  builder.SetBlock("loss");
  Tanh(builder, builder.Feed(kLossFeed, {DType::kF32, {}}));
  for (size_t b = blocks.size(); b-- > 0;) {
    builder.SetBlock(GradientBlock(blocks[b]));
    for (size_t p = values.size(); p-- > 0;) {
      const SmallParameter& parameter = model.parameters[p];
      if (!Reads(parameter, blocks[b])) continue;
      Tanh(builder, values[p]);
      if (parameter.block != blocks[b]) continue;
      for (size_t use = 0; use < parameter.partial.size(); ++use) {
        const std::string output = OutputName(parameter.name, use);
        const Type type{MasterDType(model.compute), made.local.states[p].type.dims};
        const ValueId gradient = Scale(builder, builder.Feed(GradientFeed(output), type), 1.0);
        builder.Rename(gradient, output);
        builder.Output(output, gradient);
        Sharding sharding = made.local.states[p].sharding;
        sharding.partial = parameter.partial[use];
        made.local.outputs[output] = std::move(sharding);
        for (ParameterGradients& gradients : made.gradients) {
          if (gradients.state == parameter.name) gradients.outputs.push_back(output);
        }
      }
    }
  }
  absl::StatusOr<Graph> graph = std::move(builder).Build();
  CHECK_OK(graph.status());
  made.local.graph = *std::move(graph);
  return made;
}

}  // namespace colossus
