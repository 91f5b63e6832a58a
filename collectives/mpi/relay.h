// The relay: machines tell each other what their ranks do.
//
// Purpose: internal to the mpi backend. Ranks of one machine share a table; the first living rank
// of each machine sends its machine's rows, and the first failure, to those of the others, and
// takes in theirs. A machine that falls silent is lost. Thread-safety: the function returned is
// called by one thread. Ownership: all references outlive it.
#ifndef COLOSSUS_COLLECTIVES_MPI_RELAY_H_
#define COLOSSUS_COLLECTIVES_MPI_RELAY_H_

#include <mpi.h>

#include <functional>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "collectives/watch/rank_table.h"
#include "collectives/watch/stall.h"

namespace colossus {

// Collective over `control`. Returns what sends and takes in once, if this rank is the first living
// one; empty on one machine. `lock` guards MPI.
absl::StatusOr<std::function<void()>> MakeRelay(MPI_Comm control, std::mutex& lock,
                                                RankTable& table, Clock& clock,
                                                const std::vector<int>& machine_ranks,
                                                const WatchOptions& watch);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_MPI_RELAY_H_
