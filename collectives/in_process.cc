#include "collectives/in_process.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "collectives/direct.h"
#include "collectives/operation.h"
#include "collectives/wait_word.h"
#include "collectives/watch/operation_record.h"
#include "collectives/watch/rank_table.h"
#include "collectives/watch/shared_value.h"
#include "collectives/watch/stall.h"

namespace colossus {
namespace {

constexpr int kSpins = 4000;      // some tens of microseconds
constexpr uint32_t kRecords = 8;  // operations of a rank that are remembered, for reports

// Of counters that may run over.
bool Reached(uint32_t value, uint32_t target) { return static_cast<int32_t>(value - target) >= 0; }

class Group;

}  // namespace

class InProcessWorld::State {
 public:
  explicit State(const InProcessOptions& options)
      : options_(options),
        spins_(options.ranks * options.threads <= Cores() ? kSpins : 0),
        rows_(static_cast<size_t>(options.ranks)),
        table_(&head_, rows_.data(), options.ranks) {}

  const InProcessOptions& options() const { return options_; }
  int spins() const { return spins_; }
  RankTable& table() { return table_; }
  Clock& clock() { return clock_; }
  bool failed() const { return table_.failed(); }

  void FailRank(int rank, const absl::Status& why) {
    table_.Fail(table_.FailureOf(rank, why));
    table_.row(rank).SetLife(RankLife::kFailed);
  }

  // The nth group that is made under this path.
  std::shared_ptr<Group> FindOrMake(const std::string& path, size_t nth, absl::string_view name,
                                    const std::vector<int>& members);

 private:
  const InProcessOptions options_;
  const int spins_;
  RankTableHead head_;
  std::vector<RankRow> rows_;
  RankTable table_;
  RealClock clock_;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::shared_ptr<Group>>> groups_;  // guarded by mutex_
};

namespace {

// What one rank shows the others of its group.
struct alignas(64) Slot {
  std::atomic<const Collective*> current{nullptr};
  WaitWord published;                // number of the operation in `current`
  WaitWord taken;                    // the last exchange whose receiver has the data
  std::atomic<bool> copying{false};  // reads or writes buffers of others
  std::atomic<bool> left{false};
  SharedValue<OperationRecord> records[kRecords];  // of operation i at i % kRecords
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

  // Operation number `turn`, counted from 1, of `rank`; of those of the whole group, `whole_turn`.
  absl::Status Run(const Collective& operation, int rank, uint32_t turn, uint32_t whole_turn);
  void Leave(int rank) {
    slot(rank).left.store(true);
    left_.fetch_add(1);
  }

 private:
  // Marks that `rank` uses other ranks' buffers; false if the world has failed.
  class Copying;

  absl::Status RunWhole(const Collective& operation, int rank, uint32_t turn, uint32_t whole_turn);
  absl::Status RunExchange(const Collective& operation, int rank, uint32_t turn);
  void Publish(const Collective& operation, const OperationRecord& record, int rank, uint32_t turn);
  class Wait;
  absl::Status Fail(int rank, uint32_t turn, int other, absl::string_view what);
  absl::Status Failed();
  bool MatchesEnd(int rank, uint32_t turn, int peer);
  absl::Status Receive(const Collective& operation, int rank, uint32_t turn);
  std::string TextOf(int rank, uint32_t turn);
  int Threads() const;
  // Gives a sign of life of the rank.
  std::function<void()> BeatOf(int rank) {
    return [&row = world_->table().row(members_[static_cast<size_t>(rank)])] { row.Beat(); };
  }

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

absl::Status Group::Run(const Collective& operation, int rank, uint32_t turn, uint32_t whole_turn) {
  const OperationRecord record =
      RecordOf(operation, name_, reinterpret_cast<uint64_t>(this), rank, size(), turn);
  RankRow& row = world_->table().row(members_[static_cast<size_t>(rank)]);
  const int place = row.BeginWait(record);
  Publish(operation, record, rank, turn);
  const absl::Status status = operation.kind == CollectiveKind::kExchange
                                  ? RunExchange(operation, rank, turn)
                                  : RunWhole(operation, rank, turn, whole_turn);
  row.EndWait(place, status.ok() ? &record : nullptr);
  return status;
}

void Group::Publish(const Collective& operation, const OperationRecord& record, int rank,
                    uint32_t turn) {
  Slot& own = slot(rank);
  own.records[turn % kRecords].Store(record);
  own.current.store(&operation, std::memory_order_release);
  own.published.Store(turn);
  own.published.Wake();
}

// When one operation's waiting is over without success.
class Group::Wait {
 public:
  Wait(Group& group, int rank, uint32_t turn)
      : group_(group),
        rank_(rank),
        turn_(turn),
        watch_(group.world_->table(), group.world_->options().watch, group.world_->clock(),
               group.members_[static_cast<size_t>(rank)], {}) {}

