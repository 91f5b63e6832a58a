#include "parallel/zero/layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "gemini/chunk.h"
#include "parallel/sharding/axes.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/pack.h"
#include "tensor/optim/update.h"

namespace colossus {
namespace {

AxisNames TokenAxes(const Mesh& mesh) {
  AxisNames axes;
  for (const MeshAxis& axis : mesh.axes()) {
    if (SplitsTokens(axis.name) && axis.size > 1) axes.push_back(axis.name);
  }
  return axes;
}

// Those of `axes` that are not in `without`, in the mesh's order.
AxisNames Without(const AxisNames& axes, const AxisNames& without, const Mesh& mesh) {
  AxisNames left;
  for (const std::string& axis : InMeshOrder(axes, mesh)) {
    if (!HasAxis(without, axis) && mesh.SizeOf(axis) > 1) left.push_back(axis);
  }
  return left;
}

struct PartialAxes {
  AxisNames zero, model;
};

PartialAxes PartialOf(const Sharding& gradient, const Mesh& mesh) {
  PartialAxes axes;
  for (const std::string& axis : InMeshOrder(gradient.partial, mesh)) {
    if (mesh.SizeOf(axis) == 1) continue;
    (SplitsTokens(axis) ? axes.zero : axes.model).push_back(axis);
  }
  return axes;
}

// The block of the node that reads a state first.
std::string FirstBlock(const Graph& graph, const std::vector<std::vector<NodeId>>& uses,
                       const std::string& state) {
  const State* found = graph.FindState(state);
  CHECK(found != nullptr) << state;
  return uses[found->in].empty() ? "" : graph.node(uses[found->in].front()).block;
}

// Axes over which the gradients of all uses are to be summed first; none where uses differ.
AxisNames CommonModelAxes(const ChunkedParameter& parameter) {
  const std::vector<AxisNames>& uses = parameter.model_axes;
  const bool agree = std::count(uses.begin(), uses.end(), uses[0]) == std::ssize(uses);
  return agree ? uses[0] : AxisNames{};
}

// What must agree in a chunk.
std::string KeyOf(const ChunkedParameter& parameter, const std::string& block, const Mesh& mesh) {
  const LocalState& state = parameter.state;
  const bool updated = !parameter.gradients.empty();
  return absl::StrCat(block, "|", Name(state.type.dtype), "|", updated ? "updated" : "frozen", "|",
                      state.info.decayed ? "decayed" : "", "|",
                      absl::StrJoin(Without(SplitAxes(state.sharding), {}, mesh), ","), "|",
                      updated ? absl::StrJoin(CommonModelAxes(parameter), ",") : "", "|",
                      absl::StrJoin(state.stages, ","),
                      // Alone, on one stage too: then the norm has the same bits however stages are
                      // cut.
                      parameter.gradients.size() > 1 ? "|tied" : "");
}

}  // namespace

bool ZeroLayout::Applies(const Mesh& mesh) { return !TokenAxes(mesh).empty(); }

absl::StatusOr<ZeroLayout> ZeroLayout::Make(const Partitioned& local,
                                            const std::vector<ParameterGradients>& gradients,
                                            const Mesh& mesh, int rank,
                                            const ZeroOptions& options) {
  ZeroLayout layout;
  layout.options_ = options;
  layout.mesh_ = mesh;
  layout.rank_ = rank;
  std::map<std::string, const ParameterGradients*> gradients_of;
  for (const ParameterGradients& parameter : gradients) gradients_of[parameter.state] = &parameter;
  const std::vector<std::vector<NodeId>> uses = local.graph.Uses();
  std::map<AxisNames, std::vector<int>> by_axes;
  std::vector<AxisNames> order;  // of by_axes, as they come first
  std::map<std::string, int> count;
  for (const LocalState& state : local.states) {
    if (state.info.role != Role::kParameter) continue;
    ChunkedParameter parameter;
    parameter.state = state;
    AxisNames zero_axes;
    if (auto found = gradients_of.find(state.info.name); found != gradients_of.end()) {
      for (const std::string& output : found->second->outputs) {
        const PartialAxes axes = PartialOf(local.outputs.at(output), mesh);
        if (parameter.gradients.empty()) zero_axes = axes.zero;
        if (axes.zero != zero_axes) {
          return absl::UnimplementedError(absl::StrCat(
              "the gradients of the uses of '", state.info.name,
              "' are sums over different token axes: [", absl::StrJoin(zero_axes, ", "), "] and [",
              absl::StrJoin(axes.zero, ", "), "]"));
        }
        parameter.gradients.push_back(output);
        parameter.model_axes.push_back(axes.model);
      }
    } else {
      zero_axes = Without(TokenAxes(mesh), SplitAxes(state.sharding), mesh);
    }
    std::string key = KeyOf(parameter, FirstBlock(local.graph, uses, state.info.name), mesh);
    // A node packs so many tensors at most.
    absl::StrAppend(&key, "|", count[key]++ / std::min(kMaxPacked, kMaxUpdated));
    const int index = static_cast<int>(layout.parameters_.size());
    if (by_axes[zero_axes].empty()) order.push_back(zero_axes);
    by_axes[zero_axes].push_back(index);
    layout.index_[state.info.name] = index;
    layout.keys_.push_back(std::move(key));
    layout.parameters_.push_back(std::move(parameter));
  }
  for (const AxisNames& axes : order) RETURN_IF_ERROR(layout.AddChunks(by_axes[axes], axes));
  layout.SortByFirstUse();
  for (ZeroChunk& chunk : layout.chunks_) {
    chunk.block =
        FirstBlock(local.graph, uses, layout.parameters_[chunk.parameters[0]].state.info.name);
  }
  layout.all_chunks_ = layout.chunks_;
  layout.KeepStagesOwn();
  return layout;
}

// Whatever ranks share a chunk: squares are summed in this order, which is that of a pipeline's
// stages too.
void ZeroLayout::SortByFirstUse() {
  std::sort(chunks_.begin(), chunks_.end(), [](const ZeroChunk& a, const ZeroChunk& b) {
    return a.parameters[0] < b.parameters[0];
  });
  for (size_t c = 0; c < chunks_.size(); ++c) {
    chunks_[c].name = absl::StrCat("chunk/", c);
    for (int p : chunks_[c].parameters) parameters_[p].chunk = static_cast<int>(c);
  }
}

void ZeroLayout::KeepStagesOwn() {
  const auto alone = [](const ChunkedParameter& p) { return p.state.stages.empty(); };
  if (std::all_of(parameters_.begin(), parameters_.end(), alone)) return;
  std::vector<ZeroChunk> chunks = std::exchange(chunks_, {});
  std::vector<ChunkedParameter> parameters = std::exchange(parameters_, {});
  index_.clear();
  for (ZeroChunk& chunk : chunks) {
    if (!parameters[chunk.parameters[0]].state.held()) continue;
    for (int& p : chunk.parameters) {
      ChunkedParameter& parameter = parameters[p];
      parameter.chunk = static_cast<int>(chunks_.size());
      p = static_cast<int>(parameters_.size());
      index_[parameter.state.info.name] = p;
      parameters_.push_back(std::move(parameter));
    }
    chunks_.push_back(std::move(chunk));
  }
}

AxisNames ZeroLayout::AxesOf(const ZeroChunk& chunk) const {
  AxisNames axes = chunk.zero_axes;
  axes.insert(axes.end(), chunk.split_axes.begin(), chunk.split_axes.end());
  return InMeshOrder(axes, mesh_);
}

absl::Status ZeroLayout::AddChunks(const std::vector<int>& parameters, const AxisNames& zero_axes) {
  std::vector<ChunkTensor> tensors;
  for (int p : parameters) {
    const LocalState& state = parameters_[p].state;
    tensors.push_back({state.info.name, state.type.elements(), keys_[p]});
  }
  ChunkOptions options;
  options.shards = static_cast<int>(mesh_.SizeOf(zero_axes));
  options.max_elements = options_.max_elements;
  ASSIGN_OR_RETURN(ChunkLayout layout, ChunkLayout::Make(tensors, options));
  elements_ += layout.elements();
  padding_ += layout.padding();
  for (const Chunk& made : layout.chunks()) {
    ZeroChunk chunk;
    const int index = static_cast<int>(chunks_.size());
    chunk.name = absl::StrCat("chunk/", index);
    chunk.elements = made.elements;
    chunk.zero_axes = zero_axes;
    chunk.shards = options.shards;
    chunk.shard = mesh_.IndexIn(rank_, zero_axes);
    for (const ChunkSegment& segment : made.segments) {
      const int p = index_.at(segment.name);
      parameters_[p].chunk = index;
      parameters_[p].first = segment.first;
      chunk.parameters.push_back(p);
    }
    // The same for all of them.
    const ChunkedParameter& first = parameters_[chunk.parameters[0]];
    chunk.dtype = first.state.type.dtype;
    chunk.updated = !first.gradients.empty();
    chunk.decayed = first.state.info.decayed;
    chunk.owned = first.state.owned();
    chunk.split_axes = Without(SplitAxes(first.state.sharding), {}, mesh_);
    if (chunk.updated) chunk.model_axes = CommonModelAxes(first);
    chunks_.push_back(std::move(chunk));
  }
  return absl::OkStatus();
}

const ChunkedParameter* ZeroLayout::Find(absl::string_view parameter) const {
  auto found = index_.find(parameter);
  return found == index_.end() ? nullptr : &parameters_[found->second];
}

bool ZeroLayout::Sharded(const ZeroChunk& chunk, Role role) const {
  return chunk.shards > 1 && options_.stage >= (role == Role::kParameter ? 3 : 1);
}

Type ZeroLayout::StateType(const ZeroChunk& chunk, Role role) const {
  const DType dtype = role == Role::kParameter ? chunk.dtype : MasterDType(chunk.dtype);
  return {dtype, {Sharded(chunk, role) ? chunk.shard_elements() : chunk.elements}};
}

StateInfo ZeroLayout::StateInfoOf(const ZeroChunk& chunk, Role role) const {
  StateInfo info;
  info.name = StateName(role, chunk.name);
  info.role = role;
  info.global_dims = info.disk_dims = {chunk.elements};
  info.axes = {""};
  info.trainable = chunk.updated;
  info.decayed = chunk.decayed;
  return info;
}

std::string ZeroLayout::Summary() const {
  return absl::StrFormat(
      "%d parameters in %d chunks, ZeRO stage %d: %d elements, %.2f %% of them padding",
      parameters_.size(), chunks_.size(), options_.stage, elements_,
      elements_ == 0 ? 0 : 100.0 * static_cast<double>(padding_) / static_cast<double>(elements_));
}

std::string ZeroLayout::ToText() const {
  std::string text = absl::StrCat(Summary(), "\n");
  for (const ZeroChunk& chunk : chunks_) {
    absl::StrAppend(&text, chunk.name, " ", chunk.block, " ", Name(chunk.dtype), "[",
                    chunk.elements, "]", chunk.updated ? "" : " frozen",
                    chunk.decayed ? " decayed" : "", ", ", chunk.shards, " shards over [",
                    absl::StrJoin(chunk.zero_axes, ", "), "]");
    if (!chunk.model_axes.empty()) {
      absl::StrAppend(&text, ", summed over [", absl::StrJoin(chunk.model_axes, ", "), "] first");
    }
    if (!chunk.split_axes.empty()) {
      absl::StrAppend(&text, ", split over [", absl::StrJoin(chunk.split_axes, ", "), "]");
    }
    absl::StrAppend(&text, "\n");
    for (int p : chunk.parameters) {
      absl::StrAppend(&text, "  ", parameters_[p].state.info.name, " ", parameters_[p].first, " ",
                      colossus::ToString(parameters_[p].state.type), "\n");
    }
  }
  return text;
}

}  // namespace colossus
