// softmax, cross_entropy, their gradients, and the parts of a cross_entropy: rows of f32.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tensor/kernels/cpu/int_view.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/row_buffer.h"
#include "tensor/kernels/cpu/row_loops.h"
#include "tensor/ops/loss.h"

namespace colossus {
namespace {

int64_t RowGrain(int64_t n) { return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, n)); }

bool AllSmall(const KernelRequest& request, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!IsSmallFloat(request.operands[i].dtype)) return false;
  }
  return true;
}

struct LossPlan {
  Type logits;
  DType label_dtype = DType::kI32, result = DType::kF32;
  // classes: of the columns that are here, which begin at column `origin`.
  int64_t rows = 0, v = 0, classes = 0, origin = 0, ignore = kIgnoreLabel, slots = 1;
};

absl::StatusOr<LossPlan> DescribeLoss(const KernelRequest& request, int logits) {
  if (!IsSmallFloat(request.operands[logits].dtype)) return Decline("computes in f32 only");
  LossPlan p;
  p.logits = request.operands[logits];
  p.label_dtype = request.operands[logits + 1].dtype;
  p.result = request.results[0].dtype;
  p.v = p.logits.dims.back();
  if (p.v == 0) return Decline("rows without elements");
  p.rows = p.logits.elements() / p.v;
  p.classes = ClassesOfPart({request.operands, *request.attributes}, p.v);
  p.origin = request.attributes->IntOr("origin", 0);
  p.ignore = request.attributes->IntOr("ignore", kIgnoreLabel);
  p.slots = request.threads;
  return p;
}

void RunCrossEntropy(const LossPlan& p, const KernelArgs& args) {
  float* workspace = static_cast<float*>(args.workspace);
  float* lse = static_cast<float*>(args.results[1]);
  float* loss = workspace + p.slots * PaddedFloats(p.v);  // per row
  IntView labels(p.label_dtype, args.operands[1]);
  ParallelSlots(p.slots, p.rows, RowGrain(p.v), [&](int64_t slot, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = RowIn(p.logits.dtype, args.operands[0], row, p.v,
                             workspace + slot * PaddedFloats(p.v));
      lse[row] = Rows().log_sum_exp(x, p.classes);
      const int64_t label = labels[row];
      if (label == p.ignore) loss[row] = 0;
      else if (label < 0 || label >= p.classes) loss[row] = std::numeric_limits<float>::quiet_NaN();
      else loss[row] = lse[row] - x[label];
    }
  });
  double sum = 0;
  for (int64_t row = 0; row < p.rows; ++row) sum += loss[row];
  static_cast<float*>(args.results[0])[0] = static_cast<float>(sum);
}

void RunCrossEntropyGrad(const LossPlan& p, const KernelArgs& args) {
  float* workspace = static_cast<float*>(args.workspace);
  const float seed = static_cast<const float*>(args.operands[0])[0];
  const float* lse = static_cast<const float*>(args.operands[3]);
  IntView labels(p.label_dtype, args.operands[2]);
  ParallelSlots(p.slots, p.rows, RowGrain(p.v), [&](int64_t slot, int64_t begin, int64_t end) {
    float* buffer = workspace + 2 * slot * PaddedFloats(p.v);
    for (int64_t row = begin; row < end; ++row) {
      float* y = RowOut(p.result, args.results[0], row, p.v, buffer + PaddedFloats(p.v));
      const int64_t label = labels[row];
      if (label == p.ignore) {
        std::fill(y, y + p.v, 0.0f);
      } else {
        const float* x = RowIn(p.logits.dtype, args.operands[1], row, p.v, buffer);
        Rows().scaled_exp(x, lse[row], seed, y, p.classes);
        const int64_t own = label - p.origin;
        if (own >= 0 && own < p.classes) y[own] -= seed;
        std::fill(y + p.classes, y + p.v, 0.0f);
      }
      Finish(p.result, args.results[0], row, p.v, y);
    }
  });
}

void RunCrossEntropyPart(const LossPlan& p, const KernelArgs& args) {
  float* workspace = static_cast<float*>(args.workspace);
  float* lse = static_cast<float*>(args.results[0]);
  IntView labels(p.label_dtype, args.operands[1]);
  ParallelSlots(p.slots, p.rows, RowGrain(p.v), [&](int64_t slot, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x =
          RowIn(p.logits.dtype, args.operands[0], row, p.v, workspace + slot * PaddedFloats(p.v));
      const int64_t label = labels[row] - p.origin;
      lse[row] = p.classes > 0 ? Rows().log_sum_exp(x, p.classes)
                               : -std::numeric_limits<float>::infinity();
      lse[p.rows + row] = label >= 0 && label < p.classes ? x[label] : 0;
    }
  });
}

