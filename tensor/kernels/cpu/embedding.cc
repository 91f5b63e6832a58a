// embedding, embedding_grad and cache_append: rows by index.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/int_view.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/row_loops.h"
#include "tensor/kernels/cpu/strided_copy.h"

namespace colossus {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements worth a thread
constexpr int64_t kLine = 16;        // floats of a cache line: threads share none
constexpr int64_t kRun = 1024;       // floats converted at once

struct EmbeddingPlan {
  int64_t rows = 0, c = 0, count = 0, origin = 0;
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

  // Each thread owns a range of columns and adds the positions in order. Columns are equally full;
  // of the rows those of frequent tokens get most positions, and they lie together.
  void Add(const KernelArgs& args) const {
    float* sums = out == DType::kF32 ? static_cast<float*>(args.results[0])
                                     : static_cast<float*>(args.workspace);
    ParallelFor(rows * c, kGrain, [&](int64_t begin, int64_t end) {
      std::memset(sums + begin, 0, sizeof(float) * (end - begin));
    });
    const int64_t columns = (c + kLine - 1) / kLine;
    const int64_t grain = std::max<int64_t>(1, kGrain / (kLine * std::max<int64_t>(1, count)));
    ParallelFor(columns, grain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * kLine; at < std::min(c, end * kLine); at += kRun) {
        AddColumns(args, at, std::min({kRun, c - at, end * kLine - at}), sums);
      }
    });
    if (out == DType::kF32) return;
    ParallelFor(rows * c, kGrain, [&](int64_t begin, int64_t end) {
      StoreRun(out, sums + begin, static_cast<char*>(args.results[0]) + begin * SizeOf(out),
               end - begin);
    });
  }

  // Columns [at, at + n), at most kRun.
  void AddColumns(const KernelArgs& args, int64_t at, int64_t n, float* sums) const {
    alignas(64) float buffer[kRun];
    const IntView id(ids, args.operands[1]);
    const char* dy = static_cast<const char*>(args.operands[0]);
    for (int64_t position = 0; position < count; ++position) {
      const int64_t row = id[position] - origin;
      if (row < 0 || row >= rows) continue;
      const char* x = dy + (position * c + at) * SizeOf(in);
      if (in != DType::kF32) LoadRun(in, x, buffer, n);
      Rows().add(in == DType::kF32 ? reinterpret_cast<const float*>(x) : buffer,
                 sums + row * c + at, n);
    }
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
  PlannedKernel planned;
  if (plan->out != DType::kF32) {
    planned.workspace_bytes = plan->rows * plan->c * static_cast<int64_t>(sizeof(float));
  }
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
