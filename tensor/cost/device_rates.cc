#include "tensor/cost/device_rates.h"

#include <algorithm>

namespace colossus {

double OpSeconds(const DeviceRates& rates, const Cost& cost, absl::Span<const Type> operands) {
  double flops_per_second = rates.flops_f32;
  for (const Type& type : operands) {
    if (!IsFloat(type.dtype)) continue;
    if (SizeOf(type.dtype) == 2) flops_per_second = rates.flops_16;
    break;
  }
  return rates.launch_seconds +
         std::max(cost.flops / flops_per_second, cost.bytes / rates.bytes_per_second);
}

}  // namespace colossus
