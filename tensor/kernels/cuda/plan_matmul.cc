// matmul and linear_cross_entropy: dense products, with copies where a layout needs them.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "tensor/kernels/cuda/launch.h"
#include "tensor/kernels/cuda/plans.h"
#include "tensor/kernels/cuda/product.h"
#include "tensor/kernels/functors/reduce.h"
#include "tensor/kernels/functors/rows.h"
#include "tensor/kernels/matmul_layout.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/op.h"

namespace colossus::cuda {
namespace {

struct Part {  // an operand's or the result's copy in the workspace
  Move copy;
  int64_t offset = -1;  // in the workspace; -1: used in place
};

struct MatmulPlan {
  Part a, b, y;
  Product product;
  bool swapped = false;
  int64_t scratch_at = 0;

  void Run(const KernelArgs& args) const {
    auto fetch = [&](const Part& part, const void* x) -> const void* {
      if (part.offset < 0) return x;
      char* copy = WorkspaceAt<char>(args, part.offset);
      part.copy.Run(args.stream, x, copy);
      return copy;
    };
    const void* a_data = fetch(a, args.operands[swapped ? 1 : 0]);
    const void* b_data = fetch(b, args.operands[swapped ? 0 : 1]);
    void* y_data = y.offset < 0 ? args.results[0] : WorkspaceAt<char>(args, y.offset);
    product.Run(args.stream, a_data, b_data, y_data, WorkspaceAt<char>(args, scratch_at));
    if (y.offset >= 0) y.copy.Run(args.stream, y_data, args.results[0]);
  }
};

// Plans a copy of the value with labels `src` as `dst` and places it.
absl::Status PlanPart(const FactorRule& rule, const Labels& src, DType src_dtype, const Labels& dst,
                      DType dst_dtype, DType placed, Workspace& workspace, Part& part) {
  const LabelCopy copy = CopyBetween(rule, src, dst);
  ASSIGN_OR_RETURN(part.copy, PlanMove(copy.dims, copy.src_strides, src_dtype,
                                       RowMajorStrides(copy.dims), dst_dtype));
  part.offset = workspace.Take(LabelExtent(rule, src) * SizeOf(placed));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanMatmul(const KernelRequest& request) {
  const DType x_dtype = request.operands[0].dtype, y_dtype = request.results[0].dtype;
  PlannedKernel planned;
  if (request.results[0].elements() == 0 || request.operands[0].elements() == 0) {
    planned.run = [bytes = request.results[0].bytes()](const KernelArgs& args) {
      ForEachUnit(args.stream, bytes, FillBits{args.results[0], 1, 0});  // nothing, or empty sums
    };
    return planned;
  }
  const FactorRule rule = MatmulOp().Factors({request.operands, *request.attributes});
  const MatmulLayout layout = ChooseMatmulLayout(rule);
  const MatmulGroups& g = layout.groups;
  // A result that the library does not write is made in f32 and converted; f64 is the functor's.
  const bool wide = x_dtype == DType::kF64 || y_dtype == DType::kF64;
  const DType out = wide || IsNativeProduct(x_dtype, y_dtype) ? y_dtype : DType::kF32;
  MatmulPlan plan;
  plan.swapped = layout.swapped;
  Workspace workspace;
  if (layout.a.packed) {
    RETURN_IF_ERROR(PlanPart(rule, layout.a_labels, x_dtype, Concat(g.batch, g.m, g.k), x_dtype,
                             x_dtype, workspace, plan.a));
  }
  if (layout.b.packed) {
    RETURN_IF_ERROR(PlanPart(rule, layout.b_labels, x_dtype, Concat(g.batch, g.k, g.n), x_dtype,
                             x_dtype, workspace, plan.b));
  }
  if (layout.y.packed || out != y_dtype) {
    RETURN_IF_ERROR(PlanPart(rule, Concat(g.batch, g.m, g.n), out, layout.y_labels, y_dtype, out,
                             workspace, plan.y));
  }
  plan.product = Product::Create({.batch = LabelExtent(rule, g.batch),
                                  .m = LabelExtent(rule, g.m),
                                  .n = LabelExtent(rule, g.n),
                                  .k = LabelExtent(rule, g.k),
                                  .a_transposed = layout.a.transposed,
                                  .b_transposed = layout.b.transposed,
                                  .in = x_dtype,
                                  .out = out});
  plan.scratch_at = workspace.Take(plan.product.scratch_bytes());
  if (plan.product.by_library()) planned.name = "cublaslt_matmul";
  planned.workspace_bytes = workspace.bytes();
  planned.run = [plan](const KernelArgs& args) { plan.Run(args); };
  return planned;
}

namespace {

// The products of a chunk of `rows` positions.
struct ChunkProducts {
  int64_t rows = 0;
  Product logits, dx, dw_first, dw_next;
};

struct LossPlan {
  LossRow row;
  int64_t positions = 0, c = 0, chunk = 0;
  int seed = -1, bias = -1;
  ChunkProducts whole, tail;  // tail: the last, shorter chunk
  // Workspace: logits in f32, later their cotangents; those in 16 bits; one loss per position.
  int64_t logits_at = 0, narrow_at = 0, loss_at = 0, scratch_at = 0;

  void Chunk(const KernelArgs& args, const CallDTypes& dtypes, const ChunkProducts& products,
             int64_t at) const {
    const DType dtype = dtypes.operands[0];
    const bool narrow = dtype != DType::kF32;
    char* scratch = WorkspaceAt<char>(args, scratch_at);
    const char* x = static_cast<const char*>(args.operands[0]) + at * c * SizeOf(dtype);
    LossRow f = row;
    f.logits = WorkspaceAt<float>(args, logits_at);
    f.labels = dtypes.x(args, 2);
    f.bias = dtypes.x(args, bias);
    f.seed = dtypes.x(args, seed);
    f.loss = WorkspaceAt<float>(args, loss_at);
    f.first = at;
    if (narrow && seed >= 0) f.narrow = {WorkspaceAt<char>(args, narrow_at), dtype};
    products.logits.Run(args.stream, x, args.operands[1], f.logits, scratch);
    ForEachUnit(args.stream, products.rows, f);
    if (seed < 0) return;
    const void* dlogits = narrow ? f.narrow.data : f.logits;
    char* dx = static_cast<char*>(args.results[1]) + at * c * SizeOf(dtype);
    products.dx.Run(args.stream, dlogits, args.operands[1], dx, scratch);
    (at == 0 ? products.dw_first : products.dw_next)
        .Run(args.stream, dlogits, x, args.results[2], scratch);
    if (bias < 0) return;
    ForEachUnit(args.stream, row.columns,
                BiasColumn{f.logits, static_cast<float*>(args.results[3]), products.rows,
                           row.columns, at == 0});
  }
};

ChunkProducts ProductsOf(const LossPlan& plan, DType dtype, int64_t rows, int64_t& scratch) {
  ChunkProducts products;
  products.rows = rows;
  if (rows == 0) return products;
  const int64_t v = plan.row.columns, c = plan.c;
  int64_t alignment = 64;  // of the rows that a chunk begins with
  while (plan.chunk * c * SizeOf(dtype) % alignment != 0) alignment /= 2;
  products.logits = Product::Create({.m = rows, .n = v, .k = c, .b_transposed = true, .in = dtype,
                                     .alignment = alignment});
  scratch = std::max(scratch, products.logits.scratch_bytes());
  if (plan.seed < 0) return products;
  products.dx = Product::Create({.m = rows, .n = c, .k = v, .in = dtype, .out = dtype,
                                 .alignment = alignment});
  DenseProduct dw{.m = v, .n = c, .k = rows, .a_transposed = true, .in = dtype,
                  .alignment = alignment};
  products.dw_first = Product::Create(dw);
  dw.accumulate = true;
  products.dw_next = Product::Create(dw);
  for (const Product* p : {&products.dx, &products.dw_first, &products.dw_next}) {
    scratch = std::max(scratch, p->scratch_bytes());
  }
  return products;
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanLinearCrossEntropy(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const Attributes& a = *request.attributes;
  const CallDTypes dtypes(request);
  LossPlan plan;
  plan.positions = request.operands[2].elements();
  plan.c = request.operands[1].dims[1];
  plan.row.columns = request.operands[1].dims[0];
  if (plan.positions == 0 || plan.row.columns == 0 || plan.c == 0) {
    return Decline("nothing to compute: a dim is 0");
  }
  plan.row.classes = a.IntOr("classes", plan.row.columns);
  plan.row.ignore = a.IntOr("ignore", kIgnoreLabel);
  plan.chunk = std::min(a.IntOr("chunk", kLossChunk), plan.positions);
  plan.seed = OptionalOperand(a, 3, "seed");
  plan.bias = OptionalOperand(a, 3, "bias");
  const DType dtype = request.operands[0].dtype;
  int64_t scratch = 0;
  plan.whole = ProductsOf(plan, dtype, plan.chunk, scratch);
  plan.tail = ProductsOf(plan, dtype, plan.positions % plan.chunk, scratch);
  Workspace workspace;
  plan.logits_at = workspace.Take(plan.chunk * plan.row.columns * 4);
  const bool narrow = dtype != DType::kF32 && plan.seed >= 0;
  plan.narrow_at = workspace.Take(narrow ? plan.chunk * plan.row.columns * 2 : 0);
  plan.loss_at = workspace.Take(plan.positions * 4);
  plan.scratch_at = workspace.Take(scratch);
  PlannedKernel planned;
  planned.workspace_bytes = workspace.bytes();
  planned.run = [=](const KernelArgs& args) {
    for (int64_t at = 0; at < plan.positions; at += plan.chunk) {
      const bool whole = plan.positions - at >= plan.chunk;
      plan.Chunk(args, dtypes, whole ? plan.whole : plan.tail, at);
    }
    ForEachUnit(args.stream, 1, OrderedTotal<float>{WorkspaceAt<float>(args, plan.loss_at),
                                                    plan.positions, dtypes.y(args, 0)});
  };
  return planned;
}

}  // namespace colossus::cuda
