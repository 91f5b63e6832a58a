// Functors that move elements, reductions, updates and products without a library.
#include "tensor/kernels/cuda/launch_gpu.h"
#include "tensor/kernels/functors/gemm.h"
#include "tensor/kernels/functors/move.h"
#include "tensor/kernels/functors/optimizer.h"
#include "tensor/kernels/functors/reduce.h"

namespace colossus {

COLOSSUS_LAUNCHABLE(StridedMove)
COLOSSUS_LAUNCHABLE(FillBits)
COLOSSUS_LAUNCHABLE(Iota)
COLOSSUS_LAUNCHABLE(ConvertElement<float>)
COLOSSUS_LAUNCHABLE(ConvertElement<double>)
COLOSSUS_LAUNCHABLE(ConvertElement<int64_t>)
COLOSSUS_LAUNCHABLE(CacheRows)
COLOSSUS_LAUNCHABLE(ReduceByTeam<float>)
COLOSSUS_LAUNCHABLE(ReduceByTeam<double>)
COLOSSUS_LAUNCHABLE(ReduceByTeam<int64_t>)
COLOSSUS_LAUNCHABLE(ReduceChunk<float>)
COLOSSUS_LAUNCHABLE(ReduceChunk<double>)
COLOSSUS_LAUNCHABLE(ReduceChunk<int64_t>)
COLOSSUS_LAUNCHABLE(ReduceTotals<float>)
COLOSSUS_LAUNCHABLE(ReduceTotals<double>)
COLOSSUS_LAUNCHABLE(ReduceTotals<int64_t>)
COLOSSUS_LAUNCHABLE(SquareLanes)
COLOSSUS_LAUNCHABLE(SquareBlocks)
COLOSSUS_LAUNCHABLE(OrderedTotal<float>)
COLOSSUS_LAUNCHABLE(OrderedTotal<double>)
COLOSSUS_LAUNCHABLE(AdamwElement)
COLOSSUS_LAUNCHABLE(SgdElement)
COLOSSUS_LAUNCHABLE(GemmElement<float>)
COLOSSUS_LAUNCHABLE(GemmElement<double>)

}  // namespace colossus
