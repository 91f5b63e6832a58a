// The rate that utilisation is measured against: what the product kernels of a device reach.
//
// Thread-safety: runs kernels on the calling thread's share of cores.
//
//   ASSIGN_OR_RETURN(const double peak, MeasureMatmulPeak(*device, DType::kBF16));  // flop/s
#ifndef COLOSSUS_TRAINERS_LIB_REPORT_MATMUL_PEAK_H_
#define COLOSSUS_TRAINERS_LIB_REPORT_MATMUL_PEAK_H_

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "tensor/cost/device_rates.h"
#include "tensor/exec/device.h"

namespace colossus {

// Flop/s of a square product of 1024 rows (of 4096 on a GPU) with operands of `compute`, the best
// of about 0.1 s of runs. A device that does not compute, or whose memory is full, gives its
// rate in `declared`. Nothing planned depends on it.
absl::StatusOr<double> MeasureMatmulPeak(Device& device, DType compute,
                                         const DeviceRates& declared = {});

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_REPORT_MATMUL_PEAK_H_
