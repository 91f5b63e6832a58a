// The one comparator of numbers in tests: TensorNear for "equal up to a derived limit" and
// BitEqual for "the same bits".
//
// A comparison passes only if its error is <= its limit and the limit is finite: NaN and infinity
// on either side, and tensors of different lengths, fail. A test says in a comment how its limit
// follows from the arithmetic. Thread-safe; the spans are only read.
//
//   // Sums of 64 products in f32: 64 roundings of 2^-24.
//   EXPECT_TRUE(TensorNear(actual, expected, {.relative_to_max = 64 * 0x1p-24}));
//   EXPECT_TRUE(BitEqual<float>(resumed, uninterrupted));
#ifndef COLOSSUS_BASE_TESTING_TENSOR_NEAR_H_
#define COLOSSUS_BASE_TESTING_TENSOR_NEAR_H_

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "gtest/gtest.h"

namespace colossus {

// How far `actual` (a) may be from `expected` (e). Each relative term that is set is one criterion:
//   relative_to_max:  max|a - e|  <=  max(absolute, relative_to_max * max|e|)
//   relative_l2:      ‖a - e‖₂    <=  max(absolute, relative_l2 * ‖e‖₂)
// With neither, max|a - e| <= absolute; a Limit of zeros asks for equal values (0 == -0).
// `absolute` is the floor that matters where the expected values are zero or nearly so.
struct Limit {
  double absolute = 0;
  double relative_to_max = 0;
  double relative_l2 = 0;
};

struct NearReport {
  bool ok = false;
  // Of the criterion that failed, else of the one closest to its limit. NaN when one side has NaN.
  double error = 0, limit = 0;
  // The element with the largest |a - e|, the first non-finite one if there is any; -1 when empty.
  int64_t worst_index = -1;
  double actual = 0, expected = 0;  // there
  // One line for people: the verdict, error, limit and worst element.
  std::string text;
};

NearReport CompareTensors(std::span<const double> actual, std::span<const double> expected,
                          const Limit& limit);

::testing::AssertionResult TensorNear(std::span<const double> actual,
                                      std::span<const double> expected, const Limit& limit);
::testing::AssertionResult TensorNear(std::span<const float> actual,
                                      std::span<const double> expected, const Limit& limit);
::testing::AssertionResult TensorNear(std::span<const float> actual,
                                      std::span<const float> expected, const Limit& limit);

namespace internal {
::testing::AssertionResult BytesEqual(const void* actual, int64_t actual_count,
                                      const void* expected, int64_t expected_count,
                                      int64_t element_bytes);
}  // namespace internal

// True when both have the same length and the same bits; a failure names the first difference and
// how many elements differ. Here NaN equals a NaN of the same bits and 0 is not -0.
// T is any type without padding: double, float, BF16, F16, an integer.
template <class T>
  requires(std::is_trivially_copyable_v<T>)
::testing::AssertionResult BitEqual(std::span<const std::type_identity_t<T>> actual,
                                    std::span<const std::type_identity_t<T>> expected) {
  return internal::BytesEqual(actual.data(), static_cast<int64_t>(actual.size()), expected.data(),
                              static_cast<int64_t>(expected.size()), sizeof(T));
}

}  // namespace colossus

#endif  // COLOSSUS_BASE_TESTING_TENSOR_NEAR_H_
