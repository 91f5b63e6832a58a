#include "parallel/zero/read_chunks.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/graph/block.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/rewriter.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/pack.h"

namespace colossus {
namespace {

constexpr absl::string_view kGathered = "gathered/";

class ChunkReader {
 public:
  ChunkReader(const Graph& old, const ZeroLayout& layout, std::vector<int> part_of,
              const std::vector<int>& group_of)
      : old_(old),
        layout_(layout),
        part_of_(std::move(part_of)),
        group_of_(group_of),
        rewriter_(old,
                  [&](const State& state) { return layout.Find(state.info.name) == nullptr; }) {}

  absl::StatusOr<ChunkedGraph> Run() {
    for (const Output& output : old_.outputs()) {
      const State* state = old_.StateOf(output.value);
      if (state == nullptr || layout_.Find(state->info.name) == nullptr) continue;
      return absl::UnimplementedError(
          absl::StrCat("output '", output.name, "' is parameter '", state->info.name, "' itself"));
    }
    FindPasses();
    std::vector<int> part_of;
    for (size_t n = 0; n < old_.nodes().size(); ++n) {
      Keep(static_cast<NodeId>(n));
      part_of.resize(rewriter_.builder().graph().nodes().size(), part_of_[n]);
    }
    ASSIGN_OR_RETURN(Rewritten rewritten, std::move(rewriter_).Finish());
    CHECK_EQ(part_of.size(), rewritten.graph.nodes().size());
    return ChunkedGraph{std::move(rewritten.graph), std::move(part_of), std::move(passes_)};
  }

 private:
  // The parameter that a value is, or nullptr.
  const ChunkedParameter* ParameterOf(ValueId v) const {
    const State* state = old_.StateOf(v);
    return state == nullptr ? nullptr : layout_.Find(state->info.name);
  }

  void FindPasses() {
    std::vector<std::set<int>> read;  // per pass: sharded chunks
    // A part is not divided, even if recomputed nodes stand behind forward ones in it.
    const std::vector<NodeId> firsts = FirstNodes();
    using Key = std::tuple<std::string, bool, int>;
    Key last;
    for (size_t part = 0; part < firsts.size(); ++part) {
      const Node& node = old_.node(firsts[part]);
      Key key(SourceBlock(node.block), RunsBackward(node), group_of_[part]);
      if (passes_.empty() || key != last) {
        passes_.push_back({static_cast<int>(part), static_cast<int>(part), {}});
        group_of_pass_.push_back(group_of_[part]);
        read.emplace_back();
        last = std::move(key);
      }
      passes_.back().last_part = static_cast<int>(part);
      pass_of_part_.push_back(static_cast<int>(passes_.size()) - 1);
    }
    for (size_t n = 0; n < old_.nodes().size(); ++n) {
      for (ValueId v : old_.nodes()[n].operands) {
        const ChunkedParameter* parameter = ParameterOf(v);
        if (parameter == nullptr) continue;
        read_in_part_[part_of_[n]][parameter->chunk].insert(v);
        if (IsSharded(parameter->chunk)) {
          read[pass_of_part_[part_of_[n]]].insert(parameter->chunk);
        }
      }
    }
    gathered_for_.resize(passes_.size());
    for (size_t p = 0; p < passes_.size(); ++p) {
      for (int chunk : read[p]) {
        const bool kept =
            p > 0 && read[p - 1].count(chunk) > 0 && group_of_pass_[p - 1] == group_of_pass_[p];
        gathered_for_[p][chunk] = kept ? gathered_for_[p - 1].at(chunk) : static_cast<int>(p);
        if (!kept) passes_[p].gathered.push_back(chunk);
      }
    }
  }

  // Of each part.
  std::vector<NodeId> FirstNodes() const {
    std::vector<NodeId> firsts(group_of_.size(), kNoNode);
    for (size_t n = part_of_.size(); n-- > 0;) firsts[part_of_[n]] = static_cast<NodeId>(n);
    return firsts;
  }

  bool IsSharded(int chunk) const {
    return layout_.Sharded(layout_.chunks()[chunk], Role::kParameter);
  }

  // The whole chunk, for a part.
  ValueId Whole(int chunk, int part) {
    const ZeroChunk& own = layout_.chunks()[chunk];
    const int pass = IsSharded(chunk) ? gathered_for_[pass_of_part_[part]].at(chunk) : -1;
    auto [found, added] = wholes_.try_emplace({chunk, pass}, kNoValue);
    if (!added) return found->second;
    GraphBuilder& builder = rewriter_.builder();
    found->second = pass >= 0 ? builder.Feed(GatheredName(own, pass), {own.dtype, {own.elements}})
                              : builder.AddState(layout_.StateInfoOf(own, Role::kParameter),
                                                 layout_.StateType(own, Role::kParameter));
    return found->second;
  }

