// embedding, embedding_grad and cache_append: rows by index.
#include <cstring>
#include <limits>
#include <memory>

#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/int_view.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/row_buffer.h"
#include "tensor/kernels/cpu/row_loops.h"
#include "tensor/kernels/cpu/strided_copy.h"

namespace colossus {
namespace {

struct EmbeddingPlan {
  int64_t rows = 0, c = 0, count = 0, origin = 0, slots = 1;
  bool part = false;  // of a larger table: other ids give zeros
  DType ids = DType::kI32, in = DType::kF32, out = DType::kF32;

  void Lookup(const KernelArgs& args) const {
    IntView id(ids, args.operands[1]);
    const char* table = static_cast<const char*>(args.operands[0]);
    char* y = static_cast<char*>(args.results[0]);
    const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, c));
    ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const int64_t row = id[n] - origin;
        char* target = y + n * c * SizeOf(out);
        if (row >= 0 && row < rows) {
          ConvertRun(in, table + row * c * SizeOf(in), out, target, c);
          continue;
        }
        double outside = part ? 0 : std::numeric_limits<double>::quiet_NaN();
        for (int64_t j = 0; j < c; ++j) StoreFromDouble(out, target, j, outside);
      }
    });
  }

  // Each thread owns a range of table rows and adds their positions in order.
  void Add(const KernelArgs& args) const {
    IntView id(ids, args.operands[1]);
    float* sums = out == DType::kF32 ? static_cast<float*>(args.results[0])
                                     : static_cast<float*>(args.workspace);
    float* buffers = static_cast<float*>(args.workspace) + (out == DType::kF32 ? 0 : rows * c);
    ParallelSlots(slots, rows, 1, [&](int64_t slot, int64_t begin, int64_t end) {
      float* buffer = buffers + slot * c;
      std::memset(sums + begin * c, 0, sizeof(float) * (end - begin) * c);
      for (int64_t n = 0; n < count; ++n) {
        const int64_t row = id[n] - origin;
        if (row < begin || row >= end) continue;
        Rows().add(RowIn(in, args.operands[0], n, c, buffer), sums + row * c, c);
      }
      if (out == DType::kF32) return;
      StoreRun(out, sums + begin * c, static_cast<char*>(args.results[0]) + begin * c * SizeOf(out),
               (end - begin) * c);
    });
  }
};

}  // namespace

absl::StatusOr<PlannedKernel> PlanEmbedding(const KernelRequest& request) {
  auto plan = std::make_shared<EmbeddingPlan>();
  plan->in = request.operands[0].dtype;
  plan->out = request.results[0].dtype;
  if (!StridedCopy::Supports(plan->in, plan->out)) return Decline("converts small floats only");
  plan->ids = request.operands[1].dtype;
  plan->rows = request.operands[0].dims[0];
  plan->c = request.operands[0].dims[1];
  plan->count = request.operands[1].elements();
  plan->part = request.attributes->Has("origin");
  plan->origin = request.attributes->IntOr("origin", 0);
  PlannedKernel planned;
  planned.run = [plan](const KernelArgs& args) { plan->Lookup(args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanEmbeddingGrad(const KernelRequest& request) {
  auto plan = std::make_shared<EmbeddingPlan>();
  plan->in = request.operands[0].dtype;
  plan->out = request.results[0].dtype;
  if (!IsSmallFloat(plan->in) || !IsSmallFloat(plan->out)) return Decline("computes in f32 only");
  plan->ids = request.operands[1].dtype;
  plan->rows = request.results[0].dims[0];
  plan->c = request.results[0].dims[1];
  plan->count = request.operands[1].elements();
  plan->origin = request.attributes->IntOr("origin", 0);
  plan->slots = request.threads;
  PlannedKernel planned;
  planned.workspace_bytes =
      ((plan->out == DType::kF32 ? 0 : plan->rows * plan->c) + plan->slots * plan->c) *
      static_cast<int64_t>(sizeof(float));
  planned.run = [plan](const KernelArgs& args) { plan->Add(args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanCacheAppend(const KernelRequest& request) {
  const Dims& cache = request.operands[0].dims;
  const int64_t size = SizeOf(request.operands[0].dtype);
  const int64_t b = cache[0], t = cache[1], width = cache[2] * cache[3] * size;
  const int64_t s = request.operands[1].dims[1], bytes = request.operands[0].bytes();
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    char* y = static_cast<char*>(args.results[0]);
    if (args.operands[0] != y && bytes > 0) std::memcpy(y, args.operands[0], bytes);
    for (int64_t i = 0; i < b; ++i) {
      const int64_t length = static_cast<const int32_t*>(args.operands[2])[i];
      for (int64_t row = 0; row < s; ++row) {
        if (length + row < 0 || length + row >= t) continue;
        std::memcpy(y + (i * t + length + row) * width,
                    static_cast<const char*>(args.operands[1]) + (i * s + row) * width, width);
      }
    }
  };
  return planned;
}

}  // namespace colossus
