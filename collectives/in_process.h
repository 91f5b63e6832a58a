// The in-process backend: ranks are threads of one process.
//
// Purpose: collectives at the speed of memory. Each rank publishes its buffers and does its own
// part of the work straight from and to the buffers of its peers: every element is copied once, and
// reductions read all peers' buffers in the canonical tree.
// Thread-safety: as Communicator; each rank is one thread (and its streams' threads). Ownership:
// communicators share their world, which lives as long as the last of them.
//
//   absl::Status status = RunRanks({.ranks = 4}, [](Communicator& world) {
//     double one = 1;
//     return AllReduce(world, &one, 1, "sum");
//   });
#ifndef COLOSSUS_COLLECTIVES_IN_PROCESS_H_
#define COLOSSUS_COLLECTIVES_IN_PROCESS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/watch/stall.h"

namespace colossus {

struct InProcessOptions {
  int ranks = 1;
  // Of each rank's team (base/parallel_for.h); large operations use it when the calling thread has
  // a team of just this size. Waiting threads spin only if ranks * threads <= cores.
  int threads = 1;
  // Compare what the ranks issue, and fail on all of them when it does not match.
  bool check = true;
  // When ranks that wait give up on others.
  WatchOptions watch = {};
};

class InProcessWorld {
 public:
  explicit InProcessWorld(const InProcessOptions& options);
  ~InProcessWorld();
  // The communicator of one rank, made by any thread, once for each rank. It outlives the rank's
  // subgroups.
  std::unique_ptr<Communicator> Join(int rank);
  // The first error of any rank, naming it; ok while there is none.
  absl::Status status() const;
  // One line for each rank: where it is, what it has finished and waits for.
  std::string Report() const;

  class State;

 private:
  std::shared_ptr<State> state_;
};

// Once a rank has failed, how long the others may take to come back. Those that do not are named on
// stderr with the first error and the report of all ranks, and the process ends at once with status
// 1, running no destructors.
inline constexpr double kComeBackSeconds = 10;

// A function on every rank, for `--ranks=N` and tests. A rank that returns an error, or throws,
// ends all others; one that never comes back ends the process, since a thread cannot be stopped.
// Runs `rank` on a new thread for each rank, with a team of `options.threads`, and returns when all
// are done: the error of the rank that failed first, naming it with its step and phase, or ok.
absl::Status RunRanks(const InProcessOptions& options,
                      const std::function<absl::Status(Communicator& world)>& rank,
                      double come_back_seconds = kComeBackSeconds);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_IN_PROCESS_H_
