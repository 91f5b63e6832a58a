#include "collectives/in_process.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "collectives/direct.h"
#include "collectives/operation.h"
#include "collectives/wait_word.h"

namespace colossus {
namespace {

constexpr int kSpins = 4000;      // some tens of microseconds
constexpr uint32_t kRecords = 8;  // operations of a rank that are remembered, for reports

int Cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// Of counters that may run over.
bool Reached(uint32_t value, uint32_t target) { return static_cast<int32_t>(value - target) >= 0; }

class Group;

}  // namespace

class InProcessWorld::State {
 public:
  explicit State(const InProcessOptions& options)
      : options_(options),
        spins_(options.ranks * options.threads <= Cores() ? kSpins : 0),
        where_(static_cast<size_t>(options.ranks)) {}

  const InProcessOptions& options() const { return options_; }
  int spins() const { return spins_; }
  bool failed() const { return failed_.load(std::memory_order_seq_cst); }

  // The first failure counts. `code` is what the other ranks' operations return.
  void Fail(const absl::Status& why, absl::StatusCode code) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failed_) return;
    first_ = why;
    for_all_ = absl::Status(code, why.message());
    failed_.store(true, std::memory_order_seq_cst);
  }
  // Of a rank, told with its place.
  void FailRank(int rank, const absl::Status& why) {
    Fail(absl::Status(why.code(), absl::StrCat("rank ", rank, " failed", WhereText(rank), ": ",
                                               why.ToString())),
         absl::StatusCode::kAborted);
  }
  absl::Status ForAll() {
    std::lock_guard<std::mutex> lock(mutex_);
    return for_all_;
  }
  absl::Status First() {
    std::lock_guard<std::mutex> lock(mutex_);
    return first_;
  }

  void SetWhere(int rank, int64_t step, absl::string_view phase) {
    std::lock_guard<std::mutex> lock(where_mutex_);
    where_[static_cast<size_t>(rank)] = {step, std::string(phase)};
  }
  std::string WhereText(int rank) {
    std::lock_guard<std::mutex> lock(where_mutex_);
    const Where& where = where_[static_cast<size_t>(rank)];
    if (where.step < 0) return "";
    return absl::StrCat(" at step ", where.step, " in phase ", where.phase);
  }

  // The nth group that is made under this path.
  std::shared_ptr<Group> FindOrMake(const std::string& path, size_t nth, absl::string_view name,
                                    const std::vector<int>& members);

 private:
  struct Where {
    int64_t step = -1;
    std::string phase;
  };

  const InProcessOptions options_;
  const int spins_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  absl::Status first_, for_all_;                                       // guarded by mutex_
  std::map<std::string, std::vector<std::shared_ptr<Group>>> groups_;  // guarded by mutex_
  std::mutex where_mutex_;
  std::vector<Where> where_;  // guarded by where_mutex_
};

namespace {

// What one rank shows the others of its group.
struct alignas(64) Slot {
  std::atomic<const Collective*> current{nullptr};
  WaitWord published;                // number of the operation in `current`
  WaitWord taken;                    // the last exchange whose receiver has the data
  std::atomic<bool> copying{false};  // reads or writes buffers of others
  std::atomic<bool> left{false};
  std::mutex mutex;
  Collective records[kRecords];  // of operation i at i % kRecords; guarded by mutex
};

class Group {
 public:
  Group(InProcessWorld::State* world, std::string name, std::vector<int> members)
      : world_(world),
        name_(std::move(name)),
        members_(std::move(members)),
        slots_(members_.size()) {}

  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }
  Slot& slot(int rank) { return slots_[static_cast<size_t>(rank)]; }

  // All for `rank`'s operation number `turn`, counted from 1.
  absl::Status RunWhole(const Collective& operation, int rank, uint32_t turn, uint32_t whole_turn);
  absl::Status RunExchange(const Collective& operation, int rank, uint32_t turn);
  void Leave(int rank) {
    slot(rank).left.store(true);
    left_.fetch_add(1);
  }

 private:
  // Marks that `rank` uses other ranks' buffers; false if the world has failed.
  class Copying;

