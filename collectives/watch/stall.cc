#include "collectives/watch/stall.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace colossus {
namespace {

constexpr double kLookSeconds = 0.2;
// A rank that waits has looked within so long, unless it is stopped or gets no core.
constexpr double kAliveSeconds = 2;

}  // namespace

bool StallWatch::IsOver() {
  if (table_.failed()) return true;
  const double now = clock_.Seconds();
  if (now < next_look_) return false;
  const bool first = moved_.empty();
  next_look_ = now + kLookSeconds;
  Look(now);
  if (first) return false;
  return FindLost() || FindLeft(now) || FindHang(now) || FindDeadlock(now) || table_.failed();
}

void StallWatch::Look(double now) {
  const size_t ranks = static_cast<size_t>(table_.ranks());
  table_.row(rank_).Look();
  if (moved_.empty()) {
    beats_.assign(ranks, ~uint64_t{0});
    looks_ = beats_;
    moved_.assign(ranks, now);
    alive_ = moved_;
  }
  for (size_t r = 0; r < ranks; ++r) {
    const RankRow& row = table_.row(static_cast<int>(r));
    const uint64_t beats = row.beats(), looks = row.looks();
    if (beats != beats_[r]) moved_[r] = now;
    if (beats != beats_[r] || looks != looks_[r]) alive_[r] = now;
    beats_[r] = beats;
    looks_[r] = looks;
  }
}

void StallWatch::Fail(int culprit, absl::StatusCode code, absl::string_view what,
                      std::vector<int> first) const {
  table_.Fail(MakeFailure(culprit, code, code, absl::StrCat(what, table_.Report(first))));
}

bool StallWatch::FindLost() const {
  for (int rank = 0; rank < table_.ranks(); ++rank) {
    if (table_.row(rank).life() != RankLife::kLost) continue;
    Fail(rank, absl::StatusCode::kAborted,
         absl::StrCat("rank ", rank, " was lost", table_.row(rank).WhereText(),
                      ": its process has ended without a word (killed?)"),
         {rank});
    return true;
  }
  return false;
}

bool StallWatch::FindLeft(double now) {
  for (int rank : awaited_) {
    if (table_.row(rank).life() != RankLife::kLeft) continue;
    if (left_since_ < 0) left_since_ = now;
    if (now - left_since_ < options_.left_seconds) return false;
    Fail(rank, absl::StatusCode::kInvalidArgument,
         absl::StrCat("collectives do not match: rank ", rank_, " waits for rank ", rank,
                      ", which has ended"),
         {std::min(rank, rank_), std::max(rank, rank_)});
    return true;
  }
  return false;
}

bool StallWatch::FindHang(double now) const {
  int culprit = -1;
  double since = 0;
  for (int rank = 0; rank < table_.ranks(); ++rank) {
    const RankRow& row = table_.row(rank);
    if (row.life() != RankLife::kRunning) continue;
    const size_t r = static_cast<size_t>(rank);
    const double last = row.waits() ? alive_[r] : moved_[r];
    if (now - last < options_.stall_seconds || (culprit >= 0 && last >= since)) continue;
    culprit = rank;
    since = last;
  }
  if (culprit < 0) return false;
  const RankRow& row = table_.row(culprit);
  Fail(culprit, absl::StatusCode::kDeadlineExceeded,
       absl::StrCat("rank ", culprit, " hangs", row.WhereText(), ": no sign of life for ",
                    options_.stall_seconds, " s while others wait for it",
                    row.waits() ? ", not even of waiting: is its process stopped?" : ""),
       {culprit});
  return true;
}

bool StallWatch::FindDeadlock(double now) const {
  double moved = 0;
  for (int rank = 0; rank < table_.ranks(); ++rank) {
    const RankRow& row = table_.row(rank);
    if (row.life() == RankLife::kLeft) continue;
    if (row.life() != RankLife::kRunning || !row.waits()) return false;
    if (now - alive_[static_cast<size_t>(rank)] > kAliveSeconds) return false;
    moved = std::max(moved, moved_[static_cast<size_t>(rank)]);
  }
  if (now - moved < options_.deadlock_seconds) return false;
  Fail(rank_, absl::StatusCode::kDeadlineExceeded,
       absl::StrCat("collectives do not match: every rank waits in a collective, and nothing has "
                    "moved for ",
                    options_.deadlock_seconds, " s"),
       {});
  return true;
}

}  // namespace colossus
