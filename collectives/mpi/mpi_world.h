// The mpi backend: ranks are processes that a launcher of MPI has started, on one machine or many.
//
// Purpose: collectives over MPI's messages by the algorithms of collectives/algorithms, chosen by
// cost.h; reductions are our own, in the canonical order. Any launcher will do (mpirun, Slurm).
// MPI is asked for MPI_THREAD_SERIALIZED only: all calls take one lock of the process and none of
// them blocks, so several communicators of a rank may run on several threads at once.
// Checking: each message carries what its sender is doing (watch/operation_record.h); the receiver
// compares before it uses anything.
// Faults: ranks of a machine share a table (watch/rank_table.h), machines send theirs to each other
// a few times a second. Whoever waits judges (watch/stall.h); a thread in each process sees other
// processes of the machine die at once. The first failure is printed on stderr, one line that
// begins with "FAILURE:", by one process of each machine, before anything follows from it.
// Thread-safety: as Communicator. Ownership: one world in a process; it outlives its communicators.
//
//   if (MpiWorld::IsLaunched()) {
//     ASSIGN_OR_RETURN(std::unique_ptr<MpiWorld> world, MpiWorld::Init({}));
//     return world->Run([](Communicator& ranks) { return Train(ranks); });
//   }
#ifndef COLOSSUS_COLLECTIVES_MPI_MPI_WORLD_H_
#define COLOSSUS_COLLECTIVES_MPI_MPI_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/cost.h"
#include "collectives/watch/stall.h"

namespace colossus {

struct MpiOptions {
  // Threads of each rank; waiting threads spin only if the ranks of this machine, times these, are
  // no more than its cores.
  int threads = 1;
  bool check = true;  // that the ranks issue the same; the same on all ranks
  WatchOptions watch = {};
  LinkRates rates = {};  // for the choice of algorithms; the same on all ranks
  // The most that one MPI message carries, 1 to 2^30; the same on all ranks.
  int64_t piece_bytes = int64_t{16} << 20;
  // For tests: ranks are taken to be on machines of so many, in their order; 0: as they are.
  int ranks_per_machine = 0;
};

class MpiProcess;

class MpiWorld {
 public:
  // Whether a launcher of MPI has started this process, by its environment.
  static bool IsLaunched();
  // Starts MPI. REQUIRES: not called before in this process. Error: Unavailable when MPI does not
  // start, FailedPrecondition when the launcher started several processes that do not know of each
  // other, with the remedy.
  static absl::StatusOr<std::unique_ptr<MpiWorld>> Init(const MpiOptions& options);

  // In good order, waits for all ranks to end and ends MPI. After a failure of any rank it waits
  // until the others know, at most 2 s, and ends this process and the job with status 1.
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  Communicator& communicator() { return *communicator_; }

  // Calls `rank`; an error or exception of it ends all ranks. The error of the rank that failed
  // first, naming it with its step and phase, or ok.
  absl::Status Run(const std::function<absl::Status(Communicator& world)>& rank);

 private:
  explicit MpiWorld(std::unique_ptr<MpiProcess> process);

  std::unique_ptr<MpiProcess> process_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_MPI_MPI_WORLD_H_