  // The parameters of a chunk that a part reads, as views.
  void AddViews(int part, int chunk, const std::set<ValueId>& values) {
    std::map<int64_t, ValueId> by_place;
    for (ValueId v : values) by_place[ParameterOf(v)->first] = v;
    std::vector<PackedTensor> tensors;
    for (const auto& [first, v] : by_place) tensors.push_back({first, old_.value(v).type.dims});
    const ValueId whole = Whole(chunk, part);
    const ValueIds views = Unpack(rewriter_.builder(), whole, tensors);
    size_t at = 0;
    for (const auto& [first, v] : by_place) {
      rewriter_.builder().Rename(views[at], absl::StrCat(old_.value(v).name, "/", part));
      views_[{part, v}] = views[at++];
    }
  }

  void Keep(NodeId n) {
    const Node& node = old_.nodes()[n];
    const int part = part_of_[n];
    ValueIds operands;
    bool reads = false;
    for (ValueId v : node.operands) {
      const ChunkedParameter* parameter = ParameterOf(v);
      if (parameter == nullptr) {
        operands.push_back(rewriter_.Map(v));
        continue;
      }
      reads = true;
      if (views_.find({part, v}) == views_.end()) {
        BlockScope scope(rewriter_.builder(), node.block);
        AddViews(part, parameter->chunk, read_in_part_[part].at(parameter->chunk));
      }
      operands.push_back(views_.at({part, v}));
    }
    if (!reads) {
      rewriter_.Keep(n);
      return;
    }
    rewriter_.Replace(n, rewriter_.Clone(n, std::move(operands), node.clone, ""));
  }

  const Graph& old_;
  const ZeroLayout& layout_;
  const std::vector<int> part_of_;
  const std::vector<int>& group_of_;
  GraphRewriter rewriter_;
  std::vector<BlockPass> passes_;
  std::vector<int> group_of_pass_, pass_of_part_;
  std::map<int, std::map<int, std::set<ValueId>>> read_in_part_;  // part, chunk: old parameters
  std::vector<std::map<int, int>> gathered_for_;  // per pass: chunk -> the pass it was gathered for
  std::map<std::pair<int, int>, ValueId> wholes_;     // chunk, pass it is gathered for or -1
  std::map<std::pair<int, ValueId>, ValueId> views_;  // part, old parameter -> new value
};

}  // namespace

std::string GatheredName(const ZeroChunk& chunk, int pass) {
  return absl::StrCat(kGathered, pass, "/", chunk.name);
}

absl::StatusOr<ChunkedGraph> ReadChunks(const Graph& graph, const ZeroLayout& layout,
                                        std::vector<int> part_of,
                                        const std::vector<int>& group_of) {
  return ChunkReader(graph, layout, std::move(part_of), group_of).Run();
}

bool IsGatheredName(absl::string_view name) { return absl::StartsWith(name, kGathered); }

absl::StatusOr<ChunkedGraph> ReadChunks(const Graph& graph, const ZeroLayout& layout) {
  std::vector<int> part_of = CutAtBlocks(graph);
  const std::vector<int> one_group(part_of.empty() ? 0 : part_of.back() + 1, 0);
  return ReadChunks(graph, layout, std::move(part_of), one_group);
}

absl::StatusOr<Segment> GatherSegment(const ZeroLayout& layout, const BlockPass& pass, int index) {
  const std::string name = absl::StrCat("gather.", index);
  GraphBuilder builder(name);
  builder.SetBlock(name);
  for (int c : pass.gathered) {
    const ZeroChunk& chunk = layout.chunks()[c];
    const ValueId shard = builder.AddState(layout.StateInfoOf(chunk, Role::kParameter),
                                           layout.StateType(chunk, Role::kParameter));
    const std::string gathered = GatheredName(chunk, index);
    builder.Output(gathered,
                   AllGather(builder, shard, chunk.zero_axes, chunk.shards, /*dim=*/0, gathered));
  }
  ASSIGN_OR_RETURN(Graph graph, std::move(builder).Build());
  return Segment{name, std::make_shared<const Graph>(std::move(graph))};
}

}  // namespace colossus
