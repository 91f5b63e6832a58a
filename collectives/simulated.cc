#include "collectives/simulated.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "collectives/operation.h"
#include "collectives/reference.h"
#include "collectives/watch/operation_record.h"

namespace colossus {
namespace {

// A place in time, found sooner or later. Guarded by the world's mutex.
struct Moment {
  std::optional<double> at;
  std::vector<std::function<void(double)>> then;
};
using MomentPtr = std::shared_ptr<Moment>;

// One collective of a group: the present members that have come, and when; by their places among
// the present ones.
struct Meeting {
  explicit Meeting(size_t size) : operations(size), launched(size), came(size), outs(size) {}
  std::vector<Collective> operations;
  std::vector<bool> launched;
  std::vector<std::optional<double>> came;
  std::vector<MomentPtr> outs;  // null once found
  int left = 0;                 // ranks that are done
};

}  // namespace

class SimulatedWorld::State {
 public:
  explicit State(const SimulatedOptions& options)
      : options_(options), alive_(static_cast<int>(options.present.size())) {}

  const SimulatedOptions& options() const { return options_; }
  std::mutex& mutex() { return mutex_; }
  // The methods below: with the mutex held.
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
    changed_.notify_all();
  }
  void Leave() {
    --alive_;
    changed_.notify_all();
  }

  // Calls `then` with the moment's time, now or when it is found.
  void When(const MomentPtr& moment, std::function<void(double)> then) {
    if (!moment->at) {
      moment->then.push_back(std::move(then));
      return;
    }
    ready_.push_back({std::move(then), *moment->at});
    Drain();
  }
  void Find(const MomentPtr& moment, double at) {
    moment->at = at;
    for (auto& then : moment->then) ready_.push_back({std::move(then), at});
    moment->then.clear();
    changed_.notify_all();
    Drain();
  }

  // Waits until the moment is found, releasing the lock meanwhile.
  absl::Status Await(std::unique_lock<std::mutex>& lock, const MomentPtr& moment) {
    waiters_.push_back(moment.get());
    while (!moment->at && status_.ok()) {
      const bool all_wait =
          static_cast<int>(waiters_.size()) >= alive_ &&
          std::none_of(waiters_.begin(), waiters_.end(), [](Moment* m) { return m->at; });
      if (all_wait) {
        Fail(absl::DeadlineExceededError(
            "collectives do not match: all simulated ranks wait for one another"));
        break;
      }
      changed_.wait(lock);
    }
    waiters_.erase(std::find(waiters_.begin(), waiters_.end(), moment.get()));
    return status_;
  }

  Meeting& MeetingOf(const std::string& group, uint64_t turn, size_t size) {
    return meetings_.try_emplace({group, turn}, size).first->second;
  }
  void EndMeeting(const std::string& group, uint64_t turn) { meetings_.erase({group, turn}); }

 private:
  // Not by recursion: chains of moments are long.
  void Drain() {
    if (draining_) return;
    draining_ = true;
    while (!ready_.empty()) {
      auto [then, at] = std::move(ready_.front());
      ready_.pop_front();
      then(at);
    }
    draining_ = false;
  }

  const SimulatedOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status status_;
  int alive_;  // present ranks that have not left
  std::vector<Moment*> waiters_;
  std::deque<std::pair<std::function<void(double)>, double>> ready_;
  bool draining_ = false;
  std::map<std::pair<std::string, uint64_t>, Meeting> meetings_;
};

namespace {

using State = SimulatedWorld::State;

class SimulatedEvent final : public Event {
 public:
  SimulatedEvent(std::shared_ptr<State> state, VirtualClock& clock, MomentPtr moment)
      : state_(std::move(state)), clock_(clock), moment_(std::move(moment)) {}
  bool Done() const override {
    std::lock_guard<std::mutex> lock(state_->mutex());
    return moment_->at && *moment_->at <= clock_.Seconds();
  }
  absl::Status Wait() override {
    std::unique_lock<std::mutex> lock(state_->mutex());
    RETURN_IF_ERROR(state_->Await(lock, moment_));
    clock_.AdvanceTo(*moment_->at);
    return absl::OkStatus();
  }
  const MomentPtr& moment() const { return moment_; }

 private:
  const std::shared_ptr<State> state_;
  VirtualClock& clock_;
  const MomentPtr moment_;
};

class SimulatedStream final : public VirtualStream {
 public:
  SimulatedStream(std::shared_ptr<State> state, VirtualClock& clock)
      : state_(std::move(state)), clock_(clock), end_(std::make_shared<Moment>()) {
    end_->at = clock_.Seconds();
  }

