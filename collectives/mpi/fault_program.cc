// A training loop on MPI ranks in which something goes wrong at step 3, as its first argument says:
//   error      rank 2 returns an error while it loads
//   throw      rank 2 throws between two collectives
//   save       rank 2 returns an error while it saves
//   kill       rank 2 is killed while it loads
//   hang       rank 2 stops for good while it loads
//   count, operation, conditional, ends, deadlock   collectives that do not match (FIELD-CASES D3)
//   none       nothing
// The second argument is the number of ranks on a machine, 0: as it is.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "collectives/mpi/mpi_world.h"

namespace colossus {
namespace {

absl::Status Sum(Communicator& group, int64_t count, const std::string& site) {
  std::vector<float> x(static_cast<size_t>(count), 1);
  return group.Run({.kind = CollectiveKind::kAllReduce,
                    .src = x.data(),
                    .dst = x.data(),
                    .count = count,
                    .site = site});
}

absl::Status Gather(Communicator& group, int64_t count) {
  std::vector<float> x(static_cast<size_t>(count)), y(static_cast<size_t>(count * group.size()));
  return group.Run({.kind = CollectiveKind::kAllGather,
                    .src = x.data(),
                    .dst = y.data(),
                    .count = count,
                    .site = "gather"});
}

absl::Status Load(const std::string& fault) {
  if (fault == "error") return absl::DataLossError("a broken shard");
  if (fault == "throw") throw std::runtime_error("a bad row");
  if (fault == "kill") raise(SIGKILL);
  while (fault == "hang") pause();
  return absl::OkStatus();
}

absl::Status Reduce(Communicator& world, Communicator& pair, const std::string& fault) {
  const bool odd = world.rank() % 2 == 1, last = world.rank() == world.size() - 1;
  if (fault == "count") return Sum(world, odd ? 8 : 4, "gradients");
  if (fault == "operation" && odd) return Gather(world, 4);
  if (fault == "conditional" && last) return absl::OkStatus();
  if (fault == "ends" && odd) {
    float x = 0;
    return pair.Run(
        {.kind = CollectiveKind::kExchange, .src = &x, .count = 1, .to = 0, .site = "send"});
  }
  if (fault == "deadlock") {
    if (!odd) RETURN_IF_ERROR(Sum(world, 4, "conditional"));
    RETURN_IF_ERROR(Sum(pair, 4, "next"));
  }
  RETURN_IF_ERROR(Sum(world, 4, "gradients"));
  return Sum(world, 1 << 20, "parameters");
}

absl::Status Train(Communicator& world, const std::string& fault) {
  const int first = world.rank() / 2 * 2;
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> pair, world.Subgroup({first, first + 1}, "pair"));
  for (int64_t step = 1; step <= 4; ++step) {
    const bool now = step == 3;
    world.SetWhere(step, "load");
    if (now && world.rank() == 2) RETURN_IF_ERROR(Load(fault));
    world.SetWhere(step, "reduce");
    RETURN_IF_ERROR(Reduce(world, *pair, now ? fault : "none"));
    if (now && fault == "conditional" && world.rank() == world.size() - 1) return absl::OkStatus();
    world.SetWhere(step, "save");
    if (now && world.rank() == 2 && fault == "save") {
      return absl::ResourceExhaustedError("the disk is full");
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CHECK_EQ(argc, 3) << "FAULT RANKS_PER_MACHINE";
  const std::string fault = argv[1];
  absl::StatusOr<std::unique_ptr<MpiWorld>> mpi =
      MpiWorld::Init({.watch = {.stall_seconds = 3, .deadlock_seconds = 2},
                      .ranks_per_machine = std::atoi(argv[2])});
  CHECK_OK(mpi);
  const absl::Status status = (*mpi)->Run([&](Communicator& world) { return Train(world, fault); });
  if (!status.ok()) std::printf("ended: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace colossus

int main(int argc, char** argv) { return colossus::Main(argc, argv); }
