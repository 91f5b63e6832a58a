// linear_cross_entropy: three products per chunk of tokens; the logits of one chunk at a time.
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "base/status.h"
#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/gemm.h"
#include "tensor/kernels/cpu/int_view.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/row_loops.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/op.h"

namespace colossus {
namespace {

// The products of a chunk of `rows` tokens.
struct ChunkProducts {
  int64_t rows = 0;
  Gemm logits, dx, dw_first, dw_next;
};

struct LossPlan {
  int64_t tokens = 0, c = 0, v = 0, classes = 0, ignore = kIgnoreLabel, chunk = kLossChunk;
  int seed = -1, bias = -1;  // operand indices
  DType dtype = DType::kF32, label_dtype = DType::kI32;
  ChunkProducts whole, tail;  // tail: the last, shorter chunk
  // Workspace offsets, in bytes: logits (later their gradients) in f32, the gradients in bf16, bias
  // in f32, one loss per token, the products' scratch.
  int64_t narrow_offset = 0, bias_offset = 0, loss_offset = 0, scratch_offset = 0, bytes = 0;

  // One token: its loss, and its logits become their gradients.
  float Row(const KernelArgs& args, float* x, int64_t label) const {
    const float* b = reinterpret_cast<const float*>(Workspace(args) + bias_offset);
    if (bias >= 0) Rows().add(b, x, classes);
    if (label == ignore) {
      std::memset(x, 0, sizeof(float) * v);
      return 0;
    }
    const float lse = Rows().log_sum_exp(x, classes);
    const bool known = label >= 0 && label < classes;
    const float loss = known ? lse - x[label] : std::numeric_limits<float>::quiet_NaN();
    if (seed < 0) return loss;
    const float cotangent = *static_cast<const float*>(args.operands[seed]);
    Rows().scaled_exp(x, lse, cotangent, x, classes);
    if (known) x[label] -= cotangent;
    std::fill(x + classes, x + v, 0.0f);
    return loss;
  }

  void Chunk(const KernelArgs& args, const ChunkProducts& products, int64_t at) const {
    char* workspace = Workspace(args);
    float* logits = reinterpret_cast<float*>(workspace);
    BF16* narrow = reinterpret_cast<BF16*>(workspace + narrow_offset);
    float* loss = reinterpret_cast<float*>(workspace + loss_offset);
    void* scratch = workspace + scratch_offset;
    const char* x = static_cast<const char*>(args.operands[0]) + at * c * SizeOf(dtype);
    IntView labels(label_dtype, args.operands[2]);
    products.logits.Run(x, args.operands[1], logits, scratch);
    ParallelFor(products.rows, std::max<int64_t>(1, 4096 / v), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        loss[at + row] = Row(args, logits + row * v, labels[at + row]);
        if (seed < 0 || dtype == DType::kF32) continue;
        StoreRun(dtype, logits + row * v, narrow + row * v, v);
      }
    });
    if (seed < 0) return;
    const void* dlogits = dtype == DType::kF32 ? static_cast<void*>(logits) : narrow;
    char* dx = static_cast<char*>(args.results[1]) + at * c * SizeOf(dtype);
    products.dx.Run(dlogits, args.operands[1], dx, scratch);
    (at == 0 ? products.dw_first : products.dw_next).Run(dlogits, x, args.results[2], scratch);
    if (bias >= 0) AddBiasGradient(args, logits, products.rows, at == 0);
  }

  // Each column's rows in order.
  void AddBiasGradient(const KernelArgs& args, const float* dlogits, int64_t rows,
                       bool first) const {
    float* dbias = static_cast<float*>(args.results[3]);
    ParallelFor(v, 256, [&](int64_t begin, int64_t end) {
      if (first) std::fill(dbias + begin, dbias + end, 0.0f);
      for (int64_t row = 0; row < rows; ++row) {
        Rows().add(dlogits + row * v + begin, dbias + begin, end - begin);
      }
    });
  }

