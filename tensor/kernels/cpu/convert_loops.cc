#include "tensor/kernels/cpu/convert_loops.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/kernels/cpu/isa.h"

namespace colossus {
namespace {

const ConvertLoops& Loops() {
  return PickIsa(isa_v2::kConvertLoops, isa_v3::kConvertLoops, isa_v4::kConvertLoops);
}

}  // namespace

void LoadRun(DType dtype, const void* x, float* y, int64_t n) {
  switch (dtype) {
    case DType::kF32: std::memcpy(y, x, n * sizeof(float)); return;
    case DType::kBF16: Loops().load_bf16(static_cast<const BF16*>(x), y, n); return;
    case DType::kF16: Loops().load_f16(static_cast<const F16*>(x), y, n); return;
    case DType::kBool: Loops().load_bool(static_cast<const uint8_t*>(x), y, n); return;
    default: CHECK(false) << "no f32 run of " << std::string(Name(dtype));
  }
}

void StoreRun(DType dtype, const float* x, void* y, int64_t n) {
  switch (dtype) {
    case DType::kF32: std::memcpy(y, x, n * sizeof(float)); return;
    case DType::kBF16: Loops().store_bf16(x, static_cast<BF16*>(y), n); return;
    case DType::kF16: Loops().store_f16(x, static_cast<F16*>(y), n); return;
    case DType::kBool: Loops().store_bool(x, static_cast<uint8_t*>(y), n); return;
    default: CHECK(false) << "no f32 run of " << std::string(Name(dtype));
  }
}

void RoundRun(DType dtype, const float* x, float* y, int64_t n) {
  CHECK(dtype == DType::kBF16 || dtype == DType::kF16);
  if (dtype == DType::kBF16) Loops().round_bf16(x, y, n);
  else Loops().round_f16(x, y, n);
}

void ConvertRun(DType src, const void* x, DType dst, void* y, int64_t n) {
  if (src == dst) {
    std::memcpy(y, x, n * SizeOf(src));
  } else if (src == DType::kF32) {
    StoreRun(dst, static_cast<const float*>(x), y, n);
  } else if (dst == DType::kF32) {
    LoadRun(src, x, static_cast<float*>(y), n);
  } else {
    float tile[256];
    for (int64_t i = 0; i < n; i += 256) {
      int64_t m = std::min<int64_t>(256, n - i);
      LoadRun(src, static_cast<const char*>(x) + i * SizeOf(src), tile, m);
      StoreRun(dst, tile, static_cast<char*>(y) + i * SizeOf(dst), m);
    }
  }
}

}  // namespace colossus
