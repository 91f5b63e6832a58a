#include "tensor/exec/step_storage.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

// An operand is small beside a result that is so many times larger.
constexpr int64_t kSmallPart = 8;

class StorageFinder {
 public:
  StorageFinder(const Step& step, const std::vector<Executable>& executables, bool overlap)
      : step_(step), executables_(executables), overlap_(overlap),
        storage_of_(step.calls.size()) {}

  absl::StatusOr<StepStorage> Run() {
    all_.follows = step_.follows;
    all_.follows.resize(step_.phases.size(), false);
    FindReaders();
    for (size_t c = 0; c < step_.calls.size(); ++c) RETURN_IF_ERROR(AddCall(static_cast<int>(c)));
    while (all_.phase_end.size() < step_.phases.size()) {
      all_.phase_end.push_back(all_.drafts.size());
    }
    // At homes first: what is made there need not live anywhere else, nor after its phase.
    PlaceOperands(/*at_home=*/true);
    TakeOverOperands();
    PlaceOperands(/*at_home=*/false);
    return std::move(all_);
  }

 private:
  using CallValue = std::pair<int, ValueId>;

  // ---- Who reads and overwrites what, by call.

  void FindReaders() {
    for (size_t c = 0; c < step_.calls.size(); ++c) {
      for (const FeedSource& source : step_.calls[c].sources) {
        if (source.call >= 0) last_reader_[{source.call, source.value}] = static_cast<int>(c);
      }
      for (const State& state : step_.graph_of(step_.calls[c]).states()) {
        if (state.out != state.in) updates_[state.info.name].push_back(static_cast<int>(c));
      }
    }
  }

  // Whether a later call reads value `v` of call `c` after the state was updated by a call that is
  // not before `from`.
  bool ReadAfterUpdate(int c, ValueId v, const std::string& state, int from) const {
    auto reader = last_reader_.find({c, v});
    auto updates = updates_.find(state);
    if (reader == last_reader_.end() || updates == updates_.end()) return false;
    auto update = std::lower_bound(updates->second.begin(), updates->second.end(), from);
    return update != updates->second.end() && *update < reader->second;
  }

  // ---- Storages.

  Storage& storage(int s) { return all_.storages[s]; }
  const Storage& storage(int s) const { return all_.storages[s]; }
  int Root(int s) const { return all_.Root(s); }

  int NewStorage(std::string what, int64_t bytes) {
    Storage added;
    added.what = std::move(what);
    added.bytes = bytes;
    all_.storages.push_back(std::move(added));
    return static_cast<int>(all_.storages.size()) - 1;
  }

  absl::StatusOr<int> StorageOfState(const State& state, const Type& type) {
    auto [found, added] =
        state_index_.try_emplace(state.info.name, static_cast<int>(all_.states.size()));
    if (added) {
      all_.states.push_back({state.info, type, {0, type.bytes()}});
      int s = NewStorage(state.info.name, type.bytes());
      storage(s).home = found->second;
      all_.state_storage.push_back(s);
      return s;
    }
    const StateHome& home = all_.states[found->second];
    if (home.type != type || home.info.role != state.info.role) {
      return absl::InvalidArgumentError(absl::StrCat(
          "state '", state.info.name, "' is ", Name(home.info.role), " ", ToString(home.type),
          " in one segment and ", Name(state.info.role), " ", ToString(type), " in another"));
    }
    return all_.state_storage[found->second];
  }

  int64_t now() const { return static_cast<int64_t>(all_.drafts.size()); }

  // A part of another storage.
  int NewView(std::string what, int64_t bytes, int of, int64_t offset) {
    const int view = NewStorage(std::move(what), bytes);
    storage(view).merged_into = of;
    storage(view).offset = offset;
    return view;
  }

  // Whether `s` is `whole` or a view of it.
  bool IsWithin(int s, int whole) const {
    while (s != whole && s >= 0) s = storage(s).merged_into;
    return s == whole;
  }

