// The device conformance suite: what every kind of device must do.
//
// Purpose: a device's test is a capability struct and one call. It checks copies, order on a
// stream, events across streams, capacity, counted bytes, kernels with workspaces, and that errors
// of work are reported.
// Thread-safety: call while static variables are initialised; the tests run with RUN_ALL_TESTS.
// Ownership: copies the struct.
//
//   const bool registered = RegisterDeviceConformance(
//       {.name = "Host", .make = [](int64_t bytes) { return NewHostDevice(...); }});
#ifndef COLOSSUS_TENSOR_TESTING_DEVICE_CONFORMANCE_H_
#define COLOSSUS_TENSOR_TESTING_DEVICE_CONFORMANCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tensor/exec/device.h"
#include "tensor/kernels/kernel.h"

namespace colossus {

// y[i] = a[i] + 2 b[i] over kConformanceElements floats. Goes through its workspace: writes 2 b
// there first.
inline constexpr int64_t kConformanceElements = 1000;
PlannedKernel HostConformanceKernel();

struct DeviceCapabilities {
  std::string name;  // of the test suite: letters and digits
  // The kernel above, as the device runs it.
  PlannedKernel kernel = HostConformanceKernel();
  // Stream::Launch runs its work (the null device only counts it).
  bool runs_work = true;
  // A device whose device tier holds `memory_bytes`.
  std::function<std::unique_ptr<Device>(int64_t memory_bytes)> make;
};

// Returns true, for use as an initialiser.
bool RegisterDeviceConformance(const DeviceCapabilities& capabilities);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_DEVICE_CONFORMANCE_H_
