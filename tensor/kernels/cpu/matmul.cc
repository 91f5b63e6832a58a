// matmul by dense oneDNN products.
//
// The labels of the einsum fall into four groups: batch (in a, b and y), m (a and y), n (b and y)
// and k (a and b). A product of dense matrices needs every value to be [batch][group][group] with
// each group's labels in one order. Where a value is not, it is copied into that order through the
// workspace, so that every product is a dense one; so are values of a dtype the library lacks.
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "tensor/kernels/cpu/gemm.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/strided_copy.h"
#include "tensor/ops/matmul.h"

namespace colossus {
namespace {

using Labels = std::vector<int>;  // factor indices

struct Groups {
  Labels batch, m, n, k;
};

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

Labels Concat(const Labels& a, const Labels& b, const Labels& c) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

int64_t Extent(const FactorRule& rule, const Labels& labels) {
  int64_t extent = 1;
  for (int label : labels) extent *= rule.factors[label].extent;
  return extent;
}

// The labels of `order` that are in `group` (any order).
Labels InOrderOf(const Labels& group, const Labels& order) {
  Labels sorted;
  for (int label : order) {
    if (Contains(group, label)) sorted.push_back(label);
  }
  return sorted;
}

// How one value enters the product.
struct Layout {
  bool transposed = false;
  bool packed = false;  // through the workspace
};

Layout LayoutOf(const Labels& value, const Labels& batch, const Labels& rows,
                const Labels& columns) {
  if (value == Concat(batch, rows, columns)) return {};
  if (value == Concat(batch, columns, rows)) return {.transposed = true};
  return {.packed = true};
}

struct Choice {
  Groups groups;
  Layout a, b, y;
  int64_t copied = 0;  // elements
};

// Of the orders the values suggest for each group, the one that copies least; the first if equal.
Choice Choose(const FactorRule& rule, const Labels& a, const Labels& b, const Labels& y) {
  Groups sets;
  for (int label : y) {
    bool in_a = Contains(a, label), in_b = Contains(b, label);
    (in_a && in_b ? sets.batch : in_a ? sets.m : sets.n).push_back(label);
  }
  for (int label : a) {
    if (!Contains(y, label)) sets.k.push_back(label);
  }
  std::optional<Choice> best;
  const std::array<const Labels*, 3> orders = {&y, &a, &b};
  for (int i = 0; i < 24; ++i) {
    Choice c;
    c.groups.m = InOrderOf(sets.m, i & 1 ? a : y);
    c.groups.n = InOrderOf(sets.n, i & 2 ? b : y);
    c.groups.k = InOrderOf(sets.k, i & 4 ? b : a);
    c.groups.batch = InOrderOf(sets.batch, *orders[i >> 3]);
    c.a = LayoutOf(a, c.groups.batch, c.groups.m, c.groups.k);
    c.b = LayoutOf(b, c.groups.batch, c.groups.k, c.groups.n);
    c.y = LayoutOf(y, c.groups.batch, c.groups.m, c.groups.n);
    c.copied = (c.a.packed ? Extent(rule, a) : 0) + (c.b.packed ? Extent(rule, b) : 0) +
               (c.y.packed ? Extent(rule, y) : 0);
    if (!best || c.copied < best->copied) best = std::move(c);
  }
  return *std::move(best);
}

// Copies between a value and its dense place in the workspace, with conversion.
StridedCopy Copy(const FactorRule& rule, const Labels& src, DType src_dtype, const Labels& dst,
                 DType dst_dtype) {
  Dims dims, src_strides;
  for (int label : dst) {
    dims.push_back(rule.factors[label].extent);
    int64_t stride = 1;
    for (size_t i = src.size(); i-- > 0 && src[i] != label;) stride *= rule.factors[src[i]].extent;
    src_strides.push_back(stride);
  }
  return StridedCopy(dims, src_strides, src_dtype, RowMajorStrides(dims), dst_dtype);
}

struct Part {  // an operand's or the result's copy in the workspace
  StridedCopy copy;
  int64_t offset = -1;  // in the workspace; -1: used in place
};

struct MatmulPlan {
  Part a, b, y;
  Gemm gemm;
  bool swapped = false;  // y^T = b^T a^T
  int64_t scratch_offset = 0;

