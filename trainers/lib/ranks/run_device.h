// The device that run.* keys describe.
//
// Thread-safety: plain functions; each rank's thread makes its own. Ownership: the device is the
// caller's, the communicator of `group` must outlive it.
//
//   ASSIGN_OR_RETURN(RankDevice own, MakeRankDevice(config.options, place, group));
//   own.device, own.communicators
#ifndef COLOSSUS_TRAINERS_LIB_RANKS_RUN_DEVICE_H_
#define COLOSSUS_TRAINERS_LIB_RANKS_RUN_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "parallel/rank_graph.h"
#include "tensor/cost/device_rates.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// Threads of a rank: run.threads, or its share of the cores this process may use, at least one.
// `ranks`: on this machine.
int RunThreads(const Options& options, int ranks = 1);

// What run.device_* declares of a predicted device; else the defaults.
DeviceRates DeclaredRates(const Options::Run& run);

// A rank's device, with the communicators that its kernels of collectives use.
struct RankDevice {
  std::unique_ptr<MeshCommunicators> communicators;  // null: one rank, or only planned
  std::unique_ptr<CollectiveKernels> kernels;        // likewise
  std::unique_ptr<Device> device;
};

// Sets the calling thread's share of cores too, or takes that which RunOnRanks has set. `place`: of
// this rank of `group`; if that has no others, the rank is only planned, and its collectives cannot
// run. Error: a capped or cuda device that cannot be had.
absl::StatusOr<RankDevice> MakeRankDevice(const Options& options, const MeshPlace& place,
                                          RankGroup group);

// The same for a job of one rank.
absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const Options& options);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RANKS_RUN_DEVICE_H_
