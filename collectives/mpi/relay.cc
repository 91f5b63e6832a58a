#include "collectives/mpi/relay.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace colossus {
namespace {

constexpr int kTag = 1;

struct Entry {
  int32_t rank = -1;
  RankRow::Snapshot row;
};
// A message: this, then entries.
struct Head {
  int32_t failed = 0;
  int32_t entries = 0;
  Failure failure;
};

class Relay {
 public:
  Relay(MPI_Comm control, int rank, std::mutex& lock, RankTable& table, Clock& clock,
        std::vector<int> own_ranks, const WatchOptions& watch)
      : control_(control),
        rank_(rank),
        lock_(lock),
        table_(table),
        clock_(clock),
        own_ranks_(std::move(own_ranks)),
        watch_(watch) {}
  // MPI may still read a message whose receiver has not taken it, and never will if it ends, too:
  // such ones are kept for good.
  ~Relay() {
    static std::vector<std::vector<char>>& kept = *new std::vector<std::vector<char>>;
    std::lock_guard<std::mutex> lock(lock_);
    for (Machine& machine : machines_) {
      if (!IsSent(machine)) kept.push_back(std::move(machine.sent));
    }
  }

  // Another machine's ranks.
  void AddMachine(std::vector<int> ranks) {
    machines_.push_back({std::move(ranks), {}, MPI_REQUEST_NULL, clock_.Seconds()});
  }
  bool empty() const { return machines_.empty(); }

  void Run() {
    if (FirstOf(own_ranks_) != rank_) return;
    std::lock_guard<std::mutex> lock(lock_);
    const std::vector<char> message = Message();
    for (Machine& machine : machines_) Send(machine, message);
    while (Receive()) {
    }
    FindSilent();
  }

 private:
  // The rank that speaks for a machine, as far as known here.
  int FirstOf(const std::vector<int>& ranks) const {
    for (int rank : ranks) {
      if (table_.row(rank).life() != RankLife::kLost) return rank;
    }
    return ranks[0];
  }

  struct Machine {
    std::vector<int> ranks;
    std::vector<char> sent;  // until `request` is done
    MPI_Request request;
    double heard;
  };

  std::vector<char> Message() const {
    std::vector<char> message(sizeof(Head) + own_ranks_.size() * sizeof(Entry));
    Head head;
    head.failed = table_.failed();
    head.entries = static_cast<int32_t>(own_ranks_.size());
    if (head.failed != 0) head.failure = table_.failure();
    std::memcpy(message.data(), &head, sizeof(head));
    for (size_t i = 0; i < own_ranks_.size(); ++i) {
      const Entry entry = {own_ranks_[i], table_.row(own_ranks_[i]).Take()};
      std::memcpy(message.data() + sizeof(Head) + i * sizeof(Entry), &entry, sizeof(entry));
    }
    return message;
  }

  // Whether MPI is done with the last message.
  static bool IsSent(Machine& machine) {
    int done = 1;
    if (machine.request != MPI_REQUEST_NULL) {
      MPI_Test(&machine.request, &done, MPI_STATUS_IGNORE);
    }
    return done != 0;
  }

  void Send(Machine& machine, const std::vector<char>& message) {
    if (!IsSent(machine)) return;
    machine.sent = message;
    MPI_Isend(machine.sent.data(), static_cast<int>(machine.sent.size()), MPI_BYTE,
              FirstOf(machine.ranks), kTag, control_, &machine.request);
  }

  bool Receive() {
    MPI_Status status;
    int waits = 0, bytes = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, kTag, control_, &waits, &status);
    if (!waits) return false;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::vector<char> message(static_cast<size_t>(bytes));
    MPI_Recv(message.data(), bytes, MPI_BYTE, status.MPI_SOURCE, kTag, control_, MPI_STATUS_IGNORE);
    for (Machine& machine : machines_) {
      const std::vector<int>& ranks = machine.ranks;
      if (std::find(ranks.begin(), ranks.end(), status.MPI_SOURCE) != ranks.end()) {
        machine.heard = clock_.Seconds();
      }
    }
    Take(message);
    return true;
  }

  void Take(const std::vector<char>& message) {
    Head head;
    if (message.size() < sizeof(head)) return;
    std::memcpy(&head, message.data(), sizeof(head));
    for (int32_t i = 0; i < head.entries; ++i) {
      Entry entry;
      std::memcpy(&entry, message.data() + sizeof(Head) + static_cast<size_t>(i) * sizeof(Entry),
                  sizeof(entry));
      table_.row(entry.rank).Restore(entry.row);
    }
    if (head.failed != 0) table_.Fail(head.failure);
  }

  void FindSilent() {
    for (Machine& machine : machines_) {
      if (clock_.Seconds() - machine.heard < watch_.stall_seconds) continue;
      const int first = machine.ranks[0];
      if (table_.row(first).life() != RankLife::kRunning) continue;
      table_.Fail(MakeFailure(
          first, absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kDeadlineExceeded,
          absl::StrCat("the machine of rank ", first, " has been silent for ", watch_.stall_seconds,
                       " s", table_.Report(machine.ranks))));
    }
  }

  const MPI_Comm control_;
  const int rank_;
  std::mutex& lock_;
  RankTable& table_;
  Clock& clock_;
  const std::vector<int> own_ranks_;
  const WatchOptions watch_;
  std::vector<Machine> machines_;
};

}  // namespace

absl::StatusOr<std::function<void()>> MakeRelay(MPI_Comm control, std::mutex& lock,
                                                RankTable& table, Clock& clock,
                                                const std::vector<int>& machine_ranks,
                                                const WatchOptions& watch) {
  int rank = 0;
  MPI_Comm_rank(control, &rank);
  const int own_first = machine_ranks[0];
  std::vector<int> firsts(static_cast<size_t>(table.ranks()));  // of each rank's machine
  MPI_Allgather(&own_first, 1, MPI_INT, firsts.data(), 1, MPI_INT, control);
  auto relay = std::make_shared<Relay>(control, rank, lock, table, clock, machine_ranks, watch);
  for (int first = 0; first < table.ranks(); ++first) {
    if (first == own_first || firsts[static_cast<size_t>(first)] != first) continue;
    std::vector<int> ranks;
    for (int r = 0; r < table.ranks(); ++r) {
      if (firsts[static_cast<size_t>(r)] == first) ranks.push_back(r);
    }
    relay->AddMachine(std::move(ranks));
  }
  if (relay->empty()) return std::function<void()>();
  return std::function<void()>([relay] { relay->Run(); });
}

}  // namespace colossus
