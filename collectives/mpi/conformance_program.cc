// The conformance suite on MPI ranks, in groups of the first ranks; run by mpi_test.
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "collectives/cost.h"
#include "collectives/mpi/mpi_world.h"
#include "collectives/testing/communicator_conformance.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

Communicator* world = nullptr;

absl::Status RunOnFirst(int ranks, const RankFunction& rank) {
  if (world->rank() >= ranks) return absl::OkStatus();
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  absl::StatusOr<std::unique_ptr<Communicator>> group = world->Subgroup(members, "first");
  return group.ok() ? rank(**group) : group.status();
}

// Arguments: ranks on a machine (0: as it is); whether to check; bytes of a piece (0: as usual).
int Main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  CHECK_EQ(argc, 4) << "RANKS_PER_MACHINE CHECK PIECE_BYTES";
  MpiOptions options;
  options.ranks_per_machine = std::atoi(argv[1]);
  options.check = std::atoi(argv[2]) != 0;
  if (std::atoi(argv[3]) > 0) options.piece_bytes = std::atoi(argv[3]);
  absl::StatusOr<std::unique_ptr<MpiWorld>> mpi = MpiWorld::Init(options);
  CHECK_OK(mpi);
  world = &(*mpi)->communicator();
  CHECK(MpiWorld::IsLaunched());
  std::vector<int> sizes(static_cast<size_t>(world->size()));
  std::iota(sizes.begin(), sizes.end(), 1);
  RegisterCommunicatorConformance({.name = "Mpi",
                                   .sizes = sizes,
                                   .counts_of =
                                       [](const Collective& op, int rank, int size) {
                                         return CountsOf(ChooseAlgorithm(op, size, LinkRates{}), op,
                                                         rank, size);
                                       },
                                   .disposable = false,
                                   .run = RunOnFirst});
  const absl::Status status = (*mpi)->Run([](Communicator&) {
    return RUN_ALL_TESTS() == 0 ? absl::OkStatus() : absl::InternalError("tests failed");
  });
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace colossus

int main(int argc, char** argv) { return colossus::Main(argc, argv); }
