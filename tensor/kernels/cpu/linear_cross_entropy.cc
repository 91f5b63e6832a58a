// linear_cross_entropy: three products per chunk of tokens; the logits of one chunk at a time.
//
// The gradients of the logits take their place. For 16-bit products they are rounded into the same
// memory: row r moves from 4 v r to 2 v r bytes, over rows that moved before. Rows [n, 2 n) land
// where rows [n / 2, n) were, so a wave of such rows moves in parallel.
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

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
  // Workspace offsets, in bytes: logits (later their gradients) lie at 0; bias in f32, one loss per
  // token, the products' scratch.
  int64_t bias_offset = 0, loss_offset = 0, scratch_offset = 0;

  bool narrows() const { return seed >= 0 && dtype != DType::kF32; }

  // One token: its loss, and its logits become their gradients.
  float Row(const KernelArgs& args, float* x, int64_t label) const {
    if (bias >= 0) Rows().add(Floats(args, bias_offset), x, classes);
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

  // The losses of rows [first, last) of a chunk; their logits become gradients, in f32.
  void ComputeRows(const KernelArgs& args, int64_t at, int64_t first, int64_t last) const {
    float* logits = Floats(args, 0);
    float* loss = Floats(args, loss_offset);
    const IntView labels(label_dtype, args.operands[2]);
    ParallelFor(last - first, std::max<int64_t>(1, 4096 / v), [&](int64_t begin, int64_t end) {
      for (int64_t row = first + begin; row < first + end; ++row) {
        loss[at + row] = Row(args, logits + row * v, labels[at + row]);
      }
    });
    if (seed >= 0 && bias >= 0) AddBiasGradient(args, logits, first, last, at == 0);
  }

  // Rows [first, last) of the gradients move to their place among the rounded ones.
  void Narrow(const KernelArgs& args, int64_t first, int64_t last) const {
    const float* wide = Floats(args, 0);
    char* narrow = Workspace(args);
    ParallelFor(last - first, std::max<int64_t>(1, 4096 / v), [&](int64_t begin, int64_t end) {
      constexpr int64_t kRun = 512;
      float run[kRun];  // row 0 moves within itself
      for (int64_t row = first + begin; row < first + end; ++row) {
        for (int64_t i = 0; i < v; i += kRun) {
          const int64_t n = std::min(kRun, v - i);
          std::memcpy(run, wide + row * v + i, n * sizeof(float));
          StoreRun(dtype, run, narrow + (row * v + i) * SizeOf(dtype), n);
        }
      }
    });
  }

  void Chunk(const KernelArgs& args, const ChunkProducts& products, int64_t at) const {
    void* scratch = Workspace(args) + scratch_offset;
    const void* x = static_cast<const char*>(args.operands[0]) + at * c * SizeOf(dtype);
    products.logits.Run(x, args.operands[1], Workspace(args), scratch);
    if (!narrows()) {
      ComputeRows(args, at, 0, products.rows);
    } else {
      for (int64_t n = 0; n < products.rows; n = std::max<int64_t>(1, 2 * n)) {
        const int64_t last = std::min(products.rows, std::max<int64_t>(1, 2 * n));
        ComputeRows(args, at, n, last);
        Narrow(args, n, last);
      }
    }
    if (seed < 0) return;
    void* dx = static_cast<char*>(args.results[1]) + at * c * SizeOf(dtype);
    products.dx.Run(Workspace(args), args.operands[1], dx, scratch);
    (at == 0 ? products.dw_first : products.dw_next)
        .Run(Workspace(args), x, args.results[2], scratch);
  }

  // Each column's rows in order.
  void AddBiasGradient(const KernelArgs& args, const float* dlogits, int64_t first, int64_t last,
                       bool first_chunk) const {
    float* dbias = static_cast<float*>(args.results[3]);
    ParallelFor(v, 256, [&](int64_t begin, int64_t end) {
      if (first_chunk && first == 0) std::fill(dbias + begin, dbias + end, 0.0f);
      for (int64_t row = first; row < last; ++row) {
        Rows().add(dlogits + row * v + begin, dbias + begin, end - begin);
      }
    });
  }

  void Run(const KernelArgs& args) const {
    if (bias >= 0) LoadRun(dtype, args.operands[bias], Floats(args, bias_offset), v);
    for (int64_t at = 0; at < tokens; at += chunk) {
      Chunk(args, tokens - at >= whole.rows ? whole : tail, at);
    }
    const float* loss = Floats(args, loss_offset);
    double sum = 0;
    for (int64_t i = 0; i < tokens; ++i) sum += loss[i];
    *static_cast<float*>(args.results[0]) = static_cast<float>(sum);
  }

  static char* Workspace(const KernelArgs& args) { return static_cast<char*>(args.workspace); }
  static float* Floats(const KernelArgs& args, int64_t offset) {
    return reinterpret_cast<float*>(Workspace(args) + offset);
  }
};

// Returns the scratch they need.
int64_t MakeProducts(const LossPlan& p, int64_t rows, int threads, ChunkProducts& products) {
  if (rows == 0) return 0;
  int64_t scratch = 0;
  auto make = [&](Gemm& gemm, GemmSpec spec) {
    spec.in = p.dtype;
    spec.threads = threads;
    gemm = Gemm::Create(spec);
    scratch = std::max(scratch, gemm.scratch_bytes());
  };
  products.rows = rows;
  make(products.logits, {.m = rows, .n = p.v, .k = p.c, .b_transposed = true});
  if (p.seed < 0) return scratch;
  make(products.dx, {.m = rows, .n = p.c, .k = p.v, .out = p.dtype});
  GemmSpec dw{.m = p.v, .n = p.c, .k = rows, .a_transposed = true};
  make(products.dw_first, dw);
  dw.accumulate = true;
  make(products.dw_next, dw);
  return scratch;
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanLinearCrossEntropy(const KernelRequest& request) {
  const Attributes& a = *request.attributes;
  auto plan = std::make_shared<LossPlan>();
  plan->dtype = request.operands[0].dtype;
  if (!IsSmallFloat(plan->dtype)) return Decline("computes in f32 only");
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
  const int64_t scratch = std::max(
      MakeProducts(*plan, plan->chunk, request.threads, plan->whole),
      MakeProducts(*plan, plan->tokens % plan->chunk, request.threads, plan->tail));
  plan->bias_offset = Aligned(plan->chunk * plan->v * 4);
  plan->loss_offset = plan->bias_offset + (plan->bias >= 0 ? Aligned(plan->v * 4) : 0);
  plan->scratch_offset = plan->loss_offset + Aligned(plan->tokens * 4);
  PlannedKernel planned;
  planned.workspace_bytes = plan->scratch_offset + scratch;
  planned.run = [plan](const KernelArgs& args) { plan->Run(args); };
  return planned;
}

}  // namespace colossus