  void Run(const KernelArgs& args) const {
    if (bias >= 0) {
      LoadRun(dtype, args.operands[bias],
              reinterpret_cast<float*>(Workspace(args) + bias_offset), v);
    }
    for (int64_t at = 0; at < tokens; at += chunk) {
      Chunk(args, tokens - at >= whole.rows ? whole : tail, at);
    }
    const float* loss = reinterpret_cast<const float*>(Workspace(args) + loss_offset);
    double sum = 0;
    for (int64_t i = 0; i < tokens; ++i) sum += loss[i];
    *static_cast<float*>(args.results[0]) = static_cast<float>(sum);
  }

  static char* Workspace(const KernelArgs& args) { return static_cast<char*>(args.workspace); }
};

absl::Status MakeProducts(const LossPlan& p, int64_t rows, ChunkProducts& products,
                          int64_t& scratch) {
  if (rows == 0) return absl::OkStatus();
  auto make = [&](Gemm& gemm, const GemmSpec& spec) -> absl::Status {
    ASSIGN_OR_RETURN(gemm, Gemm::Create(spec));
    scratch = std::max(scratch, gemm.scratch_bytes());
    return absl::OkStatus();
  };
  products.rows = rows;
  RETURN_IF_ERROR(make(products.logits, {.m = rows, .n = p.v, .k = p.c, .b_transposed = true,
                                         .in = p.dtype}));
  if (p.seed < 0) return absl::OkStatus();
  RETURN_IF_ERROR(make(products.dx, {.m = rows, .n = p.c, .k = p.v, .in = p.dtype,
                                     .out = p.dtype}));
  GemmSpec dw{.m = p.v, .n = p.c, .k = rows, .a_transposed = true, .in = p.dtype};
  RETURN_IF_ERROR(make(products.dw_first, dw));
  dw.accumulate = true;
  return make(products.dw_next, dw);
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanLinearCrossEntropy(const KernelRequest& request) {
  const Attributes& a = *request.attributes;
  auto plan = std::make_shared<LossPlan>();
  plan->dtype = request.operands[0].dtype;
  if (plan->dtype != DType::kF32 && plan->dtype != DType::kBF16) {
    return Decline("computes in f32 and bf16 only");
  }
  plan->label_dtype = request.operands[2].dtype;
  plan->tokens = request.operands[2].elements();
  plan->v = request.operands[1].dims[0];
  plan->c = request.operands[1].dims[1];
  if (plan->tokens == 0 || plan->v == 0 || plan->c == 0) return Decline("nothing to compute");
  plan->classes = a.IntOr("classes", plan->v);
  plan->ignore = a.IntOr("ignore", kIgnoreLabel);
  plan->chunk = std::min(a.IntOr("chunk", kLossChunk), plan->tokens);
  plan->seed = OptionalOperand(a, 3, "seed");
  plan->bias = OptionalOperand(a, 3, "bias");
  int64_t scratch = 0;
  RETURN_IF_ERROR(MakeProducts(*plan, plan->chunk, plan->whole, scratch));
  RETURN_IF_ERROR(MakeProducts(*plan, plan->tokens % plan->chunk, plan->tail, scratch));
  plan->narrow_offset = Aligned(plan->chunk * plan->v * 4);
  const bool narrow = plan->dtype == DType::kBF16 && plan->seed >= 0;
  plan->bias_offset = plan->narrow_offset + (narrow ? Aligned(plan->chunk * plan->v * 2) : 0);
  plan->loss_offset = plan->bias_offset + Aligned(plan->v * 4);
  plan->scratch_offset = plan->loss_offset + Aligned(plan->tokens * 4);
  PlannedKernel planned;
  planned.workspace_bytes = plan->scratch_offset + scratch;
  planned.run = [plan](const KernelArgs& args) { plan->Run(args); };
  return planned;
}

}  // namespace colossus
