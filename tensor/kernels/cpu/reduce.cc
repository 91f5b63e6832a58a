// reduce_sum and reduce_max over neighbouring dims: x is [outer, reduced, inner].
//
// The reduced extent is cut into blocks whose size depends on the shape alone; blocks are reduced
// in parallel and combined in order.
#include <limits>
#include <memory>
#include <vector>

#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/row_buffer.h"
#include "tensor/kernels/cpu/row_loops.h"

namespace colossus {
namespace {

constexpr int64_t kMaxBlocks = 256;

struct ReducePlan {
  bool sum = true;
  int64_t outer = 1, reduced = 1, inner = 1;
  int64_t block = 1, blocks = 1, slots = 1;
  DType in = DType::kF32, out = DType::kF32;

  int64_t row_floats() const { return PaddedFloats(RowLength()); }
  // What is loaded at once: a row of `inner`, or a block where the last dim is reduced.
  int64_t RowLength() const { return inner == 1 ? block : inner; }
  float start() const { return sum ? 0.0f : -std::numeric_limits<float>::infinity(); }

  const float* Load(const KernelArgs& args, int64_t offset, int64_t n, float* buffer) const {
    const char* x = static_cast<const char*>(args.operands[0]) + offset * SizeOf(in);
    return RowIn(in, x, 0, n, buffer);
  }

  // Block `b` of outer index `o` into `y` (inner floats).
  void ReduceBlock(const KernelArgs& args, int64_t o, int64_t b, float* y, float* buffer) const {
    const int64_t begin = b * block, end = std::min(reduced, begin + block);
    if (inner == 1) {
      const float* x = Load(args, o * reduced + begin, end - begin, buffer);
      y[0] = sum ? Rows().sum(x, end - begin) : Rows().max(x, end - begin);
      return;
    }
    std::fill(y, y + inner, start());
    for (int64_t r = begin; r < end; ++r) {
      const float* x = Load(args, (o * reduced + r) * inner, inner, buffer);
      if (sum) Rows().add(x, y, inner);
      else Rows().raise(x, y, inner);
    }
  }

  void Run(const KernelArgs& args) const {
    float* partial = static_cast<float*>(args.workspace);  // [outer, blocks, inner]
    float* buffers = partial + outer * blocks * inner;
    const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, block * inner));
    ParallelSlots(slots, outer * blocks, grain, [&](int64_t slot, int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        ReduceBlock(args, unit / blocks, unit % blocks, partial + unit * inner,
                    buffers + slot * row_floats());
      }
    });
    ParallelFor(outer * inner, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* x = partial + i / inner * blocks * inner + i % inner;
        double value = start();
        for (int64_t b = 0; b < blocks; ++b) {
          value = sum ? value + x[b * inner] : std::max<double>(value, x[b * inner]);
        }
        partial[i / inner * blocks * inner + i % inner] = static_cast<float>(value);
      }
    });
    for (int64_t o = 0; o < outer; ++o) {
      char* y = static_cast<char*>(args.results[0]) + o * inner * SizeOf(out);
      StoreRun(out, partial + o * blocks * inner, y, inner);
    }
  }
};

// Fills outer, reduced, inner; false if the reduced dims are not neighbours.
bool Shape(const Dims& dims, const Ints& reduced, ReducePlan& plan) {
  std::vector<bool> is_reduced(dims.size(), false);
  for (int64_t d : reduced) is_reduced[d] = true;
  int part = 0;  // 0: outer, 1: reduced, 2: inner
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (is_reduced[d] && part == 0) part = 1;
    if (!is_reduced[d] && part == 1) part = 2;
    if (is_reduced[d] && part == 2) return false;
    (part == 0 ? plan.outer : part == 1 ? plan.reduced : plan.inner) *= dims[d];
  }
  return true;
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanReduce(const KernelRequest& request) {
  auto plan = std::make_shared<ReducePlan>();
  plan->in = request.operands[0].dtype;
  plan->out = request.results[0].dtype;
  if (!IsSmallFloat(plan->in) || !IsSmallFloat(plan->out)) return Decline("computes in f32 only");
  if (request.operands[0].elements() == 0) return Decline("nothing to reduce");
  if (!Shape(request.operands[0].dims, request.attributes->IntList("dims"), *plan)) {
    return Decline("the reduced dims are not neighbours");
  }
  plan->sum = request.op->name() == "reduce_sum";
  plan->slots = request.threads;
  const int64_t least = plan->inner == 1 ? 4096 : 64;
  plan->block = std::max(least, (plan->reduced + kMaxBlocks - 1) / kMaxBlocks);
  plan->block = std::min(plan->block, plan->reduced);
  plan->blocks = (plan->reduced + plan->block - 1) / plan->block;
  PlannedKernel planned;
  planned.workspace_bytes =
      (plan->outer * plan->blocks * plan->inner + plan->slots * plan->row_floats()) *
      static_cast<int64_t>(sizeof(float));
  planned.run = [plan](const KernelArgs& args) { plan->Run(args); };
  return planned;
}

}  // namespace colossus
