#include "tensor/exec/memory_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/exec/interval_allocator.h"

namespace colossus {
namespace {

int64_t Aligned(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Memory that one or more values share. `home`: index of the state it belongs to, or -1.
struct Storage {
  std::string what;
  int64_t bytes = 0;
  int64_t first = -1, last = -1;  // instructions
  int home = -1;
  int merged_into = -1;           // its bytes are part of that storage
  int64_t offset = 0;
};

// An instruction before its buffers have offsets.
struct Draft {
  Instruction instruction;
  std::vector<int> operands, results;  // storages
  int workspace = -1;                  // storage
};

class Planner {
 public:
  Planner(const Step& step, const std::vector<Executable>& executables)
      : step_(step), executables_(executables) {}

  absl::StatusOr<MemoryPlan> Run() {
    FindCarried();
    for (size_t c = 0; c < step_.calls.size(); ++c) RETURN_IF_ERROR(AddCall(static_cast<int>(c)));
    FinishPhases();
    TakeOverOperands();
    PlaceStates();
    PlaceBuffers();
    PlaceStaging();
    Emit();
    FindContributors();
    return std::move(plan_);
  }

 private:
  // ---- Which storage a value has.

  void FindCarried() {
    for (const Call& call : step_.calls) {
      for (const FeedSource& source : call.sources) {
        if (source.call >= 0) carried_.insert({source.call, source.value});
      }
    }
    storage_of_.resize(step_.calls.size());
  }

  int NewStorage(std::string what, int64_t bytes) {
    Storage storage;
    storage.what = std::move(what);
    storage.bytes = Aligned(bytes);
    storages_.push_back(std::move(storage));
    return static_cast<int>(storages_.size()) - 1;
  }

  int Root(int storage) const {
    while (storages_[storage].merged_into >= 0) storage = storages_[storage].merged_into;
    return storage;
  }

  absl::StatusOr<int> StorageOfState(const State& state, const Type& type) {
    auto found = state_index_.find(state.info.name);
    if (found != state_index_.end()) {
      const StateHome& home = plan_.states[found->second];
      if (home.type != type) {
        return absl::InvalidArgumentError(absl::StrCat(
            "state '", state.info.name, "' is ", ToString(home.type), " in one segment and ",
            ToString(type), " in another"));
      }
      return state_storage_[found->second];
    }
    int index = static_cast<int>(plan_.states.size());
    state_index_[state.info.name] = index;
    plan_.states.push_back({state.info, type, {0, type.bytes()}});
    int storage = NewStorage(state.info.name, type.bytes());
    storages_[storage].home = index;
    state_storage_.push_back(storage);
    return storage;
  }

  int64_t now() const { return static_cast<int64_t>(drafts_.size()); }

  void Read(int storage) { storages_[storage].last = std::max(storages_[storage].last, now()); }
  void Write(int storage) {
    if (storages_[storage].first < 0) storages_[storage].first = now();
    Read(storage);
  }

  void Push(Draft draft) {
    for (int s : draft.operands) Read(s);
    for (int s : draft.results) Write(s);
    if (draft.workspace >= 0) Write(draft.workspace);
    drafts_.push_back(std::move(draft));
  }

  // ---- Instructions of one call.

  absl::Status AddCall(int c) {
    const Call& call = step_.calls[c];
    while (static_cast<int>(plan_.phase_end.size()) < call.phase) {
      plan_.phase_end.push_back(drafts_.size());
    }
    const Graph& graph = step_.graph_of(call);
    std::vector<int>& storage_of = storage_of_[c];
    storage_of.assign(graph.values().size(), -1);
    call_start_ = now();
    for (const State& state : graph.states()) {
      ASSIGN_OR_RETURN(storage_of[state.in],
                       StorageOfState(state, graph.value(state.in).type));
    }
    for (size_t f = 0; f < graph.feeds().size(); ++f) {
      storage_of[graph.feeds()[f]] = StorageOfFeed(c, graph.feeds()[f], call.sources[f]);
    }
    for (size_t n = 0; n < graph.nodes().size(); ++n) AddNode(c, static_cast<NodeId>(n));
    RETURN_IF_ERROR(SendStatesHome(c));
    AddFetches(c);
    return absl::OkStatus();
  }

  int StorageOfFeed(int c, ValueId feed, const FeedSource& source) {
    if (source.call >= 0) return storage_of_[source.call][source.value];
    const Call& call = step_.calls[c];
    const Value& value = step_.graph_of(call).value(feed);
    auto [it, added] = host_feeds_.try_emplace({value.name, call.micro_batch}, -1);
    if (!added) return it->second;
    it->second = NewStorage(value.name, value.type.bytes());
    Draft draft;
    draft.instruction.kind = InstructionKind::kFeed;
    draft.instruction.call = c;
    draft.instruction.name = value.name;
    draft.instruction.micro_batch = call.micro_batch;
    draft.instruction.type = value.type;
    draft.results = {it->second};
    Push(std::move(draft));
    return it->second;
  }

  void AddNode(int c, NodeId n) {
    const Call& call = step_.calls[c];
    const Graph& graph = step_.graph_of(call);
    const Node& node = graph.node(n);
    const CompiledNode& compiled = executables_[call.segment].nodes[n];
    std::vector<int>& storage_of = storage_of_[c];
    if (compiled.kernel == nullptr) {
      storage_of[node.results[0]] = storage_of[node.operands[0]];
      return;
    }
    Draft draft;
    draft.instruction.call = c;
    draft.instruction.node = n;
    for (ValueId v : node.operands) draft.operands.push_back(storage_of[v]);
    for (ValueId v : node.results) {
      storage_of[v] = NewStorage(graph.value(v).name, graph.value(v).type.bytes());
      draft.results.push_back(storage_of[v]);
    }
    if (compiled.kernel->workspace_bytes > 0) {
      draft.workspace = NewStorage(
          absl::StrCat("workspace of ", graph.value(node.results[0]).name),
          compiled.kernel->workspace_bytes);
    }
    Push(std::move(draft));
  }

  // ---- End values of states.

  absl::Status SendStatesHome(int c) {
    const Graph& graph = step_.graph_of(step_.calls[c]);
    std::vector<Draft> copies;
    for (const State& state : graph.states()) {
      if (state.out == state.in) continue;
      int home = storage_of_[c][state.in], end = storage_of_[c][state.out];
      if (end == home) continue;
      if (storages_[end].home >= 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "state '", state.info.name, "' ends as the value of another state, '",
            storages_[end].what, "'"));
      }
      if (CanWriteAtHome(c, state, home, end)) {
        storages_[end].merged_into = home;
        continue;
      }
      Draft copy;
      copy.instruction.kind = InstructionKind::kCopy;
      copy.instruction.call = c;
      copy.operands = {end};
      copy.results = {home};
      copies.push_back(std::move(copy));
    }
    for (Draft& copy : copies) Push(std::move(copy));
    return absl::OkStatus();
  }

