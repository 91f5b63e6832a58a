// adamw, sgd, dropout and sum_squares: flat loops in tiles of f32.
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/dropout_run.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/update_loops.h"

namespace colossus {
namespace {

constexpr int64_t kTile = 1024;
constexpr int64_t kGrain = 1 << 13;  // elements worth a thread; a multiple of kTile

const void* At(const void* data, DType dtype, int64_t i) {
  return static_cast<const char*>(data) + i * SizeOf(dtype);
}
void* At(void* data, DType dtype, int64_t i) {
  return static_cast<char*>(data) + i * SizeOf(dtype);
}

float Scalar(const KernelArgs& args, int operand) {
  return *static_cast<const float*>(args.operands[operand]);
}
const float* Floats32(const KernelArgs& args, int operand, int64_t at) {
  return static_cast<const float*>(args.operands[operand]) + at;
}
float* Result32(const KernelArgs& args, int result, int64_t at) {
  return static_cast<float*>(args.results[result]) + at;
}

// Calls fn(at, n, grad tile) tile by tile and stores the copy of result 0, if there is one.
template <class Fn>
void ForEachTile(const KernelArgs& args, int64_t elements, DType grad, int copy_result, DType copy,
                 Fn fn) {
  ParallelFor(elements, kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[kTile];
    for (int64_t at = begin; at < end; at += kTile) {
      const int64_t n = std::min(kTile, end - at);
      const float* g = Floats32(args, 1, at);
      if (grad != DType::kF32) {
        LoadRun(grad, At(args.operands[1], grad, at), buffer, n);
        g = buffer;
      }
      fn(at, n, g);
      if (copy_result < 0) continue;
      StoreRun(copy, Result32(args, 0, at), At(args.results[copy_result], copy, at), n);
    }
  });
}

absl::Status CheckUpdate(const KernelRequest& request) {
  if (request.operands[0].dtype != DType::kF32 || !IsSmallFloat(request.operands[1].dtype)) {
    return Decline("updates f32 masters only");
  }
  if (!IsSmallFloat(request.results.back().dtype)) return Decline("f64 copy");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanAdamw(const KernelRequest& request) {
  absl::Status status = CheckUpdate(request);
  if (!status.ok()) return status;
  const Attributes& a = *request.attributes;
  AdamwScalarValues base{};
  base.beta1 = static_cast<float>(a.Float("beta1"));
  base.one_minus_beta1 = static_cast<float>(1 - a.Float("beta1"));
  base.beta2 = static_cast<float>(a.Float("beta2"));
  base.one_minus_beta2 = static_cast<float>(1 - a.Float("beta2"));
  base.epsilon = static_cast<float>(a.Float("epsilon"));
  const float weight_decay = static_cast<float>(a.Float("weight_decay"));
  const int64_t elements = request.operands[0].elements();
  const DType grad = request.operands[1].dtype, copy = request.results.back().dtype;
  const int copy_result = request.results.size() > 3 ? 3 : -1;
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    AdamwScalarValues s = base;
    const float learning_rate = Scalar(args, 4), decay = learning_rate * weight_decay;
    s.grad_scale = Scalar(args, 5);
    s.decay = 1.0f - decay;
    s.step = learning_rate / Scalar(args, 6);
    s.root2 = std::sqrt(Scalar(args, 7));
    ForEachTile(args, elements, grad, copy_result, copy,
                [&](int64_t at, int64_t n, const float* g) {
      Updates().adamw(Floats32(args, 0, at), g, Floats32(args, 2, at), Floats32(args, 3, at), s,
                      Result32(args, 0, at), Result32(args, 1, at), Result32(args, 2, at), n);
    });
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanSgd(const KernelRequest& request) {
  absl::Status status = CheckUpdate(request);
  if (!status.ok()) return status;
  SgdScalarValues base{};
  base.momentum = static_cast<float>(request.attributes->Float("momentum"));
  base.weight_decay = static_cast<float>(request.attributes->Float("weight_decay"));
  const int64_t elements = request.operands[0].elements();
  const DType grad = request.operands[1].dtype, copy = request.results.back().dtype;
  const int copy_result = request.results.size() > 2 ? 2 : -1;
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    SgdScalarValues s = base;
    s.learning_rate = Scalar(args, 3);
    s.grad_scale = Scalar(args, 4);
    ForEachTile(args, elements, grad, copy_result, copy,
                [&](int64_t at, int64_t n, const float* g) {
      Updates().sgd(Floats32(args, 0, at), g, Floats32(args, 2, at), s, Result32(args, 0, at),
                    Result32(args, 1, at), n);
    });
  };
  return planned;
}

namespace {

struct DropoutPlan {
  Dims dims, origin, strides;  // strides: of the global dims
  DType dtype = DType::kF32;
  DropoutScalars scalars;

  // Runs of the last dim have consecutive elements.
  void Run(const KernelArgs& args) const {
    const int64_t first_row = *static_cast<const int64_t*>(args.operands[2]);
    const int64_t n = dims.back(), rows = n == 0 ? 0 : ElementCount(dims) / n;
    ParallelFor(rows * n, kGrain, [&](int64_t begin, int64_t end) {
      alignas(64) float buffer[kTile];
      while (begin < end) {
        const int64_t row = begin / n, column = begin % n;
        const int64_t count = std::min({kTile, n - column, end - begin});
        const float* x = static_cast<const float*>(args.operands[0]) + begin;
        float* y = static_cast<float*>(args.results[0]) + begin;
        if (dtype != DType::kF32) {
          LoadRun(dtype, At(args.operands[0], dtype, begin), buffer, count);
          x = y = buffer;
        }
        DropoutRun(scalars, args.operands[1], Element(row, column, first_row), x, y, count);
        if (dtype != DType::kF32) StoreRun(dtype, y, At(args.results[0], dtype, begin), count);
        begin += count;
      }
    });
  }

  int64_t Element(int64_t row, int64_t column, int64_t first_row) const {
    const int last = static_cast<int>(dims.size()) - 1;
    int64_t element = first_row * strides[0] + origin[last] * strides[last] + column;
    for (int d = last - 1; d >= 0; --d) {
      element += (row % dims[d] + origin[d]) * strides[d];
      row /= dims[d];
    }
    return element;
  }
};

}  // namespace

absl::StatusOr<PlannedKernel> PlanDropout(const KernelRequest& request) {
  const Attributes& a = *request.attributes;
  auto plan = std::make_shared<DropoutPlan>();
  plan->dtype = request.operands[0].dtype;
  if (!IsSmallFloat(plan->dtype)) return Decline("computes in f32 only");
  plan->dims = request.operands[0].dims;
  Dims global = plan->dims;
  plan->origin = Dims(plan->dims.size(), 0);
  for (size_t d = 0; d < plan->dims.size(); ++d) {
    if (a.Has("global")) global[d] = a.IntList("global")[d];
    if (a.Has("origin")) plan->origin[d] = a.IntList("origin")[d];
  }
  plan->strides = RowMajorStrides(global);
  plan->scalars = DropoutScalarsOf(a);
  PlannedKernel planned;
  planned.run = [plan](const KernelArgs& args) { plan->Run(args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanSumSquares(const KernelRequest& request) {
  struct Plan {
    std::vector<int64_t> first_block, elements;
    std::vector<DType> dtypes;
    int64_t blocks = 0;
  };
  auto plan = std::make_shared<Plan>();
  for (const Type& type : request.operands) {
    if (!IsSmallFloat(type.dtype)) return Decline("computes on f32 and 16-bit floats only");
    plan->first_block.push_back(plan->blocks);
    plan->elements.push_back(type.elements());
    plan->dtypes.push_back(type.dtype);
    plan->blocks += (type.elements() + kTile - 1) / kTile;
  }
  PlannedKernel planned;
  planned.workspace_bytes = plan->blocks * static_cast<int64_t>(sizeof(double));
  planned.run = [plan](const KernelArgs& args) {
    double* sums = static_cast<double*>(args.workspace);
    ParallelFor(plan->blocks, 16, [&](int64_t begin, int64_t end) {
      alignas(64) float buffer[kTile];
      size_t i = 0;
      for (int64_t block = begin; block < end; ++block) {
        while (i + 1 < plan->first_block.size() && plan->first_block[i + 1] <= block) ++i;
        const int64_t at = (block - plan->first_block[i]) * kTile;
        const int64_t n = std::min(kTile, plan->elements[i] - at);
        const DType dtype = plan->dtypes[i];
        const void* x = At(args.operands[i], dtype, at);
        if (dtype != DType::kF32) LoadRun(dtype, x, buffer, n);
        sums[block] = Updates().sum_squares_block(
            dtype == DType::kF32 ? static_cast<const float*>(x) : buffer, n);
      }
    });
    double total = 0;
    for (int64_t block = 0; block < plan->blocks; ++block) total += sums[block];
    *static_cast<double*>(args.results[0]) = total;
  };
  return planned;
}

}  // namespace colossus
