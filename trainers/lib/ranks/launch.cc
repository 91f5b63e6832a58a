#include "trainers/lib/ranks/launch.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "collectives/in_process.h"
#include "collectives/launcher.h"
#include "collectives/mpi/mpi_world.h"
#include "collectives/watch/stall.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/ranks/run_device.h"

namespace colossus {
namespace {

WatchOptions WatchOf(const JobContext& context) {
  return {.stall_seconds = static_cast<double>(context.config.options.run.stall_seconds)};
}

// Ranks are threads.
absl::StatusOr<int> RunThreadRanks(JobContext& context, const RunLayout& layout,
                                   const RankJob& job) {
  std::mutex mutex;
  int exit_code = 0;
  // Of the rank that was the first to be refused; only while no rank has failed after it had begun.
  std::optional<absl::Status> refused;
  const int threads = RunThreads(context.config.options, layout.ranks);
  const absl::Status status =
      RunRanks({.ranks = layout.ranks, .threads = threads, .watch = WatchOf(context)},
               [&](Communicator& world) -> absl::Status {
                 Log silent(nullptr, false);
                 const bool first = world.rank() == 0;
                 JobContext own{context.config, first ? context.log : silent};
                 const absl::StatusOr<int> result = job(own, RankGroup(&world));
                 const std::lock_guard<std::mutex> lock(mutex);
                 context.begun = context.begun || own.begun;
                 if (result.ok() && first) exit_code = *result;
                 if (!result.ok() && !own.begun && !refused) refused = result.status();
                 return result.status();
               });
  if (status.ok()) return exit_code;
  return refused && !context.begun ? *refused : status;
}

// This process is one of the ranks.
absl::StatusOr<int> RunProcessRank(JobContext& context, const RankJob& job) {
  const int threads = RunThreads(context.config.options, LaunchedProcess().local_ranks);
  ASSIGN_OR_RETURN(const std::unique_ptr<MpiWorld> world,
                   MpiWorld::Init({.threads = threads, .watch = WatchOf(context)}));
  absl::StatusOr<int> result = absl::InternalError("has not run");
  const absl::Status status = world->Run([&](Communicator& ranks) -> absl::Status {
    RankGroup group(&ranks);
    result = job(context, group);
    if (result.ok() || context.begun) return result.status();
    // What is refused is refused by all: they part in good order, and the first one says it.
    if (group.Gather("", "refused").ok()) return absl::OkStatus();
    // Others went on. They report that this one did something else; why, it alone can say.
    std::fprintf(stderr, "rank %d refused: %s\n", group.rank(), result.status().ToString().c_str());
    return result.status();
  });
  // A failure has been printed, and ends the process when the world does.
  std::fflush(stdout);
  return status.ok() ? std::move(result) : absl::StatusOr<int>(status);
}

}  // namespace

absl::StatusOr<int> RunOnRanks(JobContext& context, const RunLayout& layout, const RankJob& job) {
  if (layout.ranks == 1) return job(context, RankGroup());
  return layout.processes ? RunProcessRank(context, job) : RunThreadRanks(context, layout, job);
}

}  // namespace colossus
