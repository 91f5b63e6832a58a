// adamw, sgd, dropout and sum_squares: flat loops in tiles of f32.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/dropout_run.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/update_loops.h"
#include "tensor/ops/element_segments.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/sum_squares.h"

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

const float* Floats32(const KernelArgs& args, int operand, int64_t at) {
  return static_cast<const float*>(args.operands[operand]) + at;
}
float* Result32(const KernelArgs& args, int result, int64_t at) {
  return static_cast<float*>(args.results[result]) + at;
}

// Several tensors as one row of blocks of kTile elements. Each tensor begins a block, so that a
// block is of one tensor, whatever its neighbours are; small tensors need no loop of their own.
class BlockRow {
 public:
  void Add(int64_t elements) {
    first_block_.push_back(blocks_);
    elements_.push_back(elements);
    blocks_ += (elements + kTile - 1) / kTile;
  }
  int64_t blocks() const { return blocks_; }

  // Calls fn(block, tensor, at, n) for the elements [at, at + n) of each block, on the threads of
  // the rank; `grain` as ParallelFor's, in blocks.
  template <class Fn>
  void ForEach(int64_t grain, Fn fn) const {
    ParallelFor(blocks_, grain, [&](int64_t begin, int64_t end) {
      size_t i = 0;
      for (int64_t block = begin; block < end; ++block) {
        while (i + 1 < first_block_.size() && first_block_[i + 1] <= block) ++i;
        const int64_t at = (block - first_block_[i]) * kTile;
        fn(block, i, at, std::min(kTile, elements_[i] - at));
      }
    });
  }

 private:
  std::vector<int64_t> first_block_, elements_;
  int64_t blocks_ = 0;
};

// The parameters of an update, and a block of one of them.
class UpdatePlan {
 public:
  struct Block {
    const KernelArgs& args;
    int x, y;  // first operand and result of the parameter
    int64_t at, n;
    const float* grad;
    float weight_decay;
    float (*narrow)[kTile] = nullptr;  // of bf16 moments: their values in f32

    const float* In(int i) const {
      return i >= 2 && narrow != nullptr ? narrow[i - 2] : Floats32(args, x + i, at);
    }
    float* Out(int i) const {
      return i >= 1 && narrow != nullptr ? narrow[i - 1] : Result32(args, y + i, at);
    }
  };

  // `moments`: of each parameter.
  UpdatePlan(const KernelRequest& request, int moments)
      : moments_(moments),
        narrow_(HasNarrowMoments(*request.attributes)),
        runs_(*request.attributes) {
    for (double decay : request.attributes->FloatList("weight_decay")) {
      decay_.push_back(static_cast<float>(decay));
      const size_t grad = (decay_.size() - 1) * static_cast<size_t>(2 + moments) + 1;
      grad_.push_back(request.operands[grad].dtype);
      row_.Add(request.operands[grad].elements());
    }
    results_ = static_cast<int>(request.results.size() / decay_.size());
    copy_ = request.results.back().dtype;
    key_ = request.operands.size() - 1;
  }

  float Scalar(const KernelArgs& args, int i) const {
    return *Floats32(args, static_cast<int>(decay_.size()) * (2 + moments_) + i, 0);
  }

  // Calls fn(block) for every block, then stores its copy, if there is one.
  template <class Fn>
  void ForEach(const KernelArgs& args, Fn fn) const {
    row_.ForEach(kGrain / kTile, [&](int64_t, size_t p, int64_t at, int64_t n) {
      alignas(64) float buffer[kTile];
      const int x = static_cast<int>(p) * (2 + moments_), y = static_cast<int>(p) * results_;
      Block block{args, x, y, at, n, buffer, decay_[p]};
      if (grad_[p] == DType::kF32) block.grad = block.In(1);
      else LoadRun(grad_[p], At(args.operands[x + 1], grad_[p], at), buffer, n);
      alignas(64) float moment_values[2][kTile];
      if (narrow_) LoadMoments(block, moment_values);
      fn(block);
      if (narrow_) StoreMoments(block, static_cast<int>(p));
      const int copy = 1 + moments_;
      if (results_ <= copy) return;
      StoreRun(copy_, block.Out(0), At(args.results[y + copy], copy_, at), n);
    });
  }

 private:
  void LoadMoments(Block& block, float (*values)[kTile]) const {
    block.narrow = values;
    for (int i = 0; i < moments_; ++i) {
      const void* from = At(block.args.operands[block.x + 2 + i], DType::kBF16, block.at);
      LoadRun(DType::kBF16, from, values[i], block.n);
    }
  }

  void StoreMoments(const Block& block, int parameter) const {
    const int64_t* words = static_cast<const int64_t*>(block.args.operands[key_]);
    const RandomKey key{static_cast<uint64_t>(words[0]), static_cast<uint64_t>(words[1])};
    alignas(64) uint32_t bits[kTile] = {};
    runs_.ForEach(parameter, block.at, block.at + block.n,
                  [&](int64_t at, int64_t count, uint64_t site, uint64_t element) {
                    Updates().random_bits(key, site, element, bits + (at - block.at), count);
                  });
    for (int i = 0; i < moments_; ++i) {
      BF16* to = static_cast<BF16*>(block.args.results[block.y + 1 + i]) + block.at;
      (i == 0 ? Updates().round_low : Updates().round_high)(block.narrow[i], bits, to, block.n);
    }
  }

