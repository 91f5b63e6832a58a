#include <algorithm>
#include <vector>

#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

// row_of[token * k + slot], -1 where nothing was dispatched.
std::vector<int64_t> RowOfSlot(const TensorView& order, int64_t slots) {
  std::vector<int64_t> row_of(slots, -1);
  for (int64_t row = 0; row < order.elements(); ++row) {
    int64_t slot = order.GetInt(row);
    if (slot >= 0 && slot < slots) row_of[slot] = row;
  }
  return row_of;
}

// Calls fn(expert, row) for every row that an expert has.
template <class Fn>
void ForEachExpertRow(const TensorView& counts, int64_t rows, Fn fn) {
  int64_t row = 0;
  for (int64_t expert = 0; expert < counts.elements(); ++expert) {
    int64_t end = std::min(rows, row + counts.GetInt(expert));
    for (; row < end; ++row) fn(expert, row);
  }
}

template <class S>
void StoreAll(const std::vector<S>& values, const MutableTensorView& y) {
  for (int64_t i = 0; i < y.elements(); ++i) y.Set(i, ToDouble(values[i]));
}

}  // namespace

template <class S>
void DispatchReference(const ReferenceCall& call) {
  TensorView x = call.x(0), chosen = call.x(1);
  int64_t c = x.dim(1), k = chosen.dim(1), row = 0;
  for (int64_t expert = 0; expert < call.y(1).elements(); ++expert) {
    int64_t before = row;
    for (int64_t slot = 0; slot < chosen.elements(); ++slot) {
      if (chosen.GetInt(slot) != expert) continue;
      for (int64_t j = 0; j < c; ++j) call.y(0).Set(row * c + j, x.Get(slot / k * c + j));
      call.y(2).SetInt(row++, slot);
    }
    call.y(1).SetInt(expert, row - before);
  }
  for (; row < call.y(2).elements(); ++row) {
    for (int64_t j = 0; j < c; ++j) call.y(0).Set(row * c + j, 0);
    call.y(2).SetInt(row, -1);
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(DispatchReference)

template <class S>
void DispatchGradReference(const ReferenceCall& call) {
  TensorView drows = call.x(0);
  int64_t c = drows.dim(1), k = call.attributes().Int("slots");
  std::vector<int64_t> row_of = RowOfSlot(call.x(1), drows.dim(0));
  std::vector<S> dx(call.y(0).elements());
  for (int64_t slot = 0; slot < drows.dim(0); ++slot) {
    if (row_of[slot] < 0) continue;
    for (int64_t j = 0; j < c; ++j) dx[slot / k * c + j] += S(drows.Get(row_of[slot] * c + j));
  }
  StoreAll(dx, call.y(0));
}
COLOSSUS_INSTANTIATE_REFERENCE(DispatchGradReference)

template <class S>
void CombineReference(const ReferenceCall& call) {
  TensorView rows = call.x(0), weights = call.x(2);
  int64_t c = rows.dim(1), k = weights.dim(1);
  std::vector<int64_t> row_of = RowOfSlot(call.x(1), weights.elements());
  std::vector<S> y(call.y(0).elements());
  for (int64_t slot = 0; slot < weights.elements(); ++slot) {
    if (row_of[slot] < 0) continue;
    for (int64_t j = 0; j < c; ++j) {
      y[slot / k * c + j] += S(weights.Get(slot)) * S(rows.Get(row_of[slot] * c + j));
    }
  }
  StoreAll(y, call.y(0));
}
COLOSSUS_INSTANTIATE_REFERENCE(CombineReference)

template <class S>
void CombineGradReference(const ReferenceCall& call) {
  TensorView dy = call.x(0), rows = call.x(1), weights = call.x(3);
  int64_t c = rows.dim(1), k = weights.dim(1);
  std::vector<int64_t> row_of = RowOfSlot(call.x(2), weights.elements());
  std::vector<S> drows(rows.elements()), dweights(weights.elements());
  for (int64_t slot = 0; slot < weights.elements(); ++slot) {
    if (row_of[slot] < 0) continue;
    for (int64_t j = 0; j < c; ++j) {
      S dy_j(dy.Get(slot / k * c + j));
      drows[row_of[slot] * c + j] = S(weights.Get(slot)) * dy_j;
      dweights[slot] += dy_j * S(rows.Get(row_of[slot] * c + j));
    }
  }
  StoreAll(drows, call.y(0));
  StoreAll(dweights, call.y(1));
}
COLOSSUS_INSTANTIATE_REFERENCE(CombineGradReference)

template <class S>
void GroupedMatmulReference(const ReferenceCall& call) {
  TensorView x = call.x(0), w = call.x(1);
  int64_t c = x.dim(1), d = call.y(0).dim(1);
  bool transpose = call.attributes().BoolOr("transpose", false);
  std::vector<S> y(call.y(0).elements());
  ForEachExpertRow(call.x(2), x.dim(0), [&](int64_t expert, int64_t row) {
    for (int64_t j = 0; j < d; ++j) {
      for (int64_t i = 0; i < c; ++i) {
        int64_t inner = transpose ? j * c + i : i * d + j;
        y[row * d + j] += S(x.Get(row * c + i)) * S(w.Get(expert * c * d + inner));
      }
    }
  });
  StoreAll(y, call.y(0));
}
COLOSSUS_INSTANTIATE_REFERENCE(GroupedMatmulReference)

template <class S>
void GroupedMatmulGradWReference(const ReferenceCall& call) {
  TensorView x = call.x(0), dy = call.x(1);
  int64_t c = x.dim(1), d = dy.dim(1);
  std::vector<S> dw(call.y(0).elements());
  ForEachExpertRow(call.x(2), x.dim(0), [&](int64_t expert, int64_t row) {
    for (int64_t i = 0; i < c; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        dw[(expert * c + i) * d + j] += S(x.Get(row * c + i)) * S(dy.Get(row * d + j));
      }
    }
  });
  StoreAll(dw, call.y(0));
}
COLOSSUS_INSTANTIATE_REFERENCE(GroupedMatmulGradWReference)

}  // namespace colossus
