// The own loops for CPUs of level x86-64-v4 (isa.h).
#include <bit>
#include <cstdint>
#include <immintrin.h>

#include "base/dtype.h"
#include "base/random.h"
#include "tensor/kernels/cpu/attention_loops.h"
#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/pointwise_loops.h"
#include "tensor/kernels/cpu/row_loops.h"
#include "tensor/kernels/cpu/update_loops.h"

#define COLOSSUS_ISA isa_v4
#define COLOSSUS_ISA_LEVEL 4
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#include "tensor/kernels/cpu/simd_math.inc"
#include "tensor/kernels/cpu/pointwise_loops.inc"
#include "tensor/kernels/cpu/row_loops.inc"
#include "tensor/kernels/cpu/update_loops.inc"
#define TileMulAdd VecMulAdd
#include "tensor/kernels/cpu/tile_gemm.inc"
#include "tensor/kernels/cpu/attention_loops.inc"
#pragma GCC pop_options
