// The loops over pairs of bf16 for any x86-64 CPU (isa.h).
#include <bit>
#include <cstdint>
#include <xmmintrin.h>

#include "base/dtype.h"
#include "tensor/kernels/cpu/attention_loops.h"

#define COLOSSUS_ISA isa_v2_pairs
#define COLOSSUS_ISA_LEVEL 2
#define COLOSSUS_PAIRS_BY_CPU 0
#include "tensor/kernels/cpu/simd_math.inc"
#include "tensor/kernels/cpu/pair_loops.inc"
