// Functors over rows.
#include "tensor/kernels/cuda/launch_gpu.h"
#include "tensor/kernels/functors/rows.h"

namespace colossus {

COLOSSUS_LAUNCHABLE(NormRow)
COLOSSUS_LAUNCHABLE(NormGradientRow)
COLOSSUS_LAUNCHABLE(NormGradientChunk)
COLOSSUS_LAUNCHABLE(NormGradientTotals)
COLOSSUS_LAUNCHABLE(SoftmaxRow<32>)
COLOSSUS_LAUNCHABLE(SoftmaxRow<256>)
COLOSSUS_LAUNCHABLE(SoftmaxGradientRow<32>)
COLOSSUS_LAUNCHABLE(SoftmaxGradientRow<256>)
COLOSSUS_LAUNCHABLE(CrossEntropyRow)
COLOSSUS_LAUNCHABLE(CrossEntropyGradient)
COLOSSUS_LAUNCHABLE(LossRow)
COLOSSUS_LAUNCHABLE(BiasColumn)
COLOSSUS_LAUNCHABLE(RotaryPair)
COLOSSUS_LAUNCHABLE(EmbeddingElement)
COLOSSUS_LAUNCHABLE(LinkPositions)
COLOSSUS_LAUNCHABLE(AddPositions)
COLOSSUS_LAUNCHABLE(DropoutElement)
COLOSSUS_LAUNCHABLE(TopkRow)
COLOSSUS_LAUNCHABLE(TopkGradient)

}  // namespace colossus
