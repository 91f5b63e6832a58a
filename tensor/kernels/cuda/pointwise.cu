// Pointwise functors.
#include "tensor/kernels/cuda/launch_gpu.h"
#include "tensor/kernels/functors/pointwise.h"

namespace colossus {

COLOSSUS_LAUNCHABLE(Pointwise<float>)
COLOSSUS_LAUNCHABLE(Pointwise<double>)
COLOSSUS_LAUNCHABLE(Pointwise<int64_t>)

}  // namespace colossus
