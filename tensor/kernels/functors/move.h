// Functors that move elements: strided copies with conversion, fills, cache rows.
//
// Thread-safety: plain values; one call per element. Ownership: views of device memory.
//
//   StridedMove move = ...;      // index decoded by `index`
//   for (int64_t i = 0; i < n; ++i) move(i);
#ifndef COLOSSUS_TENSOR_KERNELS_FUNCTORS_MOVE_H_
#define COLOSSUS_TENSOR_KERNELS_FUNCTORS_MOVE_H_

#include <cstdint>

#include "tensor/kernels/functors/element.h"

namespace colossus {

inline constexpr int kMaxRank = 8;

// Row-major indices of a block and the offsets that they have in up to kValues tensors.
template <int kValues>
struct StridedIndex {
  int rank = 0;
  int64_t dims[kMaxRank] = {};
  int64_t strides[kValues][kMaxRank] = {};  // in elements; 0 repeats

  HD void Offsets(int64_t i, int64_t* offsets) const {
    for (int v = 0; v < kValues; ++v) offsets[v] = 0;
    for (int d = rank - 1; d > 0; --d) {
      const int64_t rest = i / dims[d], at = i - rest * dims[d];
      for (int v = 0; v < kValues; ++v) offsets[v] += at * strides[v][d];
      i = rest;
    }
    if (rank > 0) {
      for (int v = 0; v < kValues; ++v) offsets[v] += i * strides[v][0];
    }
  }
};

// dst[i'] = src[i''], bit for bit between equal dtypes, else rounded to nearest (floats).
struct StridedMove {
  Source src;
  Target dst;
  int width = 4;           // bytes of an element; 0: converts
  StridedIndex<2> index;  // 0: dst, 1: src
  int64_t dst_first = 0, src_first = 0;  // offsets of element 0

  HD void operator()(int64_t i) const {
    int64_t at[2];
    index.Offsets(i, at);
    const int64_t to = dst_first + at[0], from = src_first + at[1];
    switch (width) {
      case 0: dst.Set(to, src.F(from)); return;
      case 1: Copy<uint8_t>(to, from); return;
      case 2: Copy<uint16_t>(to, from); return;
      case 4: Copy<uint32_t>(to, from); return;
      default: Copy<uint64_t>(to, from); return;
    }
  }

 private:
  template <class T>
  HD void Copy(int64_t to, int64_t from) const {
    static_cast<T*>(dst.data)[to] = static_cast<const T*>(src.data)[from];
  }
};

// Every element gets the low `width` bytes of `bits`.
struct FillBits {
  void* data = nullptr;
  int width = 4;
  uint64_t bits = 0;

  HD void operator()(int64_t i) const {
    switch (width) {
      case 1: static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(bits); return;
      case 2: static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(bits); return;
      case 4: static_cast<uint32_t*>(data)[i] = static_cast<uint32_t>(bits); return;
      default: static_cast<uint64_t*>(data)[i] = bits; return;
    }
  }
};

// y[i] = start + the index along one dim of extent `extent`, with `inner` elements per index.
struct Iota {
  Target y;
  int64_t extent = 1, inner = 1, start = 0;
  HD void operator()(int64_t i) const {
    StoreAs<int64_t>(y.dtype, y.data, i, start + i / inner % extent);
  }
};

// Converts by way of T: int64_t between integers, float between small floats, else double.
template <class T>
struct ConvertElement {
  Source x;
  Target y;
  HD void operator()(int64_t i) const {
    StoreAs<T>(y.dtype, y.data, i, LoadAs<T>(x.dtype, x.data, i));
  }
};

// Row s of the new rows of entry b goes to row lengths[b] + s of the cache, if there is one.
struct CacheRows {
  const void* rows = nullptr;  // [b, s, width bytes]
  void* cache = nullptr;       // [b, t, width bytes]
  const int32_t* lengths = nullptr;
  int64_t s = 0, t = 0, width = 0;
  HD void operator()(int64_t i) const {  // one byte
    const int64_t byte = i % width, row = i / width % s, b = i / width / s;
    const int64_t to = lengths[b] + row;
    if (to < 0 || to >= t) return;
    static_cast<uint8_t*>(cache)[(b * t + to) * width + byte] =
        static_cast<const uint8_t*>(rows)[i];
  }
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_FUNCTORS_MOVE_H_
