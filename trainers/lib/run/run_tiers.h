// The tiers below the device that run.* and plan.placement describe, for one program of one rank.
//
// Thread-safety: plain functions; each rank's thread calls them for programs of its own. Ownership:
// the program's options own the disk and the placer.
//
//   CompileOptions compile;
//   ASSIGN_OR_RETURN(const std::string what, AddTiers(options, mesh.ranks(), *device,
//                                                     &compile.program));
//   log.Info(what);   // empty: there is nothing below the device
#ifndef COLOSSUS_TRAINERS_LIB_RUN_RUN_TIERS_H_
#define COLOSSUS_TRAINERS_LIB_RUN_RUN_TIERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/exec/device.h"
#include "tensor/exec/disk/file_disk_tier.h"
#include "tensor/exec/program.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// Sets placer, host memory, disk and rates. Nothing on the host device, which has one memory only.
// Every program needs a disk of its own, so call it for each. The job has `ranks` of which those on
// one machine share its memory and disk evenly. Says for the log what this one may use. Error: a
// disk that cannot be used, or host memory that is less than what the disk's own buffers take.
// `offload`: how the disk's file is opened.
absl::StatusOr<std::string> AddTiers(const Options& options, int ranks, const Device& device,
                                     ProgramOptions* program,
                                     const FileDiskTierOptions& offload = {});

// In place of the disk that AddTiers found, which must be of no other use any more, one like it for
// another program. Error: as AddTiers.
absl::Status ReopenDisk(const Options& options, const FileDiskTierOptions& offload,
                        ProgramOptions* program);

// Gives every rank of the group what the one with least may use: free memory and disk are found by
// each at its own instant, and what ranks choose by it, recomputation, must be the same on all.
// Collective. REQUIRES: AddTiers was ok on all of them.
absl::Status AgreeOnTiers(RankGroup group, ProgramOptions* program);

// For a program with these options that was refused since memory was too small: names the folder of
// a disk, and host memory of which a rank has a share only.
absl::Status NameTiers(const absl::Status& refusal, const Options& options,
                      const ProgramOptions& program);

// Bytes of memory that the system could give to new allocations now; INT64_MAX if it does not say.
int64_t AvailableHostBytes();

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_RUN_TIERS_H_
