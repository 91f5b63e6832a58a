// The first value of an update that is no finite number, on whichever rank it was made.
//
// Purpose: of all ranks' findings the one that comes first: what a collective then carries to other
// ranks is a consequence. Ranks of a stage have the same instructions, and those of a pipeline's
// stages are numbered in the one order of all of them (TrainingProgram::FindNonFinite).
// Thread-safety: one thread a rank. Collective over `group`.
//
//   ASSIGN_OR_RETURN(std::optional<FoundOnRank> found,
//                    FindNonFiniteOnRanks(training, input, observer, group));
//   if (found) found->rank, ToText(found->what)
#ifndef COLOSSUS_TRAINERS_LIB_RANKS_FIRST_NON_FINITE_H_
#define COLOSSUS_TRAINERS_LIB_RANKS_FIRST_NON_FINITE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "parallel/training_program.h"
#include "tensor/exec/non_finite.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

struct FoundOnRank {
  NonFinite what;
  int rank = 0;
};

// As TrainingProgram::FindNonFinite, the same on all ranks. Element and type of what an instruction
// makes are of the part that the rank holds.
absl::StatusOr<std::optional<FoundOnRank>> FindNonFiniteOnRanks(TrainingProgram& training,
                                                                const UpdateInput& input,
                                                                StepObserver* observer,
                                                                RankGroup group);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RANKS_FIRST_NON_FINITE_H_
