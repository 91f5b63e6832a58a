#include "tensor/kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/parallel_for.h"
#include "tensor/kernels/cpu/convert_loops.h"

namespace colossus {
namespace {

constexpr int64_t kTile = 32;        // of a turned copy
constexpr int64_t kGrain = 1 << 14;  // elements worth a thread

bool Small(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

template <class S, class D>
D Cast(S s) {
  if constexpr (std::is_same_v<S, D>) return s;
  else if constexpr (std::is_same_v<S, float>) return D::From(s);
  else if constexpr (std::is_same_v<D, float>) return s.F();
  else return D::From(s.F());
}

// dst[i * di + j * dj] = src[i * si + j * sj] for an n x m tile.
template <class S, class D>
void CopyTile(const void* src, int64_t si, int64_t sj, void* dst, int64_t di, int64_t dj,
              int64_t n, int64_t m) {
  const S* s = static_cast<const S*>(src);
  D* d = static_cast<D*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) d[i * di + j * dj] = Cast<S, D>(s[i * si + j * sj]);
  }
}

using TileFunction = void (*)(const void*, int64_t, int64_t, void*, int64_t, int64_t, int64_t,
                              int64_t);

TileFunction FindTile(DType src, DType dst) {
  if (src == dst) {
    switch (SizeOf(src)) {
      case 1: return CopyTile<uint8_t, uint8_t>;
      case 2: return CopyTile<uint16_t, uint16_t>;
      case 4: return CopyTile<uint32_t, uint32_t>;
      default: return CopyTile<uint64_t, uint64_t>;
    }
  }
  if (src == DType::kF32) return dst == DType::kBF16 ? CopyTile<float, BF16> : CopyTile<float, F16>;
  if (src == DType::kBF16) return dst == DType::kF32 ? CopyTile<BF16, float> : CopyTile<BF16, F16>;
  return dst == DType::kF32 ? CopyTile<F16, float> : CopyTile<F16, BF16>;
}

}  // namespace

bool StridedCopy::Supports(DType src, DType dst) {
  return src == dst || (Small(src) && Small(dst));
}

StridedCopy::StridedCopy(const Dims& dims, const Dims& src_strides, DType src,
                         const Dims& dst_strides, DType dst)
    : src_(src), dst_(dst), elements_(ElementCount(dims)) {
  CHECK(Supports(src, dst));
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (!dims_.empty() && src_strides_.back() == src_strides[d] * dims[d] &&
        dst_strides_.back() == dst_strides[d] * dims[d]) {
      dims_.back() *= dims[d];
      src_strides_.back() = src_strides[d];
      dst_strides_.back() = dst_strides[d];
    } else {
      dims_.push_back(dims[d]);
      src_strides_.push_back(src_strides[d]);
      dst_strides_.push_back(dst_strides[d]);
    }
  }
  if (dims_.empty()) {
    dims_ = {1};
    src_strides_ = dst_strides_ = {1};
  }
  if (src_strides_.back() == 1 || src_strides_.back() == 0) return;
  for (size_t d = 0; d + 1 < dims_.size(); ++d) {
    if (src_strides_[d] == 1) turned_ = static_cast<int>(d);
  }
}

void StridedCopy::Run(const void* src, void* dst) const {
  if (elements_ == 0) return;
  const char* s = static_cast<const char*>(src);
  char* d = static_cast<char*>(dst);
  if (turned_ >= 0) RunTiles(s, d);
  else RunRows(s, d);
}

// One run of the last dim after the other.
void StridedCopy::RunRows(const char* src, char* dst) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  const int64_t n = dims_[last], rows = elements_ / n;
  const int64_t ss = SizeOf(src_), ds = SizeOf(dst_);
  const bool dense = src_strides_[last] == 1 && dst_strides_[last] == 1;
  const TileFunction tile = FindTile(src_, dst_);
  auto run = [&](int64_t row, int64_t begin, int64_t end) {
    int64_t so = begin * src_strides_[last], po = begin * dst_strides_[last];
    for (int d = last - 1; d >= 0; --d) {
      so += row % dims_[d] * src_strides_[d];
      po += row % dims_[d] * dst_strides_[d];
      row /= dims_[d];
    }
    const char* s = src + so * ss;
    char* d = dst + po * ds;
    if (dense && src_ == dst_) std::memcpy(d, s, (end - begin) * ss);
    else if (dense) ConvertRun(src_, s, dst_, d, end - begin);
    else tile(s, 0, src_strides_[last], d, 0, dst_strides_[last], 1, end - begin);
  };
  if (rows == 1) {
    ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) { run(0, begin, end); });
    return;
  }
  ParallelFor(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) run(row, 0, n);
  });
}

// Tiles of the last dim (dense in dst) and the turned one (dense in src), for every index of the
// others: each cache line of either side is used whole while it is near.
void StridedCopy::RunTiles(const char* src, char* dst) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  const int64_t n = dims_[turned_], m = dims_[last];
  const int64_t tiles = (n + kTile - 1) / kTile, units = elements_ / (n * m) * tiles;
  const int64_t ss = SizeOf(src_), ds = SizeOf(dst_);
  const TileFunction tile = FindTile(src_, dst_);
  ParallelFor(units, std::max<int64_t>(1, kGrain / (kTile * m)), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t index = unit / tiles, i = unit % tiles * kTile;
      int64_t so = i, po = i * dst_strides_[turned_];
      for (int d = last - 1; d >= 0; --d) {
        if (d == turned_) continue;
        so += index % dims_[d] * src_strides_[d];
        po += index % dims_[d] * dst_strides_[d];
        index /= dims_[d];
      }
      for (int64_t j = 0; j < m; j += kTile) {
        tile(src + (so + j * src_strides_[last]) * ss, 1, src_strides_[last],
             dst + (po + j * dst_strides_[last]) * ds, dst_strides_[turned_], dst_strides_[last],
             std::min(kTile, n - i), std::min(kTile, m - j));
      }
    }
  });
}

}  // namespace colossus