// One row: parts of rows of two.
float MergedLoss(const LossPlan& p, const float* parts, int64_t row, int64_t label, float* lse) {
  float top = -std::numeric_limits<float>::infinity(), sum = 0, logit = 0;
  for (int64_t i = 0; i < p.v; i += 2) top = std::max(top, parts[i * p.rows + row]);
  for (int64_t i = 0; i < p.v; i += 2) {
    sum += std::exp(parts[i * p.rows + row] - top);
    logit += parts[(i + 1) * p.rows + row];
  }
  *lse = top + std::log(sum);
  if (label == p.ignore) return 0;
  return label >= 0 && label < p.classes ? *lse - logit : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanSoftmax(const KernelRequest& request) {
  if (!AllSmall(request, request.operands.size())) return Decline("computes in f32 only");
  const DType dtype = request.results[0].dtype;
  const int64_t n = request.results[0].dims.back(), slots = request.threads;
  if (n == 0) return Decline("rows without elements");
  const int64_t rows = request.results[0].elements() / n;
  const bool gradient = request.op->name() == "softmax_grad";
  PlannedKernel planned;
  planned.workspace_bytes = slots * 3 * PaddedFloats(n) * static_cast<int64_t>(sizeof(float));
  planned.run = [=](const KernelArgs& args) {
    ParallelSlots(slots, rows, RowGrain(n), [&](int64_t slot, int64_t begin, int64_t end) {
      float* buffer = static_cast<float*>(args.workspace) + 3 * slot * PaddedFloats(n);
      for (int64_t row = begin; row < end; ++row) {
        const float* x = RowIn(dtype, args.operands[0], row, n, buffer);
        float* y = RowOut(dtype, args.results[0], row, n, buffer + 2 * PaddedFloats(n));
        if (!gradient) {
          Rows().softmax(x, y, n);
        } else {
          Rows().softmax_grad(
              x, RowIn(dtype, args.operands[1], row, n, buffer + PaddedFloats(n)), y, n);
        }
        Finish(dtype, args.results[0], row, n, y);
      }
    });
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanCrossEntropy(const KernelRequest& request) {
  absl::StatusOr<LossPlan> plan = DescribeLoss(request, 0);
  if (!plan.ok()) return plan.status();
  PlannedKernel planned;
  planned.workspace_bytes = (plan->slots * PaddedFloats(plan->v) + plan->rows) *
                            static_cast<int64_t>(sizeof(float));
  planned.run = [p = *plan](const KernelArgs& args) { RunCrossEntropy(p, args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanCrossEntropyGrad(const KernelRequest& request) {
  absl::StatusOr<LossPlan> plan = DescribeLoss(request, 1);
  if (!plan.ok()) return plan.status();
  PlannedKernel planned;
  planned.workspace_bytes =
      plan->slots * 2 * PaddedFloats(plan->v) * static_cast<int64_t>(sizeof(float));
  planned.run = [p = *plan](const KernelArgs& args) { RunCrossEntropyGrad(p, args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanCrossEntropyPart(const KernelRequest& request) {
  absl::StatusOr<LossPlan> plan = DescribeLoss(request, 0);
  if (!plan.ok()) return plan.status();
  PlannedKernel planned;
  planned.workspace_bytes =
      plan->slots * PaddedFloats(plan->v) * static_cast<int64_t>(sizeof(float));
  planned.run = [p = *plan](const KernelArgs& args) { RunCrossEntropyPart(p, args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanCrossEntropyMerge(const KernelRequest& request) {
  if (request.operands[0].dtype != DType::kF32) return Decline("computes in f32 only");
  LossPlan p;
  p.label_dtype = request.operands[1].dtype;
  p.rows = request.operands[1].elements();
  p.v = request.operands[0].dims[0];
  p.classes = request.attributes->Int("classes");
  p.ignore = request.attributes->IntOr("ignore", kIgnoreLabel);
  PlannedKernel planned;
  planned.run = [p](const KernelArgs& args) {
    const IntView labels(p.label_dtype, args.operands[1]);
    const float* parts = static_cast<const float*>(args.operands[0]);
    float* lse = static_cast<float*>(args.results[1]);
    double sum = 0;
    for (int64_t row = 0; row < p.rows; ++row) {
      sum += MergedLoss(p, parts, row, labels[row], lse + row);
    }
    static_cast<float*>(args.results[0])[0] = static_cast<float>(sum);
  };
  return planned;
}

}  // namespace colossus
