// matmul by dense products (gemm.h).
//
// matmul_layout.h tells which values enter a dense product as they are. The others are copied
// through the workspace.
#include <cstring>
#include <memory>

#include "tensor/kernels/cpu/gemm.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/strided_copy.h"
#include "tensor/kernels/matmul_layout.h"
#include "tensor/ops/matmul.h"

namespace colossus {
namespace {

// Copies between a value and its dense place in the workspace.
StridedCopy Copy(const FactorRule& rule, const Labels& src, const Labels& dst, DType dtype) {
  const LabelCopy copy = CopyBetween(rule, src, dst);
  return StridedCopy(copy.dims, copy.src_strides, dtype, RowMajorStrides(copy.dims), dtype);
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

PlannedKernel PlanProduct(const KernelRequest& request, const FactorRule& rule) {
  auto plan = std::make_shared<MatmulPlan>();
  const MatmulLayout layout = ChooseMatmulLayout(rule);
  const MatmulGroups& g = layout.groups;
  const Labels &a = layout.a_labels, &b = layout.b_labels, &y = layout.y_labels;
  plan->swapped = layout.swapped;
  int64_t workspace = 0;
  auto place = [&](Part& part, int64_t elements, DType dtype) {
    part.offset = workspace;
    workspace += Aligned(elements * SizeOf(dtype));
  };
  const DType in = request.operands[0].dtype, out = request.results[0].dtype;
  if (layout.a.packed) {
    plan->a.copy = Copy(rule, a, Concat(g.batch, g.m, g.k), in);
    place(plan->a, LabelExtent(rule, a), in);
  }
  if (layout.b.packed) {
    plan->b.copy = Copy(rule, b, Concat(g.batch, g.k, g.n), in);
    place(plan->b, LabelExtent(rule, b), in);
  }
  if (layout.y.packed) {
    plan->y.copy = Copy(rule, Concat(g.batch, g.m, g.n), y, out);
    place(plan->y, LabelExtent(rule, y), out);
  }
  plan->gemm = Gemm::Create({.batch = LabelExtent(rule, g.batch),
                             .m = LabelExtent(rule, g.m),
                             .n = LabelExtent(rule, g.n),
                             .k = LabelExtent(rule, g.k),
                             .a_transposed = layout.a.transposed,
                             .b_transposed = layout.b.transposed,
                             .in = in,
                             .out = out,
                             .threads = request.threads});
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
  return PlanProduct(request, rule);
}

}  // namespace colossus
