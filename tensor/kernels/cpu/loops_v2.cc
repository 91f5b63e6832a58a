// The own loops for any x86-64 CPU (isa.h).
#include <bit>
#include <cstdint>
#include <xmmintrin.h>

#include "base/dtype.h"
#include "base/random.h"
#include "tensor/kernels/cpu/attention_loops.h"
#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/pointwise_loops.h"
#include "tensor/kernels/cpu/row_loops.h"
#include "tensor/kernels/cpu/update_loops.h"

#define COLOSSUS_ISA isa_v2
#define COLOSSUS_ISA_LEVEL 2
#include "tensor/kernels/cpu/simd_math.inc"
#include "tensor/kernels/cpu/pointwise_loops.inc"
#include "tensor/kernels/cpu/row_loops.inc"
#include "tensor/kernels/cpu/update_loops.inc"
#define TileMulAdd VecMulAdd
#include "tensor/kernels/cpu/tile_gemm.inc"
#include "tensor/kernels/cpu/attention_loops.inc"