  void Launch(std::function<absl::Status()>) override { Advance(0); }
  void Advance(double seconds) override {
    std::lock_guard<std::mutex> lock(state_->mutex());
    const double issued = clock_.Seconds();
    Append([=](double before) { return std::max(before, issued) + seconds; });
  }
  std::shared_ptr<Event> Record() override {
    std::lock_guard<std::mutex> lock(state_->mutex());
    return std::make_shared<SimulatedEvent>(state_, clock_, end_);
  }
  void WaitFor(std::shared_ptr<Event> event) override {
    auto* other = dynamic_cast<SimulatedEvent*>(event.get());
    CHECK(other != nullptr) << "an event of another world";
    std::lock_guard<std::mutex> lock(state_->mutex());
    const MomentPtr before = end_, awaited = other->moment();
    const MomentPtr next = end_ = std::make_shared<Moment>();
    State* state = state_.get();
    state->When(before, [=](double own) {
      state->When(awaited, [=](double at) { state->Find(next, std::max(own, at)); });
    });
  }
  absl::Status Synchronize() override { return Record()->Wait(); }

  // With the mutex held: the end of all work so far; work added from here on begins at `next`.
  MomentPtr Replace(MomentPtr next) { return std::exchange(end_, std::move(next)); }
  double issued() { return clock_.Seconds(); }

 private:
  void Append(std::function<double(double)> from) {
    const MomentPtr before = end_, next = end_ = std::make_shared<Moment>();
    State* state = state_.get();
    state->When(before, [=](double at) { state->Find(next, from(at)); });
  }

