// The in-process backend: ranks are threads of one process.
//
// Purpose: collectives at the speed of memory. Each rank publishes its buffers and does its own
// part of the work straight from and to the buffers of its peers: every element is copied once, and
// reductions read all peers' buffers in the canonical tree.
// Thread-safety: as Communicator; each rank is one thread (and its streams' threads). Ownership:
// communicators share their world, which lives as long as the last of them.
//
//   absl::Status status = RunRanks({.ranks = 4}, [](Communicator& world) {
//     return AllReduce(world, &value, 1, "sum");
//   });
#ifndef COLOSSUS_COLLECTIVES_IN_PROCESS_H_
#define COLOSSUS_COLLECTIVES_IN_PROCESS_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "collectives/communicator.h"

namespace colossus {

struct InProcessOptions {
  int ranks = 1;
  // Of each rank's team (base/parallel_for.h); large operations use it when the calling thread has
  // a team of just this size. Waiting threads spin only if ranks * threads <= cores.
  int threads = 1;
  // Compare what the ranks issue, and fail on all of them when it does not match.
  bool check = true;
};

class InProcessWorld {
 public:
  explicit InProcessWorld(const InProcessOptions& options);
  ~InProcessWorld();
  // The communicator of one rank, made by any thread, once for each rank.
  std::unique_ptr<Communicator> Join(int rank);
  // The first error of any rank, naming it; ok while there is none.
  absl::Status status() const;

  class State;

 private:
  std::shared_ptr<State> state_;
};

// Runs `rank` on one new thread for each rank and returns when all are done. A rank that fails
// aborts the others; the result is the error of the one that failed first.
absl::Status RunRanks(const InProcessOptions& options,
                      const std::function<absl::Status(Communicator& world)>& rank);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_IN_PROCESS_H_
