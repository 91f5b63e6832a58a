// Launcher: whether this process is one of several ranks that mpirun, srun or the like has started.
//
// Purpose: known from the environment, before MPI is started and even where it is not.
// Thread-safe: reads the environment.
//
//   const Launched launched = LaunchedProcess();
//   if (launched.ranks > 1 && launched.rank > 0) ... // not the one that speaks
#ifndef COLOSSUS_COLLECTIVES_LAUNCHER_H_
#define COLOSSUS_COLLECTIVES_LAUNCHER_H_

#include "absl/status/status.h"

namespace colossus {

struct Launched {
  int ranks = 0;  // processes of the job; 0: started by no launcher
  int rank = 0;
  int local_ranks = 1;    // of them on this machine
  bool knows_mpi = true;  // false: several tasks that cannot find each other
};

Launched LaunchedProcess();

// FailedPrecondition where several tasks were started that cannot find each other, with the remedy.
absl::Status CheckLaunched(const Launched& launched);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_LAUNCHER_H_
