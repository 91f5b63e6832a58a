#include "tensor/kernels/matmul_layout.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/check.h"

namespace colossus {
namespace {

// Labels of a value in order, without extent 1.
Labels LabelsOf(const ValueFactors& value, const FactorRule& rule) {
  Labels labels;
  for (const DimFactors& dim : value) {
    if (rule.factors[dim[0]].extent != 1) labels.push_back(dim[0]);
  }
  return labels;
}

bool Contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// The labels of `order` that are in `group` (any order).
Labels InOrderOf(const Labels& group, const Labels& order) {
  Labels sorted;
  for (int label : order) {
    if (Contains(group, label)) sorted.push_back(label);
  }
  return sorted;
}

ValueLayout LayoutOf(const Labels& value, const Labels& batch, const Labels& rows,
                     const Labels& columns) {
  if (value == Concat(batch, rows, columns)) return {};
  if (value == Concat(batch, columns, rows)) return {.transposed = true};
  return {.packed = true};
}

MatmulLayout Choose(const FactorRule& rule, const Labels& a, const Labels& b, const Labels& y) {
  MatmulGroups sets;
  for (int label : y) {
    bool in_a = Contains(a, label), in_b = Contains(b, label);
    (in_a && in_b ? sets.batch : in_a ? sets.m : sets.n).push_back(label);
  }
  for (int label : a) {
    if (!Contains(y, label)) sets.k.push_back(label);
  }
  std::optional<MatmulLayout> best;
  const std::array<const Labels*, 3> orders = {&y, &a, &b};
  for (int i = 0; i < 24; ++i) {
    MatmulLayout c;
    c.groups.m = InOrderOf(sets.m, i & 1 ? a : y);
    c.groups.n = InOrderOf(sets.n, i & 2 ? b : y);
    c.groups.k = InOrderOf(sets.k, i & 4 ? b : a);
    c.groups.batch = InOrderOf(sets.batch, *orders[i >> 3]);
    c.a = LayoutOf(a, c.groups.batch, c.groups.m, c.groups.k);
    c.b = LayoutOf(b, c.groups.batch, c.groups.k, c.groups.n);
    c.y = LayoutOf(y, c.groups.batch, c.groups.m, c.groups.n);
    c.copied = (c.a.packed ? LabelExtent(rule, a) : 0) + (c.b.packed ? LabelExtent(rule, b) : 0) +
               (c.y.packed ? LabelExtent(rule, y) : 0);
    if (!best || c.copied < best->copied) best = std::move(c);
  }
  best->a_labels = a;
  best->b_labels = b;
  best->y_labels = y;
  return *std::move(best);
}

}  // namespace

int64_t LabelExtent(const FactorRule& rule, const Labels& labels) {
  int64_t extent = 1;
  for (int label : labels) extent *= rule.factors[label].extent;
  return extent;
}

Labels Concat(const Labels& a, const Labels& b, const Labels& c) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

MatmulLayout ChooseMatmulLayout(const FactorRule& rule) {
  const Labels a = LabelsOf(rule.operands[0], rule), b = LabelsOf(rule.operands[1], rule);
  const Labels y = LabelsOf(rule.results[0], rule);
  MatmulLayout layout = Choose(rule, a, b, y);
  if (!layout.y.transposed) return layout;
  layout = Choose(rule, b, a, y);
  layout.swapped = true;
  CHECK(!layout.y.transposed);
  return layout;
}

LabelCopy CopyBetween(const FactorRule& rule, const Labels& src, const Labels& dst) {
  LabelCopy copy;
  for (int label : dst) {
    copy.dims.push_back(rule.factors[label].extent);
    int64_t stride = 1;
    for (size_t i = src.size(); i-- > 0 && src[i] != label;) stride *= rule.factors[src[i]].extent;
    copy.src_strides.push_back(stride);
  }
  return copy;
}

}  // namespace colossus