  // The end value may be produced at home if nothing reads the start value afterwards, the
  // producing kernel may write over it if it reads it itself, and no later call reads the end
  // value as a carried value, which a later update of the state could overwrite.
  bool CanWriteAtHome(int c, const State& state, int home, int end) const {
    int64_t made = storages_[end].first;
    if (made < call_start_ || carried_.contains({c, state.out})) return false;
    if (drafts_[made].instruction.kind != InstructionKind::kKernel) return false;
    if (storages_[end].merged_into >= 0 || storages_[end].bytes != storages_[home].bytes) {
      return false;
    }
    for (int64_t t = made + 1; t < now(); ++t) {
      for (int s : drafts_[t].operands) {
        if (s == home) return false;
      }
    }
    return MayOverwrite(drafts_[made], end, home);
  }

  // REQUIRES: a kernel. Whether the kernel of `draft` may write result storage `result` over
  // storage `operand`: every position at which it reads `operand` must be allowed.
  bool MayOverwrite(const Draft& draft, int result, int operand) const {
    const Call& call = step_.calls[draft.instruction.call];
    const Aliases& aliases = executables_[call.segment].nodes[draft.instruction.node].aliases;
    for (size_t r = 0; r < draft.results.size(); ++r) {
      if (draft.results[r] != result) continue;
      for (size_t o = 0; o < draft.operands.size(); ++o) {
        if (Root(draft.operands[o]) != operand) continue;
        std::pair<int, int> pair(static_cast<int>(r), static_cast<int>(o));
        if (std::find(aliases.begin(), aliases.end(), pair) == aliases.end()) return false;
      }
    }
    return true;
  }