  const std::shared_ptr<State> state_;
  VirtualClock& clock_;
  MomentPtr end_;
};

class SimulatedCommunicator final : public Communicator {
 public:
  SimulatedCommunicator(std::shared_ptr<State> state, VirtualClock& clock, std::vector<int> members,
                        int rank, std::string name, std::string path)
      : state_(std::move(state)),
        clock_(clock),
        members_(std::move(members)),
        rank_(rank),
        name_(std::move(name)),
        path_(std::move(path)) {
    const std::vector<int>& present = state_->options().present;
    for (int r = 0; r < size(); ++r) {
      if (IndexOf(present, members_[static_cast<size_t>(r)]) >= 0) present_.push_back(r);
    }
    const int place = IndexOf(present_, rank_);
    CHECK_GE(place, 0) << "rank " << members_[static_cast<size_t>(rank_)] << " is not present";
    place_ = static_cast<size_t>(place);
  }
  ~SimulatedCommunicator() override {
    std::lock_guard<std::mutex> lock(state_->mutex());
    if (path_ == "world") state_->Leave();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  CollectiveCounts counts() const override {
    std::lock_guard<std::mutex> lock(state_->mutex());
    return counts_;
  }

  absl::Status Run(const Collective& operation) override {
    if (absl::Status valid = Validate(operation, rank_, size()); !valid.ok()) {
      Abort(valid);
      return valid;
    }
    SimulatedStream stream(state_, clock_);
    Launch(stream, operation);
    return stream.Synchronize();
  }

  void Launch(Stream& stream, Collective operation) override {
    auto* own = dynamic_cast<SimulatedStream*>(&stream);
    CHECK(own != nullptr) << "a stream of another world";
    // Buffers are not looked at without data, and may be missing.
    std::lock_guard<std::mutex> lock(state_->mutex());
    Count(operation);
    const uint64_t turn = ++turn_;
    const auto out = std::make_shared<Moment>();
    const MomentPtr before = own->Replace(out);
    Meeting& meeting = state_->MeetingOf(path_, turn, present_.size());
    meeting.operations[place_] = std::move(operation);
    meeting.launched[place_] = true;
    meeting.outs[place_] = out;
    if (!Matches(meeting, turn)) return;
    MoveData(meeting);
    const double issued = own->issued();
    state_->When(before, [group = Key(), turn, place = place_, issued](double at) {
      Meeting& met = group.state->MeetingOf(group.path, turn, group.present.size());
      met.came[place] = std::max(at, issued);
      Progress(group, met, turn);
    });
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Subgroup(const std::vector<int>& members,
                                                         absl::string_view name) override {
    RETURN_IF_ERROR(ValidateMembers(members, rank_, size()));
    std::string path = absl::StrCat(path_, "/", name, ":", absl::StrJoin(members, ","));
    absl::StrAppend(&path, "#", made_[path]++);
    std::vector<int> world_ranks;
    for (int member : members) world_ranks.push_back(members_[static_cast<size_t>(member)]);
    return std::make_unique<SimulatedCommunicator>(state_, clock_, std::move(world_ranks),
                                                   IndexOf(members, rank_), std::string(name),
                                                   std::move(path));
  }

  void Abort(const absl::Status& why) override {
    std::lock_guard<std::mutex> lock(state_->mutex());
    state_->Fail(absl::AbortedError(
        absl::StrCat("rank ", members_[static_cast<size_t>(rank_)], " failed: ", why.ToString())));
  }

 private:
  // What is needed of a group after its communicator may be gone.
  struct GroupKey {
    State* state;
    std::string path;
    int size;
    std::vector<int> present;
  };
  GroupKey Key() const { return {state_.get(), path_, size(), present_}; }

  void Count(const Collective& op) {
    counts_ += CountsOf(ChooseAlgorithm(op, size(), state_->options().rates), op, rank_, size());
  }

  // Compares with all that have come; fails the world if one differs.
  bool Matches(const Meeting& meeting, uint64_t turn) {
    const Collective& own = meeting.operations[place_];
    for (size_t p = 0; p < present_.size(); ++p) {
      if (p == place_ || !meeting.launched[p]) continue;
      const std::string what = MismatchOf(own, rank_, meeting.operations[p], present_[p]);
      if (what.empty()) continue;
      state_->Fail(absl::InvalidArgumentError(
          MismatchText(members_, what, RecordOf(own, name_, 0, rank_, size(), turn),
                       RecordOf(meeting.operations[p], name_, 0, present_[p], size(), turn))));
      return false;
    }
    return true;
  }

  // Moves what this rank's coming makes possible. REQUIRES: all members are present.
  void MoveData(Meeting& meeting) {
    if (!state_->options().moves_data) return;
    const Collective& own = meeting.operations[place_];
    const std::vector<bool>& launched = meeting.launched;
    if (own.kind != CollectiveKind::kExchange) {
      if (std::find(launched.begin(), launched.end(), false) != launched.end()) return;
      RunReference(meeting.operations);
      return;
    }
    for (const auto& [from, to] : {std::pair(own.from, rank_), std::pair(rank_, own.to)}) {
      if (from < 0 || to < 0) continue;
      const size_t sender = static_cast<size_t>(from), receiver = static_cast<size_t>(to);
      const Collective& sent = meeting.operations[sender];
      if (!launched[sender] || !launched[receiver] || sent.count == 0) continue;
      std::memcpy(meeting.operations[receiver].dst, sent.src,
                  static_cast<size_t>(sent.count * SizeOf(sent.dtype)));
    }
  }

  // When the last of the partners of the present rank at `place` came, if all have.
  static std::optional<double> AllCame(const GroupKey& group, const Meeting& meeting,
                                       size_t place) {
    const Collective& op = meeting.operations[place];
    double came = 0;
    for (size_t p = 0; p < group.present.size(); ++p) {
      const int rank = group.present[p];
      const bool partner =
          op.kind != CollectiveKind::kExchange || p == place || rank == op.to || rank == op.from;
      if (!partner) continue;
      if (!meeting.came[p]) return std::nullopt;
      came = std::max(came, *meeting.came[p]);
    }
    return came;
  }

  // Lets all go whose partners have come.
  static void Progress(const GroupKey& group, Meeting& meeting, uint64_t turn) {
    for (size_t place = 0; place < group.present.size(); ++place) {
      if (meeting.outs[place] == nullptr) continue;
      const std::optional<double> came = AllCame(group, meeting, place);
      if (!came) continue;
      const double seconds = Seconds(group, meeting.operations[place], group.present[place]);
      ++meeting.left;
      group.state->Find(std::exchange(meeting.outs[place], nullptr), *came + seconds);
    }
    if (meeting.left == static_cast<int>(group.present.size())) {
      group.state->EndMeeting(group.path, turn);
    }
  }

  static double Seconds(const GroupKey& group, const Collective& op, int rank) {
    const LinkRates& rates = group.state->options().rates;
    if (op.kind == CollectiveKind::kExchange) {
      const bool sends = op.to >= 0 && op.to != rank, receives = op.from >= 0 && op.from != rank;
      const int64_t count = std::max(sends ? op.count : 0, receives ? op.receive_count : 0);
      return sends || receives
                 ? rates.alpha + static_cast<double>(count * SizeOf(op.dtype)) * rates.beta
                 : 0;
    }
    return CostOf(ChooseAlgorithm(op, group.size, rates), op, group.size, rates).seconds;
  }

  const std::shared_ptr<State> state_;
  VirtualClock& clock_;
  const std::vector<int> members_;
  const int rank_;
  const std::string name_, path_;
  std::vector<int> present_;  // members that run
  size_t place_ = 0;          // of this rank among them
  uint64_t turn_ = 0;
  std::map<std::string, size_t> made_;  // subgroups, by path
  CollectiveCounts counts_;             // guarded by the world's mutex
};

}  // namespace

SimulatedWorld::SimulatedWorld(const SimulatedOptions& options)
    : state_(std::make_shared<State>(options)) {
  CHECK_GE(options.ranks, 1);
  CHECK(!options.present.empty()) << "at least one rank runs";
  CHECK(!options.moves_data || static_cast<int>(options.present.size()) == options.ranks)
      << "data moves only if all ranks are present";
}

SimulatedWorld::~SimulatedWorld() = default;

std::unique_ptr<Communicator> SimulatedWorld::Join(int rank, VirtualClock& clock) {
  std::vector<int> members(static_cast<size_t>(state_->options().ranks));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<SimulatedCommunicator>(state_, clock, std::move(members), rank, "world",
                                                 "world");
}

std::unique_ptr<VirtualStream> SimulatedWorld::NewStream(VirtualClock& clock) {
  return std::make_unique<SimulatedStream>(state_, clock);
}

}  // namespace colossus
