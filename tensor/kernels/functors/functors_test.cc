// Functors' building blocks: element access and teams.
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/testing/seed.h"
#include "gtest/gtest.h"
#include "tensor/kernels/functors/element.h"
#include "tensor/kernels/functors/move.h"
#include "tensor/kernels/functors/team.h"

namespace colossus {
namespace {

// Every dtype, against base/dtype.h, which rounds once.
TEST(ElementTest, DoublesAreRoundedOnce) {
  std::mt19937_64 random(TestSeed());
  std::vector<double> values = {0.0, -0.0, 1e-45, -3e-42, 1e-320, 65520, 65519.99, 1e39, -1e39,
                                std::numeric_limits<double>::infinity(), 0x1.010000001p0,
                                0x1.00ffffffp0, 255.5, -1, 1e19, -1e19, 3e9};
  std::uniform_real_distribution<double> exponent(-45, 40), mantissa(-2, 2);
  for (int i = 0; i < 2000; ++i) values.push_back(std::exp2(exponent(random)) * mantissa(random));
  for (double value : values) {
    for (DType dtype : kAllDTypes) {
      uint64_t actual = 0, expected = 0;
      StoreAs<double>(dtype, &actual, 0, value);
      StoreFromDouble(dtype, &expected, 0, value);
      EXPECT_EQ(actual, expected) << Name(dtype) << " of " << value;
      if (static_cast<double>(static_cast<float>(value)) != value) continue;
      actual = 0;
      StoreAs<float>(dtype, &actual, 0, static_cast<float>(value));
      EXPECT_EQ(actual, expected) << Name(dtype) << " of float " << value;
    }
  }
}

TEST(ElementTest, LoadsWhatWasStored) {
  for (DType dtype : kAllDTypes) {
    uint64_t memory[4] = {};
    StoreFromDouble(dtype, memory, 1, 1);
    EXPECT_EQ(LoadAs<float>(dtype, memory, 1), 1.0f);
    EXPECT_EQ(LoadAs<double>(dtype, memory, 1), 1.0);
    EXPECT_EQ(LoadAs<int64_t>(dtype, memory, 1), 1);
    EXPECT_EQ(LoadAs<float>(dtype, memory, 0), 0.0f);
  }
  const int64_t large = (int64_t{1} << 62) + 1;
  EXPECT_EQ(LoadAs<int64_t>(DType::kI64, &large, 0), large);
}

TEST(TeamTest, SumsAndMaximaOfAnyLength) {
  for (int64_t n : {0, 1, 31, 32, 33, 255, 256, 257, 1000}) {
    auto term = [](int64_t i) { return static_cast<double>((i * 37) % 101); };
    double sum = 0, most = -1;
    for (int64_t i = 0; i < n; ++i) {
      sum += term(i);
      most = std::max(most, term(i));
    }
    EXPECT_EQ(Team<32>().Sum<double>(n, term), sum);
    EXPECT_EQ(Team<256>().Sum<double>(n, term), sum);
    EXPECT_EQ(Team<32>().Max<double>(n, -1, term), most);
    EXPECT_EQ(Team<256>().Max<double>(n, -1, term), most);
    if (n > 256) continue;
    EXPECT_EQ(Team<32>().SumSlots<8>(
                  n, [&](int, int64_t i) { return static_cast<float>(term(i)); }),
              static_cast<float>(sum));
  }
}

// The order of additions is the one that shuffles give: 1 + u is lost unless u and u meet first.
TEST(TeamTest, LanesAreAddedInPairsSixteenApart) {
  const float u = 0x1p-24f;
  auto term = [u](int64_t i) { return i == 0 ? 1.0f : i == 8 || i == 24 ? u : 0.0f; };
  EXPECT_EQ(Team<32>().Sum<float>(32, term), 1.0f + 2 * u);
  auto apart = [u](int64_t i) { return i == 0 ? 1.0f : i == 16 || i == 8 ? u : 0.0f; };
  EXPECT_EQ(Team<32>().Sum<float>(32, apart), 1.0f);
}

TEST(TeamTest, LaneArraysHoldARow) {
  LaneArray<float, 2> row;
  const Team<32> team;
  team.ForEachSlot<2>(50, [&](int slot, int64_t i) { row(slot, i) = static_cast<float>(i); });
  EXPECT_EQ(team.SumSlots<2>(50, [&](int slot, int64_t i) { return row(slot, i); }), 1225.0f);
}

TEST(StridedIndexTest, OffsetsOfEveryElement) {
  StridedIndex<2> index;
  index.rank = 3;
  const int64_t dims[3] = {2, 3, 4};
  for (int d = 0; d < 3; ++d) index.dims[d] = dims[d];
  index.strides[0][0] = 100, index.strides[0][1] = 10, index.strides[0][2] = 1;
  index.strides[1][1] = 7;  // repeats along the others
  for (int64_t i = 0; i < 24; ++i) {
    int64_t at[2];
    index.Offsets(i, at);
    EXPECT_EQ(at[0], i / 12 * 100 + i / 4 % 3 * 10 + i % 4);
    EXPECT_EQ(at[1], i / 4 % 3 * 7);
  }
  int64_t at[2];
  StridedIndex<2>().Offsets(0, at);
  EXPECT_EQ(at[0] + at[1], 0);
}

}  // namespace
}  // namespace colossus