  void AddFetches(int c) {
    const Call& call = step_.calls[c];
    const Graph& graph = step_.graph_of(call);
    for (const std::string& name : step_.segments[call.segment].fetched) {
      ValueId v = graph.FindOutput(name);
      CHECK(v != kNoValue) << "'" << name << "' is not an output of " << graph.name();
      Draft draft;
      draft.instruction.kind = InstructionKind::kFetch;
      draft.instruction.call = c;
      draft.instruction.name = name;
      draft.instruction.micro_batch = call.micro_batch;
      draft.instruction.type = graph.value(v).type;
      draft.operands = {storage_of_[c][v]};
      Push(std::move(draft));
    }
  }

  void FinishPhases() {
    while (plan_.phase_end.size() < step_.phases.size()) {
      plan_.phase_end.push_back(drafts_.size());
    }
  }

  // ---- Results in place of operands.

  void TakeOverOperands() {
    // Lifetimes of storages that are parts of others already.
    for (Storage& storage : storages_) {
      if (storage.merged_into < 0) continue;
      Storage& root = storages_[Root(storage.merged_into)];
      root.last = std::max(root.last, storage.last);
    }
    for (size_t t = 0; t < drafts_.size(); ++t) {
      if (drafts_[t].instruction.kind != InstructionKind::kKernel) continue;
      TakeOver(drafts_[t], static_cast<int64_t>(t));
    }
  }

  void TakeOver(const Draft& draft, int64_t t) {
    const Call& call = step_.calls[draft.instruction.call];
    const Aliases& aliases = executables_[call.segment].nodes[draft.instruction.node].aliases;
    for (auto [r, o] : aliases) {
      Storage& result = storages_[draft.results[r]];
      int operand_root = Root(draft.operands[o]);
      Storage& operand = storages_[operand_root];
      if (result.merged_into >= 0 || operand.home >= 0 || operand.last != t) continue;
      if (result.bytes != operand.bytes || !MayOverwrite(draft, draft.results[r], operand_root)) {
        continue;
      }
      result.merged_into = operand_root;
      operand.last = std::max(operand.last, result.last);
    }
  }

  // ---- Offsets.

  void PlaceStates() {
    std::vector<int> order(plan_.states.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const StateHome &x = plan_.states[a], &y = plan_.states[b];
      return std::make_pair(x.info.role, x.type.dtype) < std::make_pair(y.info.role, y.type.dtype);
    });
    std::vector<StateHome> states;
    for (int i : order) {
      Storage& storage = storages_[state_storage_[i]];
      storage.offset = plan_.state_bytes;
      plan_.states[i].range.offset = plan_.state_bytes;
      plan_.state_bytes += storage.bytes;
      states.push_back(plan_.states[i]);
    }
    plan_.states = std::move(states);
  }

  void PlaceBuffers() {
    std::vector<LiveBuffer> buffers;
    std::vector<int> owners;
    for (size_t s = 0; s < storages_.size(); ++s) {
      const Storage& storage = storages_[s];
      if (storage.home >= 0 || storage.merged_into >= 0 || storage.first < 0) continue;
      buffers.push_back({storage.bytes, storage.first, storage.last, 0});
      owners.push_back(static_cast<int>(s));
    }
    plan_.device_bytes = plan_.state_bytes + AssignOffsets(buffers);
    for (size_t b = 0; b < buffers.size(); ++b) {
      storages_[owners[b]].offset = plan_.state_bytes + buffers[b].offset;
    }
  }

  // Staging lives until its phase ends, when all copies have run.
  void PlaceStaging() {
    std::vector<LiveBuffer> buffers;
    std::vector<size_t> owners;
    for (size_t t = 0; t < drafts_.size(); ++t) {
      const Instruction& instruction = drafts_[t].instruction;
      if (instruction.kind != InstructionKind::kFeed &&
          instruction.kind != InstructionKind::kFetch) {
        continue;
      }
      size_t phase = 0;
      while (plan_.phase_end[phase] <= t) ++phase;
      buffers.push_back({Aligned(instruction.type.bytes()), static_cast<int64_t>(t),
                         static_cast<int64_t>(plan_.phase_end[phase]) - 1, 0});
      owners.push_back(t);
    }
    plan_.host_bytes = AssignOffsets(buffers);
    for (size_t b = 0; b < buffers.size(); ++b) {
      Instruction& instruction = drafts_[owners[b]].instruction;
      instruction.staging = {buffers[b].offset, instruction.type.bytes()};
    }
  }