  void Run(const KernelArgs& args) const {
    char* workspace = static_cast<char*>(args.workspace);
    auto fetch = [&](const Part& part, const void* x) -> const void* {
      if (part.offset < 0) return x;
      part.copy.Run(x, workspace + part.offset);
      return workspace + part.offset;
    };
    const void* a_data = fetch(a, args.operands[swapped ? 1 : 0]);
    const void* b_data = fetch(b, args.operands[swapped ? 0 : 1]);
    void* y_data = y.offset < 0 ? args.results[0] : workspace + y.offset;
    gemm.Run(a_data, b_data, y_data, workspace + scratch_offset);
    if (y.offset >= 0) y.copy.Run(y_data, args.results[0]);
  }
};

// The plan with products of dtype `in` -> `out`.
absl::StatusOr<PlannedKernel> PlanAs(const KernelRequest& request, const FactorRule& rule,
                                     DType in, DType out) {
  auto plan = std::make_shared<MatmulPlan>();
  Labels a = LabelsOf(rule.operands[0], rule), b = LabelsOf(rule.operands[1], rule);
  const Labels y = LabelsOf(rule.results[0], rule);
  Choice choice = Choose(rule, a, b, y);
  if (choice.y.transposed) {
    plan->swapped = true;
    std::swap(a, b);
    choice = Choose(rule, a, b, y);
    CHECK(!choice.y.transposed);
  }
  const Groups& g = choice.groups;
  int64_t workspace = 0;
  auto place = [&](Part& part, int64_t elements, DType dtype) {
    part.offset = workspace;
    workspace += Aligned(elements * SizeOf(dtype));
  };
  const DType x_dtype = request.operands[0].dtype, y_dtype = request.results[0].dtype;
  if (choice.a.packed || x_dtype != in) {
    const Labels dst = choice.a.packed ? Concat(g.batch, g.m, g.k) : a;
    plan->a.copy = Copy(rule, a, x_dtype, dst, in);
    place(plan->a, Extent(rule, a), in);
  }
  if (choice.b.packed || x_dtype != in) {
    const Labels dst = choice.b.packed ? Concat(g.batch, g.k, g.n) : b;
    plan->b.copy = Copy(rule, b, x_dtype, dst, in);
    place(plan->b, Extent(rule, b), in);
  }
  if (choice.y.packed || y_dtype != out) {
    plan->y.copy = Copy(rule, Concat(g.batch, g.m, g.n), out, y, y_dtype);
    place(plan->y, Extent(rule, y), out);
  }
  ASSIGN_OR_RETURN(plan->gemm, Gemm::Create({.batch = Extent(rule, g.batch),
                                             .m = Extent(rule, g.m),
                                             .n = Extent(rule, g.n),
                                             .k = Extent(rule, g.k),
                                             .a_transposed = choice.a.transposed,
                                             .b_transposed = choice.b.transposed,
                                             .in = in,
                                             .out = out}));
  plan->scratch_offset = workspace;
  PlannedKernel planned;
  planned.workspace_bytes = workspace + plan->gemm.scratch_bytes();
  planned.run = [plan](const KernelArgs& args) { plan->Run(args); };
  return planned;
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanMatmul(const KernelRequest& request) {
  const DType in = request.operands[0].dtype, out = request.results[0].dtype;
  if (!IsSmallFloat(in) || !IsSmallFloat(out)) return Decline("f64 products are not fast ones");
  const FactorRule rule = MatmulOp().Factors({request.operands, *request.attributes});
  if (request.results[0].elements() == 0 || request.operands[0].elements() == 0) {
    PlannedKernel planned;  // nothing, or sums of nothing
    planned.run = [bytes = request.results[0].bytes()](const KernelArgs& args) {
      if (bytes > 0) std::memset(args.results[0], 0, bytes);
    };
    return planned;
  }
  if (in == DType::kBF16) {
    absl::StatusOr<PlannedKernel> native =
        PlanAs(request, rule, in, out == DType::kBF16 ? out : DType::kF32);
    if (native.ok()) return native;
  }
  return PlanAs(request, rule, DType::kF32, DType::kF32);
}

}  // namespace colossus
