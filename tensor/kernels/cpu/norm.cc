// layer_norm, rms_norm and their gradients.
#include <cstring>
#include <memory>
#include <string>

#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/row_buffer.h"
#include "tensor/kernels/cpu/row_loops.h"
#include "tensor/ops/op.h"

namespace colossus {
namespace {

constexpr int64_t kGrain = 8;  // rows worth a thread

struct NormPlan {
  bool centred = true;
  int64_t rows = 0, c = 0, slots = 1;
  float epsilon = 0, offset = 0;
  Types operands, results;
  int weight = -1, bias = -1;  // operand indices
  // Gradient only: indices of mean (-1: none) and rstd, and results.
  int mean = -1, rstd = -1, dweight = -1, dbias = -1;
  int64_t block = 1, blocks = 1;  // rows per partial sum of dweight and dbias

  // Workspace, in floats: weight[c], bias[c], then per slot 4 rows, then the partial sums.
  int64_t row_floats() const { return PaddedFloats(c); }
  int64_t slot_offset(int64_t slot) const { return row_floats() * (2 + 4 * slot); }
  int64_t partial_offset() const { return slot_offset(slots); }

  // Weight (offset included) and bias as f32; ones and zeros where absent.
  void LoadAffine(const KernelArgs& args, float* workspace) const {
    float* w = workspace;
    float* b = workspace + row_floats();
    std::fill(w, w + c, 1.0f);
    std::fill(b, b + c, 0.0f);
    if (weight >= 0) LoadRun(operands[weight].dtype, args.operands[weight], w, c);
    if (bias >= 0) LoadRun(operands[bias].dtype, args.operands[bias], b, c);
    for (int64_t i = 0; weight >= 0 && i < c; ++i) w[i] += offset;
  }

  void Forward(const KernelArgs& args) const {
    float* workspace = static_cast<float*>(args.workspace);
    LoadAffine(args, workspace);
    float* mean_out = centred ? static_cast<float*>(args.results[1]) : nullptr;
    float* rstd_out = static_cast<float*>(args.results[centred ? 2 : 1]);
    ParallelSlots(slots, rows, kGrain, [&](int64_t slot, int64_t begin, int64_t end) {
      float* buffer = workspace + slot_offset(slot);
      for (int64_t row = begin; row < end; ++row) {
        const float* x = RowIn(operands[0].dtype, args.operands[0], row, c, buffer);
        float* y = RowOut(results[0].dtype, args.results[0], row, c, buffer + row_floats());
        float mean_value;
        Rows().norm(x, workspace, workspace + row_floats(), epsilon, centred, c, y, &mean_value,
                    &rstd_out[row]);
        if (centred) mean_out[row] = mean_value;
        Finish(results[0].dtype, args.results[0], row, c, y);
      }
    });
  }

  void Backward(const KernelArgs& args) const {
    float* workspace = static_cast<float*>(args.workspace);
    LoadAffine(args, workspace);
    const float* means = mean < 0 ? nullptr : static_cast<const float*>(args.operands[mean]);
    const float* rstds = static_cast<const float*>(args.operands[rstd]);
    float* partial = workspace + partial_offset();
    std::memset(partial, 0, sizeof(float) * 2 * row_floats() * blocks);
    ParallelSlots(slots, rows, block, [&](int64_t slot, int64_t begin, int64_t end) {
      float* buffer = workspace + slot_offset(slot);
      for (int64_t row = begin; row < end; ++row) {
        float* sums = partial + 2 * row_floats() * (row / block);
        const float* dy = RowIn(operands[0].dtype, args.operands[0], row, c, buffer);
        const float* x =
            RowIn(operands[1].dtype, args.operands[1], row, c, buffer + row_floats());
        float* dx = RowOut(results[0].dtype, args.results[0], row, c, buffer + 2 * row_floats());
        Rows().norm_grad(dy, x, workspace, centred ? means[row] : 0.0f, rstds[row], centred, c, dx,
                         dweight < 0 ? nullptr : sums,
                         dbias < 0 ? nullptr : sums + row_floats(), buffer + 3 * row_floats());
        Finish(results[0].dtype, args.results[0], row, c, dx);
      }
    });
    AddPartials(args, partial);
  }

  // The blocks' sums in order.
  void AddPartials(const KernelArgs& args, float* partial) const {
    for (int64_t i = 1; i < blocks; ++i) {
      Rows().add(partial + 2 * row_floats() * i, partial, 2 * row_floats());
    }
    if (dweight >= 0) std::memcpy(args.results[dweight], partial, sizeof(float) * c);
    if (dbias >= 0) std::memcpy(args.results[dbias], partial + row_floats(), sizeof(float) * c);
  }
};

absl::StatusOr<std::shared_ptr<NormPlan>> NewPlan(const KernelRequest& request, int x) {
  for (const Type& type : request.operands) {
    if (!IsSmallFloat(type.dtype)) return Decline("computes in f32 only");
  }
  auto plan = std::make_shared<NormPlan>();
  plan->operands.assign(request.operands.begin(), request.operands.end());
  plan->results.assign(request.results.begin(), request.results.end());
  plan->c = request.operands[x].dims.back();
  if (plan->c == 0) return Decline("rows without elements");
  plan->rows = request.operands[x].elements() / plan->c;
  plan->slots = request.threads;
  plan->epsilon = static_cast<float>(request.attributes->FloatOr("eps", 0));
  plan->offset = static_cast<float>(request.attributes->IntOr("offset", 0));
  return plan;
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanNorm(const KernelRequest& request) {
  absl::StatusOr<std::shared_ptr<NormPlan>> made = NewPlan(request, 0);
  if (!made.ok()) return made.status();
  std::shared_ptr<NormPlan> plan = *made;
  plan->centred = request.op->name() == "layer_norm";
  plan->weight = OptionalOperand(*request.attributes, 1, "weight");
  plan->bias = OptionalOperand(*request.attributes, 1, "bias");
  PlannedKernel planned;
  planned.workspace_bytes = plan->partial_offset() * static_cast<int64_t>(sizeof(float));
  planned.run = [plan](const KernelArgs& args) { plan->Forward(args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanNormGrad(const KernelRequest& request) {
  absl::StatusOr<std::shared_ptr<NormPlan>> made = NewPlan(request, 1);
  if (!made.ok()) return made.status();
  std::shared_ptr<NormPlan> plan = *made;
  plan->centred = request.op->name() == "layer_norm_grad";
  plan->mean = plan->centred ? 2 : -1;
  plan->rstd = plan->centred ? 3 : 2;
  plan->weight = OptionalOperand(*request.attributes, plan->rstd + 1, "weight");
  if (plan->weight >= 0) plan->dweight = 1;
  if (request.attributes->BoolOr("bias", false)) plan->dbias = plan->weight >= 0 ? 2 : 1;
  // At most 256 partial sums; their number depends on the shape alone.
  plan->block = std::max<int64_t>(32, (plan->rows + 255) / 256);
  plan->blocks = std::max<int64_t>(1, (plan->rows + plan->block - 1) / plan->block);
  PlannedKernel planned;
  planned.workspace_bytes =
      (plan->partial_offset() + 2 * plan->row_floats() * plan->blocks) *
      static_cast<int64_t>(sizeof(float));
  planned.run = [plan](const KernelArgs& args) { plan->Backward(args); };
  return planned;
}

}  // namespace colossus
