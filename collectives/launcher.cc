#include "collectives/launcher.h"

#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace colossus {
namespace {

// The first of these variables that begins with a whole number ("4", or Slurm's "4(x2)").
std::optional<int> Number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    absl::string_view text = value;
    text = text.substr(0, text.find_first_not_of("0123456789"));
    int number;
    if (absl::SimpleAtoi(text, &number)) return number;
  }
  return std::nullopt;
}

}  // namespace

Launched LaunchedProcess() {
  Launched launched;
  std::optional<int> ranks = Number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  const std::optional<int> rank = Number({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"});
  // A step of Slurm; a batch script on its own has no task of a step.
  const std::optional<int> tasks = Number({"SLURM_STEP_NUM_TASKS"});
  const std::optional<int> task = Number({"SLURM_PROCID"});
  if (!ranks && rank) ranks = tasks;
  if (ranks) {
    launched.ranks = *ranks;
    launched.rank = rank.value_or(0);
  } else if (tasks && task && *tasks > 1 && Number({"SLURM_STEP_ID", "SLURM_STEPID"})) {
    launched.ranks = *tasks;
    launched.rank = *task;
    launched.knows_mpi = false;
  }
  launched.local_ranks =
      Number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"})
          .value_or(launched.ranks > 0 ? launched.ranks : 1);
  return launched;
}

absl::Status CheckLaunched(const Launched& launched) {
  if (launched.knows_mpi) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("srun has started ", launched.ranks,
                   " tasks that cannot find each other: start them with srun --mpi=pmix, or with "
                   "mpirun inside the allocation"));
}

}  // namespace colossus
