// DeviceRates: how fast a device is, and the seconds an op takes on it.
//
// Purpose: the roofline that virtual time and planners use: the larger of arithmetic and memory
// time, plus a fixed cost per launch.
// Thread-safety: plain values.
//
//   OpSeconds(rates, {.flops = 2e9, .bytes = 1e6}, operand_types)   // 2e9 / rates.flops_f32
#ifndef COLOSSUS_TENSOR_COST_DEVICE_RATES_H_
#define COLOSSUS_TENSOR_COST_DEVICE_RATES_H_

#include "absl/types/span.h"
#include "tensor/graph/types.h"
#include "tensor/ops/op.h"

namespace colossus {

// Rates of one rank's share of a device. The defaults are declared, not measured: two cores with
// AVX-512.
struct DeviceRates {
  double flops_f32 = 450e9;         // per second, products of f32 operands
  double flops_16 = 900e9;          // per second, products of bf16 or f16 operands
  double bytes_per_second = 50e9;   // memory traffic
  double launch_seconds = 1e-6;     // per kernel
};

// Between tiers, one rank's share, each way. The defaults are declared, not measured.
struct TransferRates {
  double link_bytes_per_second = 12e9;
  double disk_read_bytes_per_second = 1.3e9;
  double disk_write_bytes_per_second = 2.6e9;
};

// The rate of 16-bit products applies when the first float operand is 16 bits wide.
double OpSeconds(const DeviceRates& rates, const Cost& cost, absl::Span<const Type> operands);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_COST_DEVICE_RATES_H_