  // Whether `s` is its root's memory from the first to the last byte.
  bool IsWholeRoot(int s) const {
    return all_.OffsetInRoot(s) == 0 && storage(s).bytes == storage(Root(s)).bytes;
  }

  void Push(Draft draft) {
    for (int s : draft.operands) {
      for (; s >= 0; s = storage(s).merged_into) storage(s).last = now();
    }
    if (draft.workspace >= 0) draft.results.push_back(draft.workspace);
    for (int s : draft.results) {
      if (storage(s).first < 0) storage(s).first = now();
      storage(s).last = now();
    }
    if (draft.workspace >= 0) draft.results.pop_back();
    all_.drafts.push_back(std::move(draft));
  }

  Draft NewDraft(InstructionKind kind, int c, std::string name) const {
    Draft draft;
    draft.instruction.kind = kind;
    draft.instruction.call = c;
    draft.instruction.name = std::move(name);
    draft.instruction.micro_batch = step_.calls[c].micro_batch;
    draft.instruction.link = overlap_ && step_.segments[step_.calls[c].segment].link;
    return draft;
  }

  void PushCopy(int c, std::string name, int from, int to) {
    Draft copy = NewDraft(InstructionKind::kCopy, c, std::move(name));
    copy.operands = {from};
    copy.results = {to};
    Push(std::move(copy));
  }

  // ---- Instructions of one call.

  absl::Status AddCall(int c) {
    const Call& call = step_.calls[c];
    while (static_cast<int>(all_.phase_end.size()) < call.phase) {
      all_.phase_end.push_back(all_.drafts.size());
    }
    const Graph& graph = step_.graph_of(call);
    storage_of_[c].assign(graph.values().size(), -1);
    call_start_ = now();
    for (const State& state : graph.states()) {
      ASSIGN_OR_RETURN(storage_of_[c][state.in],
                       StorageOfState(state, graph.value(state.in).type));
      KeepForLater(c, state.in);
    }
    for (size_t f = 0; f < graph.feeds().size(); ++f) {
      ValueId feed = graph.feeds()[f];
      ASSIGN_OR_RETURN(storage_of_[c][feed], StorageOfFeed(c, feed, call.sources[f]));
      KeepForLater(c, feed);
    }
    for (size_t n = 0; n < graph.nodes().size(); ++n) AddNode(c, static_cast<NodeId>(n));
    AddFetches(c);  // first: updates may overwrite what is fetched
    return SendStatesHome(c);
  }

  absl::StatusOr<int> StorageOfFeed(int c, ValueId feed, const FeedSource& source) {
    if (source.call >= 0) {
      auto kept = kept_.find({source.call, source.value});
      return kept != kept_.end() ? kept->second : storage_of_[source.call][source.value];
    }
    const Value& value = step_.graph_of(step_.calls[c]).value(feed);
    auto [it, added] = host_feeds_.try_emplace({value.name, step_.calls[c].micro_batch});
    auto& [type, s] = it->second;
    if (!added) {
      if (type == value.type) return s;
      return absl::InvalidArgumentError(absl::StrCat("feed '", value.name, "' is ", ToString(type),
                                                     " in one segment and ", ToString(value.type),
                                                     " in another"));
    }
    type = value.type;
    s = NewStorage(value.name, value.type.bytes());
    Draft draft = NewDraft(InstructionKind::kFeed, c, value.name);
    draft.instruction.type = value.type;
    draft.results = {s};
    Push(std::move(draft));
    return s;
  }

  // A value that is a state's memory seen under another name (a view, a start value that leaves as
  // an output) and is read by a later call, after an update of that state: it gets a copy.
  void KeepForLater(int c, ValueId v) {
    const Storage& root = storage(Root(storage_of_[c][v]));
    if (root.home < 0 || !ReadAfterUpdate(c, v, root.what, c)) return;
    const std::string& name = step_.graph_of(step_.calls[c]).value(v).name;
    int copy = NewStorage(name, storage(storage_of_[c][v]).bytes);
    PushCopy(c, name, storage_of_[c][v], copy);
    kept_[{c, v}] = copy;
  }