  void Publish(const Collective& operation, int rank, uint32_t turn);
  class Wait;
  absl::Status Fail(int rank, uint32_t turn, int other, absl::string_view what);
  absl::Status Failed();
  bool MatchesEnd(const Collective& operation, int rank, uint32_t turn, int peer);
  absl::Status Receive(const Collective& operation, int rank, uint32_t turn);
  std::string TextOf(int rank, uint32_t turn);
  int Threads() const;

  InProcessWorld::State* const world_;
  const std::string name_;
  const std::vector<int> members_;  // ranks of the world
  std::vector<Slot> slots_;
  WaitWord arrived_, finished_;  // of whole-group operations, over all ranks
  std::atomic<int> left_{0};
};

class Group::Copying {
 public:
  Copying(Group& group, int rank) : slot_(group.slot(rank)) {
    slot_.copying.store(true, std::memory_order_seq_cst);
    allowed_ = !group.world_->failed();
  }
  ~Copying() { slot_.copying.store(false, std::memory_order_seq_cst); }
  bool allowed() const { return allowed_; }

 private:
  Slot& slot_;
  bool allowed_;
};

int Group::Threads() const {
  const int threads = world_->options().threads;
  return threads > 1 && colossus::Threads() == threads ? threads : 1;
}

void Group::Publish(const Collective& operation, int rank, uint32_t turn) {
  Slot& own = slot(rank);
  {
    std::lock_guard<std::mutex> lock(own.mutex);
    own.records[turn % kRecords] = operation;
  }
  own.current.store(&operation, std::memory_order_release);
  own.published.Store(turn);
  own.published.Wake();
}

// When one operation's waiting is over without success.
class Group::Wait {
 public:
  Wait(Group& group, int rank, uint32_t turn) : group_(group), rank_(rank), turn_(turn) {}

  // True when the world has failed or `awaited` (-1: any rank) has left without coming to this
  // operation. Then the world gets some time to fail for the reason of that rank's leaving.
  bool IsOver(int awaited) {
    if (group_.world_->failed()) return true;
    if (group_.left_.load() == 0) return false;
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (awaited >= 0 && peer != awaited) continue;
      Slot& other = group_.slot(peer);
      if (!other.left.load() || Reached(other.published.Load(), turn_)) continue;
      const auto now = std::chrono::steady_clock::now();
      if (!missed_) {
        missed_ = true;
        missed_since_ = now;
      }
      if (now - missed_since_ < kGrace) return false;
      group_.Fail(rank_, turn_, peer, "one rank has left").IgnoreError();
      return true;
    }
    return false;
  }

 private:
  static constexpr std::chrono::seconds kGrace{1};

  Group& group_;
  const int rank_;
  const uint32_t turn_;
  bool missed_ = false;
  std::chrono::steady_clock::time_point missed_since_;
};

std::string Group::TextOf(int rank, uint32_t turn) {
  Slot& shown = slot(rank);
  const uint32_t last = shown.published.Load();
  std::string text = absl::StrCat("rank ", members_[static_cast<size_t>(rank)]);
  std::lock_guard<std::mutex> lock(shown.mutex);
  if (!Reached(last, turn)) {
    absl::StrAppend(&text, shown.left ? " has left" : " has not come");
    if (last == 0) return text + " and has issued nothing in this group";
    return absl::StrCat(text, "; its last was operation ", last, ": ",
                        Describe(shown.records[last % kRecords]));
  }
  if (last - turn >= kRecords) return absl::StrCat(text, " is already at operation ", last);
  return absl::StrCat(text, ": operation ", turn, ", ", Describe(shown.records[turn % kRecords]));
}

absl::Status Group::Fail(int rank, uint32_t turn, int other, absl::string_view what) {
  world_->Fail(absl::InvalidArgumentError(
                   absl::StrCat("collectives of group ", name_, " [", absl::StrJoin(members_, ","),
                                "] do not match: ", what, "; ", TextOf(std::min(rank, other), turn),
                                "; ", TextOf(std::max(rank, other), turn))),
               absl::StatusCode::kInvalidArgument);
  return Failed();
}

// Returns the world's error once nobody uses this group's buffers any more.
absl::Status Group::Failed() {
  for (Slot& other : slots_) {
    while (other.copying.load(std::memory_order_seq_cst)) std::this_thread::yield();
  }
  return world_->ForAll();
}

