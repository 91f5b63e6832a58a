// The device that run.* keys describe.
//
// Thread-safety: a plain function. Ownership: the device is the caller's.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Device> device, MakeDevice(config.options));
#ifndef COLOSSUS_TRAINERS_LIB_RUN_DEVICE_H_
#define COLOSSUS_TRAINERS_LIB_RUN_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/exec/device.h"
#include "trainers/lib/options.h"

namespace colossus {

// Threads of a rank: run.threads, or all cores this process may use.
int RunThreads(const Options& options);

// Sets the calling thread's share of cores too. Error: a capped or cuda device that cannot be had.
absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const Options& options);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_DEVICE_H_
