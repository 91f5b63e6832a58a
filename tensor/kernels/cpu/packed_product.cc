#include "tensor/kernels/cpu/packed_product.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/parallel_for.h"
#include "tensor/kernels/cpu/attention_loops.h"
#include "tensor/kernels/cpu/convert_loops.h"

namespace colossus {
namespace {

// Blocks of y are [kRows, kColumns], made in scratch; sums grow by kTerms terms and kPart rows at a
// time. A packed panel of b stays in the first-level cache, a
// part's rows of a in the second.
constexpr int64_t kRows = 768, kPart = 192, kColumns = 512, kTerms = 256;
constexpr int64_t kLeast = 48;  // rows or columns of the smallest block
constexpr int64_t kAhead = 4;   // rows asked for before they are read
// Between the terms of a part that is packed as it lies, down the columns: no power of two.
constexpr int64_t kPartStride = kPart + 16;
// So few rows do not pay the packing of b: its rows are read as they lie, some at a time.
constexpr int64_t kFewRows = 8, kFewTerms = 8;

int64_t Blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }
int64_t PaddedTo(int64_t n, int64_t size) { return Blocks(n, size) * size; }

const char* At(const void* x, int64_t element, DType dtype) {
  return static_cast<const char*>(x) + element * SizeOf(dtype);
}

// Rows lie far apart, so the CPU does not see the next one coming. Reads nothing.
void Prefetch(const void* x, int64_t element, int64_t n, DType dtype) {
  const char* from = At(x, element, dtype);
  for (int64_t i = 0; i < n * SizeOf(dtype); i += 64) __builtin_prefetch(from + i);
}

}  // namespace

// y[i0.., j0..] of one batch entry, m by n.
struct PackedProduct::Block {
  const void *a, *b;
  void* y;
  int64_t i0, m, j0, n;
};

PackedProduct::PackedProduct(const GemmSpec& spec) : spec_(spec) {
  panel_ = BestIsa() == Isa::kV4 ? 32 : 16;
  few_ = spec.m <= kFewRows && !spec.b_transposed;
  rows_ = std::min(kRows, spec.m);
  columns_ = std::min(kColumns, PaddedTo(spec.n, panel_));
  auto blocks = [&] { return spec_.batch * Blocks(spec_.m, rows_) * Blocks(spec_.n, columns_); };
  // Small products in smaller blocks, so that every thread gets some.
  while (spec.threads > 1 && blocks() < 2 * spec.threads && (rows_ > kLeast || columns_ > kLeast)) {
    if (rows_ >= columns_) {
      rows_ = (rows_ + 1) / 2;
    } else if (columns_ > kLeast) {
      columns_ = PaddedTo(columns_ / 2, panel_);
    } else {
      break;
    }
  }
  slots_ = std::min<int64_t>(spec.threads, blocks());
}

int64_t PackedProduct::RowFloats() const {
  if (few_) return rows_ * spec_.k;
  const int64_t rows = spec_.a_transposed ? TermStride() : std::min(kPart, rows_);
  return rows * std::min(kTerms, spec_.k);
}

// Packed rows of a lie as a does: k terms of a row together, or the rows of a term.
int64_t PackedProduct::RowStride(int64_t k) const { return spec_.a_transposed ? 1 : k; }
int64_t PackedProduct::TermStride() const {
  if (!spec_.a_transposed) return 1;
  return few_ ? rows_ : kPartStride;
}

int64_t PackedProduct::SlotFloats() const {
  const int64_t terms = std::min(kTerms, spec_.k);
  const int64_t buffer = std::max(columns_, panel_ * terms);
  return PaddedTo(RowFloats(), 16) + PaddedTo(terms * columns_, 16) +
         PaddedTo(rows_ * columns_, 16) + PaddedTo(buffer, 16);
}

