// Attention functors.
#include "tensor/kernels/cuda/launch_gpu.h"
#include "tensor/kernels/functors/attention.h"

namespace colossus {

COLOSSUS_LAUNCHABLE(AttentionMeans)
COLOSSUS_LAUNCHABLE(AttentionBiasGradient)
COLOSSUS_LAUNCHABLE(AttentionRow<2>)
COLOSSUS_LAUNCHABLE(AttentionRow<4>)
COLOSSUS_LAUNCHABLE(AttentionRow<8>)
COLOSSUS_LAUNCHABLE(AttentionQueryGradient<2>)
COLOSSUS_LAUNCHABLE(AttentionQueryGradient<4>)
COLOSSUS_LAUNCHABLE(AttentionQueryGradient<8>)
COLOSSUS_LAUNCHABLE(AttentionKeyGradient<2>)
COLOSSUS_LAUNCHABLE(AttentionKeyGradient<4>)
COLOSSUS_LAUNCHABLE(AttentionKeyGradient<8>)

}  // namespace colossus