  // ---- The plan.

  BufferRange RangeOf(int storage) const {
    return {storages_[Root(storage)].offset, storages_[storage].bytes};
  }

  void Emit() {
    plan_.freed.resize(drafts_.size());
    for (Draft& draft : drafts_) {
      Instruction& instruction = draft.instruction;
      for (int s : draft.operands) instruction.operands.push_back(RangeOf(s));
      for (int s : draft.results) instruction.results.push_back(RangeOf(s));
      if (draft.workspace >= 0) instruction.workspace = RangeOf(draft.workspace);
      plan_.instructions.push_back(std::move(instruction));
    }
    for (const Storage& storage : storages_) {
      if (storage.home >= 0 || storage.merged_into >= 0 || storage.first < 0) continue;
      if (storage.bytes > 0) plan_.freed[storage.last].push_back({storage.offset, storage.bytes});
    }
  }

  void FindContributors() {
    std::vector<int64_t> change(drafts_.size() + 1, 0);
    for (const Storage& storage : storages_) {
      if (storage.home >= 0 || storage.merged_into >= 0 || storage.first < 0) continue;
      change[storage.first] += storage.bytes;
      change[storage.last + 1] -= storage.bytes;
    }
    int64_t live = 0, most = -1, peak = 0;
    for (size_t t = 0; t < drafts_.size(); ++t) {
      live += change[t];
      if (live > most) {
        most = live;
        peak = static_cast<int64_t>(t);
      }
    }
    for (const Storage& storage : storages_) {
      bool state = storage.home >= 0;
      bool alive = storage.merged_into < 0 && storage.first >= 0 && storage.first <= peak &&
                   peak <= storage.last;
      if (state || alive) plan_.contributors.push_back({storage.what, storage.bytes});
    }
    std::stable_sort(plan_.contributors.begin(), plan_.contributors.end(),
                     [](const Contributor& a, const Contributor& b) { return a.bytes > b.bytes; });
    if (plan_.contributors.size() > 5) plan_.contributors.resize(5);
  }

  const Step& step_;
  const std::vector<Executable>& executables_;
  MemoryPlan plan_;
  std::vector<Storage> storages_;
  std::vector<Draft> drafts_;
  std::vector<std::vector<int>> storage_of_;  // [call][value]
  absl::flat_hash_map<std::string, int> state_index_;
  std::vector<int> state_storage_;            // by state index in first-use order
  std::map<std::pair<std::string, int>, int> host_feeds_;
  absl::flat_hash_set<std::pair<int, ValueId>> carried_;
  int64_t call_start_ = 0;
};

}  // namespace

const StateHome* MemoryPlan::FindState(absl::string_view name) const {
  for (const StateHome& home : states) {
    if (home.info.name == name) return &home;
  }
  return nullptr;
}

absl::StatusOr<MemoryPlan> PlanMemory(const Step& step,
                                      const std::vector<Executable>& executables) {
  CHECK_EQ(step.segments.size(), executables.size());
  return Planner(step, executables).Run();
}

absl::Status CheckFits(const MemoryPlan& plan, int64_t capacity_bytes) {
  if (plan.device_bytes <= capacity_bytes) return absl::OkStatus();
  std::string message = absl::StrCat("the device has ", capacity_bytes, " bytes, the plan needs ",
                                     plan.device_bytes, " (", plan.state_bytes,
                                     " of state). Largest at the peak:");
  for (const Contributor& contributor : plan.contributors) {
    absl::StrAppend(&message, "\n  ", contributor.bytes, " bytes  ", contributor.what);
  }
  absl::StrAppend(&message, "\nIt would fit with a device memory of ", plan.device_bytes,
                  " bytes, or with a smaller micro-batch, a shorter sequence or recomputation.");
  return absl::ResourceExhaustedError(message);
}

}  // namespace colossus
