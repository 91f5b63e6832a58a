// RunOnRanks: a job on every rank of this process.
//
// Purpose: what lies between a trainer's main thread and its ranks. They are threads, each with a
// team of its own and a communicator among them, or under mpirun or srun this process is one of
// them. Rank 0 has the log, the others are silent. The first rank that fails ends all of them, and
// its error is the job's; what follows from it on other ranks is dropped. An exception is an error
// like others.
// Thread-safety: call from one thread. Ownership: everything given must outlive the call.
//
//   return RunOnRanks(context, layout, [&](JobContext& rank, RankGroup group) {
//     return Train(files, rank, hooks, group);
//   });
#ifndef COLOSSUS_TRAINERS_LIB_RANKS_LAUNCH_H_
#define COLOSSUS_TRAINERS_LIB_RANKS_LAUNCH_H_

#include <functional>

#include "absl/status/statusor.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// One rank's part of a job: as Job, with the other ranks.
using RankJob = std::function<absl::StatusOr<int>(JobContext& context, RankGroup group)>;

// The exit status of rank 0 (of a process: its own), or the error of the rank that failed first:
// with rank, step and phase once a rank has begun (JobContext::begun), which then is `context`'s
// too; as it is before, for what is refused is refused by all. A failure of a rank that is a
// process does not return: it has been printed, and the process ends with status 1.
absl::StatusOr<int> RunOnRanks(JobContext& context, const RunLayout& layout, const RankJob& job);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RANKS_LAUNCH_H_
