// A state of the job, put together from what the ranks hold of it.
//
// Thread-safety: one thread a rank. Collective over `group`. Every rank holds all of it for a
// moment: for comparisons of small models; checkpoints and exports do without.
//
//   ASSIGN_OR_RETURN(HostTensor w, ReadWholeState(training, "wte.weight", group));
#ifndef COLOSSUS_TRAINERS_LIB_RANKS_WHOLE_STATE_H_
#define COLOSSUS_TRAINERS_LIB_RANKS_WHOLE_STATE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parallel/training_program.h"
#include "tensor/host_tensor.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// nullptr: the job has no state of that name.
const JobState* FindJobState(const TrainingProgram& training, absl::string_view name);

// In global_dims, the same on all ranks. NotFound for another name. REQUIRES: allocated.
absl::StatusOr<HostTensor> ReadWholeState(TrainingProgram& training, absl::string_view name,
                                          RankGroup group);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RANKS_WHOLE_STATE_H_