  void AddViews(int c, const Node& node, const std::vector<int64_t>& offsets) {
    const Graph& graph = step_.graph_of(step_.calls[c]);
    const int of = storage_of_[c][node.operands[0]];
    for (size_t r = 0; r < node.results.size(); ++r) {
      const Value& value = graph.value(node.results[r]);
      const bool whole = offsets[r] == 0 && value.type.bytes() == storage(of).bytes;
      storage_of_[c][node.results[r]] =
          whole ? of : NewView(value.name, value.type.bytes(), of, offsets[r]);
      KeepForLater(c, node.results[r]);
    }
  }

  void AddNode(int c, NodeId n) {
    const Call& call = step_.calls[c];
    const Graph& graph = step_.graph_of(call);
    const Node& node = graph.node(n);
    const CompiledNode& compiled = executables_[call.segment].nodes[n];
    std::vector<int>& storage_of = storage_of_[c];
    if (compiled.kernel == nullptr) {
      AddViews(c, node, compiled.view_offsets);
      return;
    }
    const std::string& name = graph.value(node.results[0]).name;
    Draft draft = NewDraft(InstructionKind::kKernel, c, name);
    draft.instruction.node = n;
    if (compiled.link) draft.instruction.link = overlap_;
    for (ValueId v : node.operands) draft.operands.push_back(storage_of[v]);
    for (ValueId v : node.results) {
      storage_of[v] = NewStorage(graph.value(v).name, graph.value(v).type.bytes());
      draft.results.push_back(storage_of[v]);
    }
    int64_t workspace = compiled.kernel->workspace_bytes;
    if (compiled.host_kernel != nullptr) {
      workspace = std::max(workspace, compiled.host_kernel->workspace_bytes);
    }
    if (workspace > 0) {
      draft.workspace = NewStorage(absl::StrCat("workspace of ", name), workspace);
    }
    Push(std::move(draft));
  }

  void AddFetches(int c) {
    const Call& call = step_.calls[c];
    const Graph& graph = step_.graph_of(call);
    for (const std::string& name : step_.segments[call.segment].fetched) {
      ValueId v = graph.FindOutput(name);
      CHECK(v != kNoValue) << "'" << name << "' is not an output of " << graph.name();
      Draft draft = NewDraft(InstructionKind::kFetch, c, name);
      draft.instruction.type = graph.value(v).type;
      draft.operands = {storage_of_[c][v]};
      Push(std::move(draft));
    }
  }

  // ---- End values of states.

  absl::Status SendStatesHome(int c) {
    const Graph& graph = step_.graph_of(step_.calls[c]);
    std::vector<const State*> copied;
    for (const State& state : graph.states()) {
      if (state.out == state.in) continue;
      int home = storage_of_[c][state.in], end = storage_of_[c][state.out];
      if (Root(end) == home) continue;
      RETURN_IF_ERROR(CheckEnd(c, state, end));
      if (CanWriteAtHome(c, home, end)) {
        storage(end).merged_into = home;
      } else {
        copied.push_back(&state);
      }
    }
    for (const State* state : copied) {
      PushCopy(c, state->info.name, storage_of_[c][state->out], storage_of_[c][state->in]);
    }
    return absl::OkStatus();
  }

