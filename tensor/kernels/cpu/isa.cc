#include "tensor/kernels/cpu/isa.h"

#include <cstdlib>
#include <cstring>

namespace colossus {
namespace {

Isa Detect() {
  const char* limit = std::getenv("COLOSSUS_MAX_ISA");
  bool below_v3 = limit != nullptr && std::strcmp(limit, "v2") == 0;
  bool below_v4 = below_v3 || (limit != nullptr && std::strcmp(limit, "v3") == 0);
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  if (v4 && !below_v4) return Isa::kV4;
  return v3 && !below_v3 ? Isa::kV3 : Isa::kV2;
}

}  // namespace

Isa BestIsa() {
  static const Isa isa = Detect();
  return isa;
}

PairSupport Bf16Pairs() {
  static const PairSupport support = [] {
    const char* variable = std::getenv("COLOSSUS_MAX_ISA");
    const char* limit = variable == nullptr ? "" : variable;
    if (std::strcmp(limit, "pairs") == 0) return PairSupport::kPortable;
    const bool has = BestIsa() == Isa::kV4 && __builtin_cpu_supports("avx512bf16");
    const bool wanted = std::strcmp(limit, "v4_bf16") == 0 ||
                        (std::strcmp(limit, "v4") != 0 && !__builtin_cpu_is("intel"));
    return has && wanted ? PairSupport::kByCpu : PairSupport::kNone;
  }();
  return support;
}

}  // namespace colossus