// Packs a's rows i0.. and terms p0.. (RowStride, TermStride).
void PackedProduct::PackRows(const void* a, int64_t i0, int64_t m, int64_t p0, int64_t k,
                             float* packed) const {
  if (!spec_.a_transposed) {
    for (int64_t i = 0; i < m; ++i) {
      Prefetch(a, (i0 + std::min(i + kAhead, m - 1)) * spec_.k + p0, k, spec_.in);
      LoadRun(spec_.in, At(a, (i0 + i) * spec_.k + p0, spec_.in), packed + i * k, k);
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    Prefetch(a, (p0 + std::min(p + kAhead, k - 1)) * spec_.m + i0, m, spec_.in);
    LoadRun(spec_.in, At(a, (p0 + p) * spec_.m + i0, spec_.in), packed + p * TermStride(), m);
  }
}

// Panels [k, panel_] of b's columns j0.. and terms p0.., the last one filled up with 0.
void PackedProduct::PackPanels(const void* b, int64_t j0, int64_t n, int64_t p0, int64_t k,
                               float* packed, float* buffer) const {
  if (!spec_.b_transposed) {
    std::fill(buffer + n, buffer + PaddedTo(n, panel_), 0.0f);
    for (int64_t p = 0; p < k; ++p) {
      Prefetch(b, (p0 + std::min(p + kAhead, k - 1)) * spec_.n + j0, n, spec_.in);
      LoadRun(spec_.in, At(b, (p0 + p) * spec_.n + j0, spec_.in), buffer, n);
      // A panel is one or two runs of 16; the buffer is padded.
      for (int64_t j = 0; j < n; j += panel_) {
        float* to = packed + j * k + p * panel_;
        for (int64_t i = 0; i < panel_; i += 16) std::memcpy(to + i, buffer + j + i, 64);
      }
    }
    return;
  }
  for (int64_t j = 0; j < n; j += panel_) {
    const int64_t rows = std::min(panel_, n - j);
    std::fill(buffer + rows * k, buffer + panel_ * k, 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
      Prefetch(b, (j0 + j + std::min(r + kAhead, n - j - 1)) * spec_.k + p0, k, spec_.in);
      LoadRun(spec_.in, At(b, (j0 + j + r) * spec_.k + p0, spec_.in), buffer + r * k, k);
    }
    Tiles().transpose(panel_, k, buffer, k, packed + j * k, panel_);
  }
}

// y (+)= the sums of a block.
void PackedProduct::StoreBlock(const Block& block, const float* sums) const {
  for (int64_t i = 0; i < block.m; ++i) {
    const float* row = sums + i * columns_;
    void* y = const_cast<char*>(At(block.y, (block.i0 + i) * spec_.n + block.j0, spec_.out));
    if (!spec_.accumulate) {
      StoreRun(spec_.out, row, y, block.n);
      continue;
    }
    float* wide = static_cast<float*>(y);
    for (int64_t j = 0; j < block.n; ++j) wide[j] += row[j];
  }
}

// The same sums in the same order; `buffer` holds some rows of b.
void PackedProduct::RunFewRows(const Block& block, float* rows, float* buffer,
                               float* sums) const {
  PackRows(block.a, block.i0, block.m, 0, spec_.k, rows);
  const bool as_is = spec_.in == DType::kF32 && block.n % 16 == 0;
  for (int64_t p = 0; p < spec_.k; p += kFewTerms) {
    const int64_t terms = std::min(kFewTerms, spec_.k - p);
    const float* b = static_cast<const float*>(block.b) + p * spec_.n + block.j0;
    if (!as_is) {
      for (int64_t t = 0; t < terms; ++t) {
        LoadRun(spec_.in, At(block.b, (p + t) * spec_.n + block.j0, spec_.in),
                buffer + t * columns_, block.n);
      }
      b = buffer;
    }
    Tiles().gemm(block.m, PaddedTo(block.n, 16), terms, rows + p * TermStride(),
                 RowStride(spec_.k), TermStride(), b, as_is ? spec_.n : columns_, sums, columns_,
                 p > 0, 1.0f);
  }
}

void PackedProduct::RunBlock(const Block& block, float* slot) const {
  const int64_t terms = std::min(kTerms, spec_.k);
  float* rows = slot;
  float* panels = rows + PaddedTo(RowFloats(), 16);
  float* sums = panels + PaddedTo(terms * columns_, 16);
  float* buffer = sums + PaddedTo(rows_ * columns_, 16);
  if (few_) {
    RunFewRows(block, rows, panels, sums);
    StoreBlock(block, sums);
    return;
  }
  for (int64_t p0 = 0; p0 < spec_.k; p0 += kTerms) {
    const int64_t k = std::min(kTerms, spec_.k - p0);
    PackPanels(block.b, block.j0, block.n, p0, k, panels, buffer);
    for (int64_t i = 0; i < block.m; i += kPart) {
      const int64_t m = std::min(kPart, block.m - i);
      PackRows(block.a, block.i0 + i, m, p0, k, rows);
      for (int64_t j = 0; j < block.n; j += panel_) {
        Tiles().gemm(m, panel_, k, rows, RowStride(k), TermStride(), panels + j * k, panel_,
                     sums + i * columns_ + j, columns_, p0 > 0, 1.0f);
      }
    }
  }
  StoreBlock(block, sums);
}

void PackedProduct::Run(const void* a, const void* b, void* y, void* scratch) const {
  const int64_t across = Blocks(spec_.n, columns_), down = Blocks(spec_.m, rows_);
  const int64_t count = spec_.batch * across * down;
  // Threads take blocks as they come; the blocks under one another share columns of b.
  std::atomic<int64_t> taken{0};
  ParallelFor(slots_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      float* slot = static_cast<float*>(scratch) + s * SlotFloats();
      for (int64_t i; (i = taken.fetch_add(1)) < count;) {
        const int64_t entry = i / (across * down), row = i % down, column = i / down % across;
        Block block{.a = At(a, entry * spec_.m * spec_.k, spec_.in),
                    .b = At(b, entry * spec_.k * spec_.n, spec_.in),
                    .y = const_cast<char*>(At(y, entry * spec_.m * spec_.n, spec_.out)),
                    .i0 = row * rows_,
                    .m = std::min(rows_, spec_.m - row * rows_),
                    .j0 = column * columns_,
                    .n = std::min(columns_, spec_.n - column * columns_)};
        RunBlock(block, slot);
      }
    }
  });
}

}  // namespace colossus