  // Copies home run last, so an end value must not be what another state held before.
  absl::Status CheckEnd(int c, const State& state, int end) const {
    const Storage& root = storage(Root(end));
    // Another state's end value that is written at its home is below that home.
    int below = end;
    while (storage(below).merged_into >= 0 && storage(storage(below).merged_into).home < 0) {
      below = storage(below).merged_into;
    }
    bool made_here = storage(below).home < 0 && storage(below).first >= call_start_;
    if (root.home < 0 || made_here) return absl::OkStatus();
    const State* other = step_.graph_of(step_.calls[c]).FindState(root.what);
    if (other == nullptr || other->out == other->in) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "state '", state.info.name, "' ends as the value that state '", root.what,
        "' had before its own update; make it by an op"));
  }

  // The end value may be produced at home if it is made in this call, nothing reads the start value
  // afterwards, the producing kernel may write over it if it reads it itself, and no later call
  // reads the end value after the state's next update.
  bool CanWriteAtHome(int c, int home, int end) const {
    int64_t made = storage(end).first;
    if (made < call_start_ || storage(end).home >= 0 || storage(end).merged_into >= 0) return false;
    const Draft& maker = all_.drafts[made];
    if (maker.instruction.kind != InstructionKind::kKernel) return false;
    if (storage(end).bytes != storage(home).bytes) return false;
    for (int64_t t = made + 1; t < now(); ++t) {
      for (int s : all_.drafts[t].operands) {
        if (Root(s) == home) return false;
      }
    }
    for (size_t v = 0; v < storage_of_[c].size(); ++v) {
      if (IsWithin(storage_of_[c][v], end) &&
          ReadAfterUpdate(c, static_cast<ValueId>(v), storage(home).what, c + 1)) {
        return false;
      }
    }
    return MayOverwrite(maker, end, home);
  }

  // ---- Results in place of operands.

  const Aliases& AliasesOf(const Draft& draft) const {
    const Call& call = step_.calls[draft.instruction.call];
    return executables_[call.segment].nodes[draft.instruction.node].aliases;
  }

  // REQUIRES: a kernel. Whether the kernel of `draft` may write result storage `result` over
  // storage `operand`: every position at which it reads `operand` must be allowed and be all of it,
  // and no other result may be there.
  bool MayOverwrite(const Draft& draft, int result, int operand) const {
    const Aliases& aliases = AliasesOf(draft);
    for (size_t r = 0; r < draft.results.size(); ++r) {
      if (draft.results[r] != result) {
        if (Root(draft.results[r]) == operand) return false;
        continue;
      }
      for (size_t o = 0; o < draft.operands.size(); ++o) {
        if (Root(draft.operands[o]) != operand) continue;
        if (!IsWholeRoot(draft.operands[o])) return false;
        std::pair<int, int> pair(static_cast<int>(r), static_cast<int>(o));
        if (std::find(aliases.begin(), aliases.end(), pair) == aliases.end()) return false;
      }
    }
    return true;
  }

  void TakeOverOperands() {
    for (size_t t = 0; t < all_.drafts.size(); ++t) {
      const Draft& draft = all_.drafts[t];
      if (draft.instruction.kind != InstructionKind::kKernel) continue;
      for (auto [r, o] : AliasesOf(draft)) {
        TakeOver(draft, draft.results[r], Root(draft.operands[o]), static_cast<int64_t>(t));
      }
    }
  }

  void TakeOver(const Draft& draft, int r, int o, int64_t t) {
    Storage &result = storage(r), &operand = storage(o);
    if (result.merged_into >= 0 || operand.home >= 0 || operand.last != t) return;
    if (result.bytes != operand.bytes || !MayOverwrite(draft, r, o)) return;
    result.merged_into = o;
    operand.last = std::max(operand.last, result.last);
  }

  // ---- Operands made at their places in a result.

  void PlaceOperands(bool at_home) {
    for (size_t t = 0; t < all_.drafts.size(); ++t) {
      const Draft& draft = all_.drafts[t];
      if (draft.instruction.kind != InstructionKind::kKernel) continue;
      const Call& call = step_.calls[draft.instruction.call];
      const std::vector<int64_t>& places =
          executables_[call.segment].nodes[draft.instruction.node].operand_places;
      if (places.empty()) continue;
      const int result = draft.results[0];
      if ((storage(Root(result)).home >= 0) != at_home) continue;
      if (at_home) {
        for (size_t o = 0; o < places.size(); ++o) {
          PlaceAtHome(draft.operands[o], result, places[o], static_cast<int64_t>(t));
        }
        continue;
      }
      if (!all_.IsBuffer(storage(result))) continue;
      // Largest first: they say from when on the result's memory is needed.
      std::vector<size_t> order(draft.operands.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return storage(draft.operands[a]).bytes > storage(draft.operands[b]).bytes;
      });
      for (size_t o : order) {
        PlaceOperand(draft.operands[o], result, places[o], static_cast<int64_t>(t));
      }
    }
  }

  // A small operand that is made much earlier is copied, rather than all of the result's memory
  // kept for it.
  void PlaceOperand(int o, int r, int64_t place, int64_t t) {
    const int root = Root(o);
    Storage &operand = storage(root), &result = storage(r);
    if (root == r || !all_.IsBuffer(operand) || !IsWholeRoot(o)) return;
    if (operand.bytes == 0 || operand.last != t || place % kBufferAlignment != 0) return;
    if (operand.first < result.first && operand.bytes < result.bytes / kSmallPart) return;
    operand.merged_into = r;
    operand.offset = place;
    result.first = std::min(result.first, operand.first);
  }

  // The same in a state that the result is written to at home: from when on the operand is made,
  // the state must be of no use there but for whoever makes it, who may write over what it reads.
  void PlaceAtHome(int o, int r, int64_t place, int64_t t) {
    const int root = Root(o), home = Root(r);
    Storage& operand = storage(root);
    if (!all_.IsBuffer(operand) || !IsWholeRoot(o) || operand.last != t) return;
    if (operand.bytes == 0) return;
    const int64_t first = all_.OffsetInRoot(r) + place, end = first + operand.bytes;
    if (first % kBufferAlignment != 0 || operand.first < PhaseBegin(t)) return;
    for (int64_t d = operand.first; d < t; ++d) {
      const Draft& draft = all_.drafts[d];
      auto meets = [&](int s) {
        const int64_t at = all_.OffsetInRoot(s);
        return Root(s) == home && at < end && first < at + storage(s).bytes;
      };
      for (int s : draft.results) {
        if (meets(s)) return;
      }
      for (size_t i = 0; i < draft.operands.size(); ++i) {
        if (!meets(draft.operands[i])) continue;
        if (d > operand.first || !WritesOver(draft, root, i, first)) return;
      }
    }
    operand.merged_into = home;
    operand.offset = first;
  }

  // Whether the kernel of `draft` may write the result that is storage `root` over its operand `i`,
  // which then are the same bytes of a home, from `first` on.
  bool WritesOver(const Draft& draft, int root, size_t i, int64_t first) const {
    if (draft.instruction.kind != InstructionKind::kKernel) return false;
    const int s = draft.operands[i];
    if (all_.OffsetInRoot(s) != first || storage(s).bytes != storage(root).bytes) return false;
    for (auto [result, operand] : AliasesOf(draft)) {
      if (operand == static_cast<int>(i) && Root(draft.results[result]) == root) return true;
    }
    return false;
  }

  int64_t PhaseBegin(int64_t t) const {
    int64_t begin = 0;
    for (size_t end : all_.phase_end) {
      if (static_cast<int64_t>(end) > t) break;
      begin = static_cast<int64_t>(end);
    }
    return begin;
  }

  const Step& step_;
  const std::vector<Executable>& executables_;
  const bool overlap_;
  StepStorage all_;
  std::vector<std::vector<int>> storage_of_;  // [call][value]
  absl::flat_hash_map<std::string, int> state_index_;
  std::map<std::pair<std::string, int>, std::pair<Type, int>> host_feeds_;
  absl::flat_hash_map<CallValue, int> last_reader_;  // of values that other calls read
  absl::flat_hash_map<std::string, std::vector<int>> updates_;  // calls that update a state
  absl::flat_hash_map<CallValue, int> kept_;         // what later calls read instead
  int64_t call_start_ = 0;
};

}  // namespace

absl::StatusOr<StepStorage> FindStorage(const Step& step,
                                        const std::vector<Executable>& executables,
                                        bool overlap) {
  CHECK_EQ(step.segments.size(), executables.size());
  return StorageFinder(step, executables, overlap).Run();
}

}  // namespace colossus