absl::Status Group::RunWhole(const Collective& operation, int rank, uint32_t turn,
                             uint32_t whole_turn) {
  Wait wait(*this, rank, turn);
  const auto stop = [&] { return wait.IsOver(-1); };
  const uint32_t target = whole_turn * static_cast<uint32_t>(size());
  Publish(operation, rank, turn);
  if (arrived_.Add(1) == target) arrived_.Wake();
  if (!arrived_.WaitFor(target, world_->spins(), stop)) return Failed();
  int mismatch = -1;
  std::string what;
  {
    const Copying copying(*this, rank);
    if (!copying.allowed()) mismatch = rank;
    absl::InlinedVector<const Collective*, 16> operations;
    for (int peer = 0; peer < size() && mismatch < 0; ++peer) {
      operations.push_back(slot(peer).current.load(std::memory_order_acquire));
      if (!world_->options().check || peer == rank) continue;
      what = slot(peer).published.Load() == turn
                 ? MismatchOf(operation, rank, *operations.back(), peer)
                 : "operation numbers";
      if (!what.empty()) mismatch = peer;
    }
    if (mismatch < 0) DoPart(operations, rank, Threads());
  }
  if (mismatch == rank) return Failed();
  if (mismatch >= 0) return Fail(rank, turn, mismatch, what);
  if (finished_.Add(1) == target) finished_.Wake();
  if (!finished_.WaitFor(target, world_->spins(), stop)) return Failed();
  return absl::OkStatus();
}

// Whether `peer`, which has come to operation `turn`, may have issued the other end of an exchange.
bool Group::MatchesEnd(const Collective& operation, int rank, uint32_t turn, int peer) {
  Slot& other = slot(peer);
  std::lock_guard<std::mutex> lock(other.mutex);
  if (other.published.Load() != turn) return false;  // went on without the other end
  return MismatchOf(operation, rank, other.records[turn % kRecords], peer).empty();
}

absl::Status Group::Receive(const Collective& operation, int rank, uint32_t turn) {
  Slot& sender = slot(operation.from);
  Wait wait(*this, rank, turn);
  const auto stop = [&] { return wait.IsOver(operation.from); };
  if (!sender.published.WaitFor(turn, world_->spins(), stop)) return Failed();
  // A sender stays in its operation until the data has been taken.
  if (!MatchesEnd(operation, rank, turn, operation.from)) {
    return Fail(rank, turn, operation.from, "ends");
  }
  {
    const Copying copying(*this, rank);
    if (copying.allowed()) {
      absl::InlinedVector<const Collective*, 16> operations(static_cast<size_t>(size()));
      operations[static_cast<size_t>(rank)] = &operation;
      operations[static_cast<size_t>(operation.from)] = sender.current.load();
      DoPart(operations, rank, Threads());
    }
  }
  if (world_->failed()) return Failed();
  sender.taken.Store(turn);
  sender.taken.Wake();
  return absl::OkStatus();
}