  // True when the world has failed or `awaited` (-1: any rank) has left without coming to this
  // operation. Then the world gets some time to fail for the reason of that rank's leaving.
  bool IsOver(int awaited) {
    if (group_.world_->failed()) return true;
    return group_.left_.load() == 0 ? watch_.IsOver() : IsLeft(awaited);
  }

 private:
  bool IsLeft(int awaited) {
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (awaited >= 0 && peer != awaited) continue;
      Slot& other = group_.slot(peer);
      if (!other.left.load() || Reached(other.published.Load(), turn_)) continue;
      const double now = group_.world_->clock().Seconds();
      if (left_since_ < 0) left_since_ = now;
      if (now - left_since_ < group_.world_->options().watch.left_seconds) return false;
      group_.Fail(rank_, turn_, peer, "one rank has left").IgnoreError();
      return true;
    }
    return watch_.IsOver();
  }

  Group& group_;
  const int rank_;
  const uint32_t turn_;
  StallWatch watch_;
  double left_since_ = -1;
};

std::string Group::TextOf(int rank, uint32_t turn) {
  Slot& shown = slot(rank);
  const uint32_t last = shown.published.Load();
  const std::string text = absl::StrCat("rank ", members_[static_cast<size_t>(rank)]);
  if (!Reached(last, turn)) {
    return absl::StrCat(text, shown.left ? " has left" : " has not come", "; its last is ",
                        Describe(shown.records[last % kRecords].Load()));
  }
  if (last - turn >= kRecords) return absl::StrCat(text, " is already at operation ", last);
  return absl::StrCat(text, ": ", Describe(shown.records[turn % kRecords].Load()));
}

absl::Status Group::Fail(int rank, uint32_t turn, int other, absl::string_view what) {
  const std::string text = absl::StrCat(
      "collectives of group ", name_, " [", absl::StrJoin(members_, ","), "] do not match: ", what,
      "; ", TextOf(std::min(rank, other), turn), "; ", TextOf(std::max(rank, other), turn));
  world_->table().Fail(MakeFailure(members_[static_cast<size_t>(rank)],
                                   absl::StatusCode::kInvalidArgument,
                                   absl::StatusCode::kInvalidArgument, text));
  return Failed();
}

// Returns the world's error once nobody uses this group's buffers any more.
absl::Status Group::Failed() {
  for (Slot& other : slots_) {
    while (other.copying.load(std::memory_order_seq_cst)) std::this_thread::yield();
  }
  return world_->table().StatusForAll();
}

absl::Status Group::RunWhole(const Collective& operation, int rank, uint32_t turn,
                             uint32_t whole_turn) {
  Wait wait(*this, rank, turn);
  const auto stop = [&] { return wait.IsOver(-1); };
  const uint32_t target = whole_turn * static_cast<uint32_t>(size());
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
    if (mismatch < 0) DoPart(operations, rank, Threads(), BeatOf(rank));
  }
  if (mismatch == rank) return Failed();
  if (mismatch >= 0) return Fail(rank, turn, mismatch, what);
  if (finished_.Add(1) == target) finished_.Wake();
  if (!finished_.WaitFor(target, world_->spins(), stop)) return Failed();
  return absl::OkStatus();
}

// Whether `peer`, which has come to operation `turn`, may have issued the other end of an exchange.
bool Group::MatchesEnd(int rank, uint32_t turn, int peer) {
  Slot& other = slot(peer);
  if (other.published.Load() != turn) return false;  // went on without the other end
  return MismatchOf(slot(rank).records[turn % kRecords].Load(),
                    other.records[turn % kRecords].Load())
      .empty();
}

absl::Status Group::Receive(const Collective& operation, int rank, uint32_t turn) {
  Slot& sender = slot(operation.from);
  Wait wait(*this, rank, turn);
  const auto stop = [&] { return wait.IsOver(operation.from); };
  if (!sender.published.WaitFor(turn, world_->spins(), stop)) return Failed();
  // A sender stays in its operation until the data has been taken.
  if (!MatchesEnd(rank, turn, operation.from)) {
    return Fail(rank, turn, operation.from, "ends");
  }
  {
    const Copying copying(*this, rank);
    if (copying.allowed()) {
      absl::InlinedVector<const Collective*, 16> operations(static_cast<size_t>(size()));
      operations[static_cast<size_t>(rank)] = &operation;
      operations[static_cast<size_t>(operation.from)] = sender.current.load();
      DoPart(operations, rank, Threads(), BeatOf(rank));
    }
  }
  if (world_->failed()) return Failed();
  sender.taken.Store(turn);
  sender.taken.Wake();
  return absl::OkStatus();
}

absl::Status Group::RunExchange(const Collective& operation, int rank, uint32_t turn) {
  if (operation.from >= 0) RETURN_IF_ERROR(Receive(operation, rank, turn));
  if (operation.to < 0) return absl::OkStatus();
  Slot& own = slot(rank);
  Slot& receiver = slot(operation.to);
  Wait wait(*this, rank, turn);
  bool mismatch = false;
  const auto stop = [&] {
    if (wait.IsOver(operation.to)) return true;
    if (!Reached(receiver.published.Load(), turn)) return false;
    const bool matches = MatchesEnd(rank, turn, operation.to);
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
  ~InProcessCommunicator() override {
    group_->Leave(rank_);
    // The world's communicator goes last, or its rank has nothing more to say.
    RankRow& row = world_->table().row(world_rank());
    if (path_ == "world" && row.life() == RankLife::kRunning) row.SetLife(RankLife::kLeft);
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  absl::Status Run(const Collective& operation) override {
    if (world_->failed()) return world_->table().StatusForAll();
    if (absl::Status valid = Validate(operation, rank_, size()); !valid.ok()) {
      world_->FailRank(world_rank(), valid);
      return valid;
    }
    ++turn_;
    if (operation.kind != CollectiveKind::kExchange) ++whole_turn_;
    RETURN_IF_ERROR(group_->Run(operation, rank_, turn_, whole_turn_));
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
  absl::Status WorldStatus() const override { return world_->table().StatusForAll(); }

  CollectiveCounts counts() const override {
    std::lock_guard<std::mutex> lock(counts_mutex_);
    return counts_;
  }

  void SetWhere(int64_t step, absl::string_view phase) override {
    world_->table().row(world_rank()).SetWhere(step, phase);
  }
  void Beat() override { world_->table().row(world_rank()).Beat(); }
  bool waits() const override { return world_->table().row(world_rank()).waits(); }

 private:
  int world_rank() const { return group_->members()[static_cast<size_t>(rank_)]; }
  void Count(const CollectiveCounts& more) {
    std::lock_guard<std::mutex> lock(counts_mutex_);
    counts_ += more;
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
  std::iota(members.begin(), members.end(), 0);
  state_->table().row(rank).SetLife(RankLife::kRunning);
  return std::make_unique<InProcessCommunicator>(
      state_, state_->FindOrMake("world", 0, "world", members), "world", rank);
}

absl::Status InProcessWorld::status() const { return state_->table().StatusOfCulprit(); }

std::string InProcessWorld::Report() const { return state_->table().Report({}); }

}  // namespace colossus
