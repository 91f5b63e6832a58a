// Team: the threads that work on one unit together, with the same code on a GPU and on a CPU.
//
// Purpose: functors with sums over a row (norms, softmax, attention) are written once. On a GPU a
// team is a warp (32 lanes) or a block (256 lanes); on a CPU it is emulated lane by lane, with the
// additions in the same order, so that tests without a GPU judge indexing and numerics.
// Rules: Sum, Max and Sync are called by all lanes; what lies between them and outside of ForEach,
// ForEachSlot and Once is the same on all lanes. Memory that one lane wrote is read by another only
// after Sync.
// Thread-safety: on the host a Team has no state. Ownership: none.
//
//   struct RowSum {
//     static constexpr int kLanes = 32;
//     HD void operator()(const Team<32>& team, int64_t row) const {
//       const float sum = team.Sum<float>(n, [&](int64_t j) { return x[row * n + j]; });
//       team.Once([&] { y[row] = sum; });
//     }
//   };
#ifndef COLOSSUS_TENSOR_KERNELS_FUNCTORS_TEAM_H_
#define COLOSSUS_TENSOR_KERNELS_FUNCTORS_TEAM_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace colossus {

inline constexpr int kWarpLanes = 32;

template <int kLanesOfTeam>
class Team {
 public:
  static constexpr int kLanes = kLanesOfTeam;
  static_assert(kLanes == 32 || kLanes == 256);

  // f(i) for i in [0, n), lane i % kLanes.
  template <class F>
  HD void ForEach(int64_t n, F f) const {
#ifdef __CUDA_ARCH__
    for (int64_t i = lane(); i < n; i += kLanes) f(i);
#else
    for (int64_t i = 0; i < n; ++i) f(i);
#endif
  }

  // f(slot, i) for i = slot * kLanes + lane < n: the elements whose LaneArray entries a lane holds.
  // REQUIRES: n <= kSlots * kLanes.
  template <int kSlots, class F>
  HD void ForEachSlot(int64_t n, F f) const {
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const int64_t i = slot * kLanes + lane();
      if (i < n) f(slot, i);
    }
#else
    for (int64_t i = 0; i < n; ++i) f(static_cast<int>(i / kLanes), i);
#endif
  }

  // The sum of term(i) over [0, n), the same bits on all lanes. Each lane adds its i in order from
  // 0; lanes are added in pairs 16, 8, 4, 2, 1 apart; warps of a block in order.
  template <class T, class F>
  HD T Sum(int64_t n, F term) const {
#ifdef __CUDA_ARCH__
    T sum = 0;
    for (int64_t i = lane(); i < n; i += kLanes) sum += term(i);
    return Combine(sum, [](T a, T b) { return a + b; });
#else
    T lanes[kLanes] = {};
    for (int64_t i = 0; i < n; ++i) lanes[i % kLanes] += term(i);
    return CombineLanes(lanes, [](T a, T b) { return a + b; });
#endif
  }

  // The same over the slots of ForEachSlot; term(slot, i).
  template <int kSlots, class F>
  HD float SumSlots(int64_t n, F term) const {
#ifdef __CUDA_ARCH__
    float sum = 0;
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const int64_t i = slot * kLanes + lane();
      if (i < n) sum += term(slot, i);
    }
    return Combine(sum, [](float a, float b) { return a + b; });
#else
    float lanes[kLanes] = {};
    for (int64_t i = 0; i < n; ++i) {
      lanes[i % kLanes] += term(static_cast<int>(i / kLanes), i);
    }
    return CombineLanes(lanes, [](float a, float b) { return a + b; });
#endif
  }

  // The largest of `least` and term(i); NaN is passed over.
  template <class T, class F>
  HD T Max(int64_t n, T least, F term) const {
    const auto larger = [](T a, T b) { return a < b ? b : a; };
#ifdef __CUDA_ARCH__
    T most = least;
    for (int64_t i = lane(); i < n; i += kLanes) most = larger(most, term(i));
    return Combine(most, larger);
#else
    T lanes[kLanes];
    for (T& most : lanes) most = least;
    for (int64_t i = 0; i < n; ++i) lanes[i % kLanes] = larger(lanes[i % kLanes], term(i));
    return CombineLanes(lanes, larger);
#endif
  }

  // On one lane.
  template <class F>
  HD void Once(F f) const {
#ifdef __CUDA_ARCH__
    if (lane() == 0) f();
#else
    f();
#endif
  }

  // What lanes wrote before is visible to all lanes after.
  HD void Sync() const {
#ifdef __CUDA_ARCH__
    if constexpr (kLanes == kWarpLanes) __syncwarp();
    else __syncthreads();
#endif
  }

 private:
#ifdef __CUDA_ARCH__
  __device__ __forceinline__ int lane() const { return threadIdx.x % kLanes; }

  // Every lane gets the combination of all lanes' values.
  template <class T, class F>
  __device__ __forceinline__ T Combine(T value, F f) const {
#pragma unroll
    for (int apart = kWarpLanes / 2; apart > 0; apart /= 2) {
      value = f(value, __shfl_xor_sync(0xffffffffu, value, apart));
    }
    if constexpr (kLanes == kWarpLanes) {
      return value;
    } else {
      __shared__ T warps[kLanes / kWarpLanes];
      if (threadIdx.x % kWarpLanes == 0) warps[threadIdx.x / kWarpLanes] = value;
      __syncthreads();
      value = warps[0];
#pragma unroll
      for (int warp = 1; warp < kLanes / kWarpLanes; ++warp) value = f(value, warps[warp]);
      __syncthreads();  // the next Combine writes again
      return value;
    }
  }
#else
  template <class T, class F>
  static T CombineLanes(T* lanes, F f) {
    for (int warp = 0; warp < kLanes; warp += kWarpLanes) {
      for (int apart = kWarpLanes / 2; apart > 0; apart /= 2) {
        for (int l = 0; l < apart; ++l) {
          lanes[warp + l] = f(lanes[warp + l], lanes[warp + l + apart]);
        }
      }
    }
    T value = lanes[0];
    for (int warp = kWarpLanes; warp < kLanes; warp += kWarpLanes) value = f(value, lanes[warp]);
    return value;
  }
#endif
};

// One T per element of a row of up to kSlots * 32 elements, spread over the lanes of a warp: in
// registers on a GPU. Used inside ForEachSlot and SumSlots only.
template <class T, int kSlots>
class LaneArray {
 public:
#ifdef __CUDA_ARCH__
  HD T& operator()(int slot, int64_t) { return values_[slot]; }

 private:
  T values_[kSlots] = {};
#else
  HD T& operator()(int, int64_t i) { return values_[i]; }

 private:
  T values_[kSlots * kWarpLanes] = {};
#endif
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_FUNCTORS_TEAM_H_
