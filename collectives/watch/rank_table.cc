#include "collectives/watch/rank_table.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace colossus {
namespace {

constexpr int kMostLines = 32;

}  // namespace

void RankRow::SetWhere(int64_t step, absl::string_view phase) {
  Where where;
  where.step = step;
  where.known = true;
  std::memcpy(where.phase, phase.data(), std::min(phase.size(), sizeof(where.phase) - 1));
  where_.Store(where);
  Beat();
}

int RankRow::BeginWait(const OperationRecord& record) {
  Beat();
  waiting_count_.fetch_add(1);
  for (int place = 0; place < kWaits; ++place) {
    uint32_t free = 0;
    if (!taken_[place].compare_exchange_strong(free, 1)) continue;
    waiting_[place].Store(record);
    return place;
  }
  return -1;
}

void RankRow::EndWait(int place, const OperationRecord* finished) {
  // Of two streams that finish at the same time one is noted.
  if (finished != nullptr && finishing_.exchange(1, std::memory_order_acquire) == 0) {
    finished_.Store(*finished);
    finishing_.store(0, std::memory_order_release);
  }
  if (place >= 0) taken_[place].store(0);
  waiting_count_.fetch_sub(1);
  Beat();
}

RankRow::Snapshot RankRow::Take() const {
  Snapshot snapshot;
  snapshot.where = where_.Load();
  snapshot.beats = beats_.load();
  snapshot.looks = looks_.load();
  snapshot.life = life_.load();
  snapshot.waiting_count = waiting_count_.load();
  for (int place = 0; place < kWaits; ++place) {
    snapshot.taken[place] = taken_[place].load();
    snapshot.waiting[place] = waiting_[place].Load();
  }
  snapshot.finished = finished_.Load();
  return snapshot;
}

void RankRow::Restore(const Snapshot& snapshot) {
  where_.Store(snapshot.where);
  for (int place = 0; place < kWaits; ++place) {
    waiting_[place].Store(snapshot.waiting[place]);
    taken_[place].store(snapshot.taken[place]);
  }
  waiting_count_.store(snapshot.waiting_count);
  finished_.Store(snapshot.finished);
  life_.store(snapshot.life);
  beats_.store(snapshot.beats);
  looks_.store(snapshot.looks);
}

std::string RankRow::WhereText() const {
  const Where where = where_.Load();
  return where.known ? absl::StrCat(" at step ", where.step, " in phase ", where.phase) : "";
}

std::string RankRow::Report() const {
  static constexpr absl::string_view kLives[] = {"has not come", "runs", "has ended",
                                                 "has ended with an error", "is lost"};
  std::string text = absl::StrCat(kLives[life_.load() % 5], WhereText(), "; last finished ",
                                  Describe(finished_.Load()));
  bool waits = false;
  for (int place = 0; place < kWaits; ++place) {
    if (taken_[place].load() == 0) continue;
    waits = true;
    absl::StrAppend(&text, "; waits in ", Describe(waiting_[place].Load()));
  }
  return waits ? text : text + "; waits in no collective";
}

bool RankTable::Fail(const Failure& failure) {
  uint32_t unclaimed = 0;
  if (!head_->claimed.compare_exchange_strong(unclaimed, 1)) return false;
  head_->failure.Store(failure);
  head_->failed.store(1, std::memory_order_seq_cst);
  return true;
}

absl::Status RankTable::StatusForAll() const {
  if (!failed()) return absl::OkStatus();
  const Failure first = failure();
  return absl::Status(static_cast<absl::StatusCode>(first.code_for_all), first.message);
}

absl::Status RankTable::StatusOfCulprit() const {
  if (!failed()) return absl::OkStatus();
  const Failure first = failure();
  return absl::Status(static_cast<absl::StatusCode>(first.code), first.message);
}

Failure RankTable::FailureOf(int rank, const absl::Status& why) const {
  return MakeFailure(
      rank, why.code(), absl::StatusCode::kAborted,
      absl::StrCat("rank ", rank, " failed", row(rank).WhereText(), ": ", why.ToString()));
}

std::string RankTable::Report(absl::Span<const int> first) const {
  std::vector<int> order(first.begin(), first.end());
  for (int rank = 0; rank < ranks_; ++rank) {
    if (std::find(first.begin(), first.end(), rank) == first.end()) order.push_back(rank);
  }
  std::string text;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == kMostLines) {
      return absl::StrCat(text, "\n  and ", order.size() - i, " more ranks");
    }
    absl::StrAppend(&text, "\n  rank ", order[i], ": ", row(order[i]).Report());
  }
  return text;
}

Failure MakeFailure(int rank, absl::StatusCode code, absl::StatusCode code_for_all,
                    absl::string_view message) {
  Failure failure;
  failure.rank = rank;
  failure.code = static_cast<int32_t>(code);
  failure.code_for_all = static_cast<int32_t>(code_for_all);
  std::memcpy(failure.message, message.data(),
              std::min(message.size(), sizeof(failure.message) - 1));
  return failure;
}

}  // namespace colossus