  int moments_, results_ = 0;
  bool narrow_;
  size_t key_ = 0;  // operand
  ElementRuns runs_;
  DType copy_ = DType::kF32;
  std::vector<float> decay_;
  std::vector<DType> grad_;
  BlockRow row_;
};

absl::Status CheckUpdate(const KernelRequest& request) {
  if (request.operands[0].dtype != DType::kF32) return Decline("updates f32 masters only");
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
  PlannedKernel planned;
  planned.run = [base, plan = UpdatePlan(request, 2)](const KernelArgs& args) {
    const float learning_rate = plan.Scalar(args, 0);
    AdamwScalarValues shared = base;
    shared.grad_scale = plan.Scalar(args, 1);
    shared.step = learning_rate / plan.Scalar(args, 2);
    shared.root2 = std::sqrt(plan.Scalar(args, 3));
    plan.ForEach(args, [&](const UpdatePlan::Block& block) {
      AdamwScalarValues s = shared;
      s.decay = 1.0f - learning_rate * block.weight_decay;
      Updates().adamw(block.In(0), block.grad, block.In(2), block.In(3), s, block.Out(0),
                      block.Out(1), block.Out(2), block.n);
    });
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanSgd(const KernelRequest& request) {
  absl::Status status = CheckUpdate(request);
  if (!status.ok()) return status;
  SgdScalarValues base{};
  base.momentum = static_cast<float>(request.attributes->Float("momentum"));
  PlannedKernel planned;
  planned.run = [base, plan = UpdatePlan(request, 1)](const KernelArgs& args) {
    SgdScalarValues shared = base;
    shared.learning_rate = plan.Scalar(args, 0);
    shared.grad_scale = plan.Scalar(args, 1);
    plan.ForEach(args, [&](const UpdatePlan::Block& block) {
      SgdScalarValues s = shared;
      s.weight_decay = block.weight_decay;
      Updates().sgd(block.In(0), block.grad, block.In(2), s, block.Out(0), block.Out(1), block.n);
    });
  };
  return planned;
}

namespace {

struct DropoutPlan {
  Dims dims, origin, strides;  // strides: of the global dims
  DType dtype = DType::kF32;
  DropoutScalars scalars;
  bool positions = false;  // of dim 1: operand 3

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
        DropoutRun(scalars, args.operands[1], Element(args, row, column, first_row), x, y, count);
        if (dtype != DType::kF32) StoreRun(dtype, y, At(args.results[0], dtype, begin), count);
        begin += count;
      }
    });
  }

  int64_t Element(const KernelArgs& args, int64_t row, int64_t column, int64_t first_row) const {
    const int last = static_cast<int>(dims.size()) - 1;
    int64_t element = first_row * strides[0] + origin[last] * strides[last] + column;
    for (int d = last - 1; d >= 0; --d) {
      const bool given = d == 1 && positions;
      element += strides[d] * (given ? static_cast<const int32_t*>(args.operands[3])[row]
                                     : row % dims[d] + origin[d]);
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
  plan->positions = request.operands.size() == 4;
  PlannedKernel planned;
  planned.run = [plan](const KernelArgs& args) { plan->Run(args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanSumSquares(const KernelRequest& request) {
  std::vector<DType> dtypes;
  BlockRow row;
  const size_t first = ContinuesTotal(*request.attributes) ? 1 : 0;
  for (size_t i = first; i < request.operands.size(); ++i) {
    const Type& type = request.operands[i];
    if (!IsSmallFloat(type.dtype)) return Decline("computes on f32 and 16-bit floats only");
    dtypes.push_back(type.dtype);
    row.Add(type.elements());
  }
  PlannedKernel planned;
  planned.workspace_bytes = row.blocks() * static_cast<int64_t>(sizeof(double));
  planned.run = [dtypes, row, first](const KernelArgs& args) {
    double* sums = static_cast<double*>(args.workspace);
    row.ForEach(16, [&](int64_t block, size_t i, int64_t at, int64_t n) {
      alignas(64) float buffer[kTile];
      const void* x = At(args.operands[first + i], dtypes[i], at);
      if (dtypes[i] != DType::kF32) LoadRun(dtypes[i], x, buffer, n);
      sums[block] = Updates().sum_squares_block(
          dtypes[i] == DType::kF32 ? static_cast<const float*>(x) : buffer, n);
    });
    double total = first == 1 ? *static_cast<const double*>(args.operands[0]) : 0;
    for (int64_t block = 0; block < row.blocks(); ++block) total += sums[block];
    *static_cast<double*>(args.results[0]) = total;
  };
  return planned;
}

}  // namespace colossus