absl::Status Group::RunExchange(const Collective& operation, int rank, uint32_t turn) {
  Publish(operation, rank, turn);
  if (operation.from >= 0) RETURN_IF_ERROR(Receive(operation, rank, turn));
  if (operation.to < 0) return absl::OkStatus();
  Slot& own = slot(rank);
  Slot& receiver = slot(operation.to);
  Wait wait(*this, rank, turn);
  bool mismatch = false;
  const auto stop = [&] {
    if (wait.IsOver(operation.to)) return true;
    if (!Reached(receiver.published.Load(), turn)) return false;
    const bool matches = MatchesEnd(operation, rank, turn, operation.to);
    mismatch = !matches && !Reached(own.taken.Load(), turn);
    return mismatch;
  };
  if (own.taken.WaitFor(turn, world_->spins(), stop)) return absl::OkStatus();
  return mismatch ? Fail(rank, turn, operation.to, "ends") : Failed();
}

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<InProcessWorld::State> world, std::shared_ptr<Group> group,
                        std::string path, int rank)
      : world_(std::move(world)), group_(std::move(group)), path_(std::move(path)), rank_(rank) {}
  ~InProcessCommunicator() override { group_->Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  absl::Status Run(const Collective& operation) override {
    if (world_->failed()) return world_->ForAll();
    if (absl::Status valid = Validate(operation, rank_, size()); !valid.ok()) {
      world_->FailRank(world_rank(), valid);
      return valid;
    }
    ++turn_;
    if (operation.kind == CollectiveKind::kExchange) {
      RETURN_IF_ERROR(group_->RunExchange(operation, rank_, turn_));
    } else {
      RETURN_IF_ERROR(group_->RunWhole(operation, rank_, turn_, ++whole_turn_));
    }
    Count(DirectCounts(operation, rank_, size()));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Subgroup(const std::vector<int>& members,
                                                         absl::string_view name) override {
    RETURN_IF_ERROR(ValidateMembers(members, rank_, size()));
    std::vector<int> world_ranks;
    for (int member : members) {
      world_ranks.push_back(group_->members()[static_cast<size_t>(member)]);
    }
    const std::string path = absl::StrCat(path_, "/", name, ":", absl::StrJoin(members, ","));
    const size_t nth = made_[path]++;
    std::shared_ptr<Group> group = world_->FindOrMake(path, nth, name, world_ranks);
    return std::make_unique<InProcessCommunicator>(
        world_, std::move(group), absl::StrCat(path, "#", nth), IndexOf(members, rank_));
  }

  void Abort(const absl::Status& why) override { world_->FailRank(world_rank(), why); }

  CollectiveCounts counts() const override {
    std::lock_guard<std::mutex> lock(counts_mutex_);
    return counts_;
  }

  void SetWhere(int64_t step, absl::string_view phase) override {
    world_->SetWhere(world_rank(), step, phase);
  }

 private:
  int world_rank() const { return group_->members()[static_cast<size_t>(rank_)]; }
  void Count(const CollectiveCounts& more) {
    std::lock_guard<std::mutex> lock(counts_mutex_);
    counts_.operations += more.operations;
    counts_.messages += more.messages;
    counts_.elements += more.elements;
    counts_.bytes += more.bytes;
  }

  const std::shared_ptr<InProcessWorld::State> world_;
  const std::shared_ptr<Group> group_;
  const std::string path_;
  const int rank_;
  uint32_t turn_ = 0, whole_turn_ = 0;
  std::map<std::string, size_t> made_;  // subgroups, by path
  mutable std::mutex counts_mutex_;
  CollectiveCounts counts_;  // guarded by counts_mutex_
};

}  // namespace

std::shared_ptr<Group> InProcessWorld::State::FindOrMake(const std::string& path, size_t nth,
                                                         absl::string_view name,
                                                         const std::vector<int>& members) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Group>>& groups = groups_[path];
  if (groups.size() == nth) {
    groups.push_back(std::make_shared<Group>(this, std::string(name), members));
  }
  CHECK_LT(nth, groups.size());
  return groups[nth];
}

InProcessWorld::InProcessWorld(const InProcessOptions& options)
    : state_(std::make_shared<State>(options)) {
  CHECK_GE(options.ranks, 1);
  CHECK_GE(options.threads, 1);
}

InProcessWorld::~InProcessWorld() = default;

std::unique_ptr<Communicator> InProcessWorld::Join(int rank) {
  const int ranks = state_->options().ranks;
  CHECK(rank >= 0 && rank < ranks) << "rank " << rank << " of " << ranks;
  std::vector<int> members(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) members[static_cast<size_t>(r)] = r;
  return std::make_unique<InProcessCommunicator>(
      state_, state_->FindOrMake("world", 0, "world", members), "world", rank);
}

absl::Status InProcessWorld::status() const { return state_->First(); }

absl::Status RunRanks(const InProcessOptions& options,
                      const std::function<absl::Status(Communicator& world)>& rank) {
  InProcessWorld world(options);
  std::vector<std::thread> threads;
  for (int r = 0; r < options.ranks; ++r) {
    threads.emplace_back([&, r, own = world.Join(r)] {
      SetThreads(options.threads);
      const absl::Status status = rank(*own);
      if (!status.ok()) own->Abort(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return world.status();
}

}  // namespace colossus
