// Reductions as functors: over rows by teams, over columns in chunks of fixed size.
//
// Sums of T: float for small floats, double for f64, int64_t for integers. The order of additions
// depends on shapes alone.
// Thread-safety: plain values. Ownership: views of device memory.
#ifndef COLOSSUS_TENSOR_KERNELS_FUNCTORS_REDUCE_H_
#define COLOSSUS_TENSOR_KERNELS_FUNCTORS_REDUCE_H_

#include <cstdint>

#include "tensor/kernels/functors/element.h"
#include "tensor/kernels/functors/move.h"
#include "tensor/kernels/functors/team.h"

namespace colossus {

inline constexpr int64_t kReduceChunk = 64;  // rows that one thread adds

// Result o folds the `count` elements at kept.Offset(o) + reduced.Offset(r).
template <class T>
struct ReduceShape {
  Source x;
  StridedIndex<1> kept, reduced;
  int64_t outputs = 1, count = 1;
  bool max = false;
  T start = 0;

  HD T At(int64_t o, int64_t r) const {
    int64_t base, at;
    kept.Offsets(o, &base);
    reduced.Offsets(r, &at);
    return LoadAs<T>(x.dtype, x.data, base + at);
  }
  HD T Step(T a, T b) const { return max ? (a < b ? b : a) : a + b; }
};

// One result by a warp.
template <class T>
struct ReduceByTeam {
  static constexpr int kLanes = 32;
  ReduceShape<T> shape;
  Target y;
  HD void operator()(const Team<32>& team, int64_t o) const {
    const T value =
        shape.max ? team.template Max<T>(shape.count, shape.start,
                                         [&](int64_t r) { return shape.At(o, r); })
                  : team.template Sum<T>(shape.count, [&](int64_t r) { return shape.At(o, r); });
    team.Once([&] { StoreAs<T>(y.dtype, y.data, o, value); });
  }
};

// Unit chunk * outputs + o: folds one chunk of result o into partial[unit].
template <class T>
struct ReduceChunk {
  ReduceShape<T> shape;
  T* partial = nullptr;
  HD void operator()(int64_t unit) const {
    const int64_t o = unit % shape.outputs, first = unit / shape.outputs * kReduceChunk;
    const int64_t last = first + kReduceChunk < shape.count ? first + kReduceChunk : shape.count;
    T value = shape.start;
    for (int64_t r = first; r < last; ++r) value = shape.Step(value, shape.At(o, r));
    partial[unit] = value;
  }
};

// Folds the chunks of result o in order.
template <class T>
struct ReduceTotals {
  const T* partial = nullptr;  // [chunks, outputs]
  int64_t chunks = 0, outputs = 0;
  bool max = false;
  T start = 0;
  Target y;
  HD void operator()(int64_t o) const {
    T value = start;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const T next = partial[chunk * outputs + o];
      value = max ? (value < next ? next : value) : value + next;
    }
    StoreAs<T>(y.dtype, y.data, o, value);
  }
};

// sum_squares (tensor/ops/sum_squares.h). Unit block * 16 + lane: the sum of the lane's squares.
struct SquareLanes {
  Source x;
  int64_t elements = 0;
  double* lanes = nullptr;
  HD void operator()(int64_t unit) const {
    const int64_t first = unit / 16 * 1024;
    const int64_t last = first + 1024 < elements ? first + 1024 : elements;
    double sum = 0;
    for (int64_t i = first + unit % 16; i < last; i += 16) {
      const double value = LoadAs<double>(x.dtype, x.data, i);
      sum += value * value;
    }
    lanes[unit] = sum;
  }
};

// The 16 lanes of a block in order.
struct SquareBlocks {
  const double* lanes = nullptr;
  double* blocks = nullptr;
  HD void operator()(int64_t block) const {
    double sum = 0;
    for (int lane = 0; lane < 16; ++lane) sum += lanes[block * 16 + lane];
    blocks[block] = sum;
  }
};

// The sum of doubles or floats in order, by one thread, after `start`, if it is given.
template <class T>
struct OrderedTotal {
  const T* values = nullptr;
  int64_t count = 0;
  Target y;
  const double* start = nullptr;
  HD void operator()(int64_t) const {
    double sum = start == nullptr ? 0 : *start;
    for (int64_t i = 0; i < count; ++i) sum += values[i];
    StoreAs<double>(y.dtype, y.data, 0, sum);
  }
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_FUNCTORS_REDUCE_H_
