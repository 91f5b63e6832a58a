// Isa: the instruction sets the own loops are compiled for, and the one this process uses.
//
// Purpose: each family of loops (*.inc) is compiled three times, in loops_v2.cc, loops_v3.cc and
// loops_v4.cc (products of bf16 pairs apart, in loops_pairs.cc and loops_v4_bf16.cc), inside a
// namespace of its own and under `#pragma GCC target`; PickIsa picks one at run time. No library
// code is compiled for a newer CPU than the build asks for, as intrinsics and templates stay inside
// those namespaces.
// Thread-safety: constant after the first call. Ownership: none.
//
//   PickIsa(isa_v2::kRowLoops, isa_v3::kRowLoops, isa_v4::kRowLoops).softmax(...);
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_ISA_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_ISA_H_

namespace colossus {

// The levels of the x86-64 psABI: SSE4.2; AVX2 with FMA; AVX-512.
enum class Isa { kV2, kV3, kV4 };

// The best of this CPU. The environment variable COLOSSUS_MAX_ISA (v2, v3 or v4) lowers it, so that
// tests reach every variant; read once, as below.
Isa BestIsa();

// Whether products take pairs of bf16: where the CPU is of level v4 and has AVX512_BF16 at the rate
// of f32 products, which pairs then double. Intel's cores start one vdpbf16ps of 512 bits every
// second cycle and two f32 products every cycle, so that pairs would halve the rate there.
// COLOSSUS_MAX_ISA=v4 says no: it stands for CPUs of that level without them.
// COLOSSUS_MAX_ISA=pairs makes tests take the portable loops over pairs on any CPU, and
// COLOSSUS_MAX_ISA=v4_bf16 the CPU's own where it has them, slow or not.
enum class PairSupport { kNone, kPortable, kByCpu };
PairSupport Bf16Pairs();

template <class T>
const T& PickIsa(const T& v2, const T& v3, const T& v4) {
  switch (BestIsa()) {
    case Isa::kV4: return v4;
    case Isa::kV3: return v3;
    case Isa::kV2: break;
  }
  return v2;
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_ISA_H_
