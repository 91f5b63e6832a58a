#include "collectives/launcher.h"

#include <cstdlib>
#include <map>
#include <string>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

Launched With(const std::map<std::string, std::string>& environment) {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_SIZE",
        "PMI_RANK", "PMIX_RANK", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
        "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_TASKS_PER_NODE"}) {
    unsetenv(name);
  }
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  return LaunchedProcess();
}

TEST(LauncherTest, Nobody) {
  EXPECT_EQ(With({}).ranks, 0);
  EXPECT_EQ(With({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).ranks, 0);  // a batch script
  EXPECT_OK(CheckLaunched(With({})));
}

TEST(LauncherTest, MpirunAndSrun) {
  const Launched mpirun = With({{"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_RANK", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(mpirun.ranks, 4);
  EXPECT_EQ(mpirun.rank, 2);
  EXPECT_EQ(mpirun.local_ranks, 2);
  EXPECT_OK(CheckLaunched(mpirun));
  const Launched pmi = With({{"PMI_SIZE", "3"}, {"PMI_RANK", "1"}});
  EXPECT_EQ(pmi.ranks, 3);
  EXPECT_EQ(pmi.rank, 1);
  const Launched pmix = With({{"PMIX_RANK", "5"},
                              {"SLURM_STEP_NUM_TASKS", "8"},
                              {"SLURM_PROCID", "5"},
                              {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}});
  EXPECT_EQ(pmix.ranks, 8);
  EXPECT_EQ(pmix.rank, 5);
  EXPECT_EQ(pmix.local_ranks, 4);
  EXPECT_OK(CheckLaunched(pmix));
}

TEST(LauncherTest, TasksWithoutMpiAreRefused) {
  const Launched tasks =
      With({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "0"}});
  EXPECT_EQ(tasks.rank, 3);
  EXPECT_THAT(CheckLaunched(tasks),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("srun --mpi=pmix")));
}

}  // namespace
}  // namespace colossus
