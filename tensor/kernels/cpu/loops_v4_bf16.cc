// The own loops for CPUs of level x86-64-v4 with products of bf16 pairs (isa.h).
#include <bit>
#include <cstdint>
#include <immintrin.h>

#include "base/dtype.h"
#include "tensor/kernels/cpu/attention_loops.h"

#define COLOSSUS_ISA isa_v4_bf16
#define COLOSSUS_ISA_LEVEL 4
#define COLOSSUS_PAIRS_BY_CPU 1
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,avx512bf16,prefer-vector-width=512")
#include "tensor/kernels/cpu/simd_math.inc"
#include "tensor/kernels/cpu/pair_loops.inc"
#pragma GCC pop_options
