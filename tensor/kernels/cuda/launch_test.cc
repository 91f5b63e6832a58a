// Launch geometry, and the mapping of products to column-major libraries.
#include "tensor/kernels/cuda/launch.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/kernels/cuda/product.h"
#include "tensor/kernels/functors/gemm.h"

namespace colossus {
namespace {

// What RunFunctor does, thread by thread: how often each unit runs.
std::vector<int> UnitsRun(const Grid& grid) {
  std::vector<int> runs(static_cast<size_t>(grid.units), 0);
  const int64_t apart = grid.blocks * kBlockThreads / grid.lanes;
  for (int64_t thread = 0; thread < grid.blocks * kBlockThreads; ++thread) {
    for (int64_t unit = thread / grid.lanes; unit < grid.units; unit += apart) ++runs[unit];
  }
  return runs;
}

TEST(GridTest, EveryLaneSeesEveryUnitOnce) {
  for (int lanes : {1, 32, 256}) {
    for (int64_t units : {0, 1, 7, 8, 9, 255, 256, 257, 1000}) {
      Grid grid = GridOf(units, lanes);
      EXPECT_EQ(UnitsRun(grid), std::vector<int>(static_cast<size_t>(units), lanes)) << units;
      // Fewer blocks than units need: threads go round.
      grid.blocks = grid.blocks > 1 ? grid.blocks / 2 : grid.blocks;
      EXPECT_EQ(UnitsRun(grid), std::vector<int>(static_cast<size_t>(units), lanes)) << units;
    }
  }
}

TEST(GridTest, Geometry) {
  EXPECT_EQ(GridOf(0, 1).blocks, 0);
  EXPECT_EQ(GridOf(256, 1).blocks, 1);
  EXPECT_EQ(GridOf(257, 1).blocks, 2);
  EXPECT_EQ(GridOf(9, 32).blocks, 2);
  EXPECT_EQ(GridOf(9, 256).blocks, 9);
  EXPECT_EQ(GridOf(int64_t{1} << 50, 1).blocks, kMaxBlocks);
}

struct Numbers {
  std::vector<float>* y;
  void operator()(int64_t unit) const { (*y)[unit] += static_cast<float>(unit); }
};

TEST(LaunchTest, WithoutAQueueUnitsRunOnTheHost) {
  std::vector<float> y(5, 1);
  ForEachUnit(nullptr, 5, Numbers{&y});
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST(ColumnMajorTest, LeadingDimsStridesAndTurns) {
  ColumnMajorGemm g = ToColumnMajor({.batch = 2, .m = 3, .n = 5, .k = 7});
  EXPECT_EQ(g.rows, 5);
  EXPECT_EQ(g.columns, 3);
  EXPECT_EQ(g.inner, 7);
  EXPECT_EQ(g.first.leading, 5);  // b[7, 5]
  EXPECT_EQ(g.first.stride, 35);
  EXPECT_FALSE(g.first.transposed);
  EXPECT_EQ(g.first.rows, 5);
  EXPECT_EQ(g.first.columns, 7);
  EXPECT_EQ(g.second.leading, 7);  // a[3, 7]
  EXPECT_EQ(g.second.stride, 21);
  EXPECT_EQ(g.result.leading, 5);
  EXPECT_EQ(g.result.stride, 15);
  g = ToColumnMajor({.m = 3, .n = 5, .k = 7, .a_transposed = true, .b_transposed = true});
  EXPECT_TRUE(g.first.transposed);
  EXPECT_EQ(g.first.leading, 7);  // b stored [5, 7]
  EXPECT_EQ(g.first.rows, 7);
  EXPECT_TRUE(g.second.transposed);
  EXPECT_EQ(g.second.leading, 3);  // a stored [7, 3]
  EXPECT_EQ(g.second.rows, 3);
}

// Element [batch][row][column] of a row-major value that may be stored turned.
int64_t RowMajor(int64_t batch, int64_t row, int64_t column, int64_t rows, int64_t columns,
                 bool turned) {
  return batch * rows * columns + (turned ? column * rows + row : row * columns + column);
}

// Small integers: sums in f32 are exact in any order.
TEST(ColumnMajorTest, TheEmulatedLibraryGivesTheRowMajorProduct) {
  const int64_t m = 3, n = 5, k = 7;
  for (int64_t batch : {1, 3}) {
    for (int bits = 0; bits < 8; ++bits) {
      const DenseProduct spec{.batch = batch, .m = m, .n = n, .k = k,
                              .a_transposed = (bits & 1) != 0, .b_transposed = (bits & 2) != 0,
                              .accumulate = (bits & 4) != 0};
      std::vector<float> a(batch * m * k), b(batch * k * n), y(batch * m * n, 2), expected = y;
      for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 11) - 5;
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
      for (int64_t i = 0; i < batch * m * n; ++i) {
        const int64_t e = i / (m * n), row = i / n % m, column = i % n;
        float sum = spec.accumulate ? expected[i] : 0;
        for (int64_t c = 0; c < k; ++c) {
          sum += a[RowMajor(e, row, c, m, k, spec.a_transposed)] *
                 b[RowMajor(e, c, column, k, n, spec.b_transposed)];
        }
        expected[i] = sum;
      }
      cuda::Product::Create(spec).Run(nullptr, a.data(), b.data(), y.data(), nullptr);
      EXPECT_EQ(y, expected) << "batch " << batch << " bits " << bits;
    }
  }
}

TEST(ColumnMajorTest, AlignmentOfBatchEntries) {
  const DenseProduct one{.batch = 1, .m = 3, .n = 5, .k = 7};
  EXPECT_EQ(EntryAlignment(one, 15, DType::kBF16), 64);
  DenseProduct many = one;
  many.batch = 2;
  EXPECT_EQ(EntryAlignment(many, 15, DType::kBF16), 2);
  EXPECT_EQ(EntryAlignment(many, 16, DType::kBF16), 32);
  EXPECT_EQ(EntryAlignment(many, 64, DType::kF32), 64);
  many.alignment = 8;
  EXPECT_EQ(EntryAlignment(many, 64, DType::kF32), 8);
}

TEST(ProductTest, NativeDTypes) {
  EXPECT_TRUE(cuda::IsNativeProduct(DType::kF32, DType::kF32));
  EXPECT_TRUE(cuda::IsNativeProduct(DType::kBF16, DType::kF32));
  EXPECT_TRUE(cuda::IsNativeProduct(DType::kBF16, DType::kBF16));
  EXPECT_FALSE(cuda::IsNativeProduct(DType::kBF16, DType::kF16));
  EXPECT_FALSE(cuda::IsNativeProduct(DType::kF32, DType::kBF16));
  EXPECT_FALSE(cuda::IsNativeProduct(DType::kF64, DType::kF64));
}

}  // namespace
}  // namespace colossus
