#include "collectives/reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace colossus {
namespace {

constexpr int64_t kBlock = 512;  // elements that stay in the first-level cache
constexpr int kMostLevels = 13;  // of a tree over kMostReducedRanks leaves

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, BF16> || std::is_same_v<T, F16>;
template <class T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

template <class T>
inline Wide<T> Widen(T x) {
  if constexpr (kIsHalf<T>) {
    return x.F();
  } else {
    return x;
  }
}

template <class T>
inline T Narrow(Wide<T> x) {
  if constexpr (kIsHalf<T>) {
    return T::From(x);
  } else {
    return x;
  }
}

struct Sum {
  template <class A>
  static A Of(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;
      return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};
struct Max {  // a NaN on either side wins
  template <class A>
  static A Of(A a, A b) {
    return (a > b) | (a != a) ? a : b;
  }
};
struct Min {
  template <class A>
  static A Of(A a, A b) {
    return (a < b) | (a != a) ? a : b;
  }
};

// out may be a or b: each element is read before it is written.
template <class Op, class A, class B, class Out>
void Combine(const A* a, const B* b, Out* out, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Narrow<Out>(Op::Of(Widen(a[i]), Widen(b[i])));
}

// The tree over one block of elements.
template <class T, class Op>
class BlockTree {
 public:
  BlockTree(absl::Span<const void* const> srcs, Wide<T>* scratch)
      : srcs_(srcs), scratch_(scratch) {}

  // Writes the reduction of elements first .. first + n - 1 of all srcs.
  void Reduce(int64_t first, int64_t n, T* out) const {
    const int ranks = static_cast<int>(srcs_.size());
    if (ranks == 1) {
      if (out != Leaf(0, first))
        std::memmove(out, Leaf(0, first), static_cast<size_t>(n) * sizeof(T));
      return;
    }
    CombineHalves(0, ranks, 0, first, n, out);
  }

 private:
  const T* Leaf(int rank, int64_t first) const {
    return static_cast<const T*>(srcs_[static_cast<size_t>(rank)]) + first;
  }
  Wide<T>* Scratch(int level) const { return scratch_ + level * kBlock; }

  // The sum of ranks lo .. hi - 1, hi - lo >= 2, into out; uses scratch from `level` on.
  template <class Out>
  void CombineHalves(int lo, int hi, int level, int64_t first, int64_t n, Out* out) const {
    const int mid = TreeMiddle(lo, hi);
    const bool left_leaf = mid - lo == 1, right_leaf = hi - mid == 1;
    Wide<T>* left = Scratch(level);
    Wide<T>* right = Scratch(level + (left_leaf ? 0 : 1));
    if (!left_leaf) CombineHalves(lo, mid, level, first, n, left);
    if (!right_leaf) CombineHalves(mid, hi, level + (left_leaf ? 0 : 1), first, n, right);
    if (left_leaf && right_leaf) {
      Combine<Op>(Leaf(lo, first), Leaf(mid, first), out, n);
    } else if (right_leaf) {
      Combine<Op>(left, Leaf(mid, first), out, n);
    } else {  // the left half is never smaller than the right one
      Combine<Op>(left, right, out, n);
    }
  }

  absl::Span<const void* const> srcs_;
  Wide<T>* scratch_;
};

template <class T, class Op>
void ReduceRowsOf(absl::Span<const void* const> srcs, absl::Span<void* const> dsts,
                  const ReduceRows& rows) {
  alignas(64) Wide<T> scratch[kMostLevels * kBlock];
  const BlockTree<T, Op> tree(srcs, scratch);
  for (int64_t row = 0; row < rows.rows; ++row) {
    for (int64_t done = 0; done < rows.count; done += kBlock) {
      const int64_t n = std::min(kBlock, rows.count - done);
      const int64_t at = row * rows.dst_stride + done;
      T* out = static_cast<T*>(dsts[0]) + at;
      tree.Reduce(row * rows.src_stride + done, n, out);
      for (void* dst : dsts.subspan(1)) {
        std::memcpy(static_cast<T*>(dst) + at, out, static_cast<size_t>(n) * sizeof(T));
      }
    }
  }
}

template <class T, class Op>
void CombineOperands(const Operand& lo, const Operand& hi, Wide<T>* out, int64_t n) {
  const auto with = [&]<class A>(const A* a) {
    if (hi.partial) {
      Combine<Op>(a, static_cast<const Wide<T>*>(hi.data), out, n);
    } else {
      Combine<Op>(a, static_cast<const T*>(hi.data), out, n);
    }
  };
  if (lo.partial) {
    with(static_cast<const Wide<T>*>(lo.data));
  } else {
    with(static_cast<const T*>(lo.data));
  }
}

template <class T>
void ReduceOf(Reduction reduction, absl::Span<const void* const> srcs, absl::Span<void* const> dsts,
              const ReduceRows& rows) {
  switch (reduction) {
    case Reduction::kSum:
      return ReduceRowsOf<T, Sum>(srcs, dsts, rows);
    case Reduction::kMax:
      return ReduceRowsOf<T, Max>(srcs, dsts, rows);
    case Reduction::kMin:
      return ReduceRowsOf<T, Min>(srcs, dsts, rows);
  }
}

// fn(T{}) for the types that are reduced.
template <class Fn>
void DispatchReduced(DType dtype, const Fn& fn) {
  DispatchDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, uint8_t> || std::is_same_v<T, bool>) {
      CHECK(false) << Name(DTypeOf<T>()) << " is not reduced";
    } else {
      fn(zero);
    }
  });
}

}  // namespace

int TreeMiddle(int lo, int hi) {
  return lo + static_cast<int>(std::bit_floor(static_cast<unsigned>(hi - lo - 1)));
}

void ReduceTree(DType dtype, Reduction reduction, absl::Span<const void* const> srcs,
                absl::Span<void* const> dsts, const ReduceRows& rows) {
  CHECK(!srcs.empty() && srcs.size() <= kMostReducedRanks) << srcs.size() << " ranks";
  CHECK(!dsts.empty());
  DispatchReduced(dtype, [&](auto zero) { ReduceOf<decltype(zero)>(reduction, srcs, dsts, rows); });
}

void CombinePartials(DType dtype, Reduction reduction, const Operand& lo, const Operand& hi,
                     void* out, int64_t count) {
  DispatchReduced(dtype, [&](auto zero) {
    using T = decltype(zero);
    Wide<T>* sums = static_cast<Wide<T>*>(out);
    switch (reduction) {
      case Reduction::kSum:
        return CombineOperands<T, Sum>(lo, hi, sums, count);
      case Reduction::kMax:
        return CombineOperands<T, Max>(lo, hi, sums, count);
      case Reduction::kMin:
        return CombineOperands<T, Min>(lo, hi, sums, count);
    }
  });
}

void RoundPartials(DType dtype, const void* src, void* dst, int64_t count) {
  if (AccumulatorOf(dtype) == dtype) {
    if (src != dst && count > 0) std::memcpy(dst, src, static_cast<size_t>(count * SizeOf(dtype)));
    return;
  }
  DispatchReduced(dtype, [&](auto zero) {
    using T = decltype(zero);
    const Wide<T>* sums = static_cast<const Wide<T>*>(src);
    T* out = static_cast<T*>(dst);
    for (int64_t i = 0; i < count; ++i) out[i] = Narrow<T>(sums[i]);
  });
}

DType AccumulatorOf(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype;
}

}  // namespace colossus
