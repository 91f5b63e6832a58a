// StallWatch: tells a rank that waits in a collective whether waiting still makes sense.
//
// Purpose: the watchdog's judgement, made by those who wait, so that it needs no thread and no
// message. Asked now and then, it finds:
//   lost      a rank's process is gone
//   left      a rank that is waited for has ended without coming
//   hang      a rank that runs and has given no sign of life for `stall_seconds`: in a collective,
//             where waiting ranks ask this watch, it has not even asked (its process is stopped)
//   deadlock  every rank waits in some collective and asks, and nothing has moved for
//             `deadlock_seconds`
// and fails the world with the rank, its step and phase, and a report of all ranks. A long
// computation is no hang as long as it gives signs of life (Communicator::Beat).
// Thread-safety: one thread each. Ownership: the table and the clock outlive it; the options are
// copied.
//
//   StallWatch watch(table, options, clock, rank, awaited);
//   while (!done) if (watch.IsOver()) return table.StatusForAll();
#ifndef COLOSSUS_COLLECTIVES_WATCH_STALL_H_
#define COLOSSUS_COLLECTIVES_WATCH_STALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "collectives/watch/rank_table.h"

namespace colossus {

struct WatchOptions {
  double stall_seconds = 30;
  double deadlock_seconds = 8;
  double left_seconds = 1;  // how long a rank that has left may still fail for a better reason
};

class StallWatch {
 public:
  // `awaited`: ranks of the world that this one waits for; empty: not known.
  StallWatch(RankTable& table, const WatchOptions& options, Clock& clock, int rank,
             std::vector<int> awaited)
      : table_(table),
        options_(options),
        clock_(clock),
        rank_(rank),
        awaited_(std::move(awaited)) {}

  // True when the world has failed, also by this call. Looks at the ranks at most every 0.2 s.
  bool IsOver();

 private:
  void Look(double now);
  bool FindLost() const;
  bool FindLeft(double now);
  bool FindHang(double now) const;
  bool FindDeadlock(double now) const;
  void Fail(int culprit, absl::StatusCode code, absl::string_view what,
            std::vector<int> first) const;

  RankTable& table_;
  const WatchOptions options_;
  Clock& clock_;
  const int rank_;
  const std::vector<int> awaited_;
  double next_look_ = 0;
  double left_since_ = -1;
  std::vector<uint64_t> beats_;  // of every rank, when last looked at
  std::vector<double> moved_;    // when they last changed; empty before the first look
  std::vector<uint64_t> looks_;  // likewise
  std::vector<double> alive_;    // when either last changed
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_WATCH_STALL_H_
