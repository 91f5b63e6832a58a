// rotary: cos and sin once per position, then every head.
#include <cstring>
#include <memory>

#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/row_buffer.h"
#include "tensor/kernels/cpu/row_loops.h"

namespace colossus {
namespace {

struct RotaryPlan {
  DType dtype = DType::kF32;
  int64_t rows = 0, h = 0, d = 0, half = 0, slots = 1;
  float scale = 1;
  bool interleaved = false, inverse = false;

  int64_t table_floats() const { return PaddedFloats(half); }
  int64_t row_floats() const { return PaddedFloats(h * d); }
  int64_t slot_floats() const { return 2 * table_floats() + 2 * row_floats(); }

  void Run(const KernelArgs& args) const {
    const int32_t* positions = static_cast<const int32_t*>(args.operands[1]);
    const float* frequencies = static_cast<const float*>(args.operands[2]);
    ParallelSlots(slots, rows, 4, [&](int64_t slot, int64_t begin, int64_t end) {
      float* cosine = static_cast<float*>(args.workspace) + slot * slot_floats();
      float* sine = cosine + table_floats();
      float* buffer = sine + table_floats();
      for (int64_t row = begin; row < end; ++row) {
        Rows().angles(static_cast<float>(positions[row]), frequencies, scale, cosine, sine, half);
        for (int64_t i = 0; inverse && i < half; ++i) sine[i] = -sine[i];
        const float* x = RowIn(dtype, args.operands[0], row, h * d, buffer);
        float* y = RowOut(dtype, args.results[0], row, h * d, buffer + row_floats());
        for (int64_t at = 0; at < h * d; at += d) RotateHead(x + at, cosine, sine, y + at);
        Finish(dtype, args.results[0], row, h * d, y);
      }
    });
  }

  void RotateHead(const float* x, const float* cosine, const float* sine, float* y) const {
    const int64_t second = interleaved ? 1 : half, stride = interleaved ? 2 : 1;
    Rows().rotate(x, x + second, cosine, sine, y, y + second, half, stride);
    if (x != y) std::memcpy(y + 2 * half, x + 2 * half, sizeof(float) * (d - 2 * half));
  }
};

}  // namespace

absl::StatusOr<PlannedKernel> PlanRotary(const KernelRequest& request) {
  auto plan = std::make_shared<RotaryPlan>();
  const Dims& dims = request.operands[0].dims;
  plan->dtype = request.operands[0].dtype;
  if (!IsSmallFloat(plan->dtype)) return Decline("computes in f32 only");
  plan->rows = dims[0] * dims[1];
  plan->h = dims[2];
  plan->d = dims[3];
  plan->half = request.operands[2].dims[0];
  plan->slots = request.threads;
  plan->scale = static_cast<float>(request.attributes->FloatOr("scale", 1));
  plan->interleaved = request.attributes->BoolOr("interleaved", false);
  plan->inverse = request.attributes->BoolOr("inverse", false);
  PlannedKernel planned;
  planned.workspace_bytes =
      plan->slots * plan->slot_floats() * static_cast<int64_t>(sizeof(float));
  planned.run = [plan](const KernelArgs& args) { plan->Run(args); };
  return planned;
}

}  // namespace colossus
