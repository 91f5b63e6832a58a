// Pointwise ops and conversions: runs of f32, with 16-bit operands loaded into small tiles.
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "base/check.h"
#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/isa.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/pointwise_loops.h"
#include "tensor/kernels/cpu/strided_copy.h"

namespace colossus {

const PointwiseRun* FindPointwiseRun(absl::string_view op) {
  const PointwiseTable& table = PickIsa(isa_v2::kPointwiseTable, isa_v3::kPointwiseTable,
                                        isa_v4::kPointwiseTable);
  for (int i = 0; i < table.count; ++i) {
    if (op == table.runs[i].op) return &table.runs[i];
  }
  return nullptr;
}

namespace {

constexpr int64_t kTile = 512;       // elements; three operands and the result stay in L1
constexpr int64_t kGrain = 1 << 13;  // elements worth a thread

struct Input {
  DType dtype = DType::kF32;
  Dims strides;           // per outer dim, in elements; 0 repeats
  bool repeats = false;   // within the inner run
};

// The result is rows of `inner` elements, in which each operand is dense or one value.
struct PointwisePlan {
  const PointwiseRun* run = nullptr;
  float attribute = 0;
  Dims outer;
  int64_t inner = 1, elements = 0;
  int arity = 0;
  std::array<Input, 3> inputs;
  DType result = DType::kF32;

  // Elements [begin, end) of row `row`.
  void RunRow(const KernelArgs& args, int64_t row, int64_t begin, int64_t end) const {
    std::array<int64_t, 3> base = {};
    int64_t index = row;
    for (int d = static_cast<int>(outer.size()) - 1; d >= 0; --d) {
      for (int i = 0; i < arity; ++i) base[i] += index % outer[d] * inputs[i].strides[d];
      index /= outer[d];
    }
    alignas(64) float tiles[4][kTile];
    for (int i = 0; i < arity; ++i) {
      if (!inputs[i].repeats) continue;
      LoadRun(inputs[i].dtype, At(args.operands[i], inputs[i].dtype, base[i]), tiles[i], 1);
      std::fill(tiles[i] + 1, tiles[i] + std::min(kTile, end - begin), tiles[i][0]);
    }
    for (int64_t at = begin; at < end; at += kTile) {
      const int64_t n = std::min(kTile, end - at);
      std::array<const float*, 3> x;
      for (int i = 0; i < arity; ++i) {
        const void* source = At(args.operands[i], inputs[i].dtype, base[i] + at);
        if (!inputs[i].repeats && inputs[i].dtype == DType::kF32) {
          x[i] = static_cast<const float*>(source);
          continue;
        }
        x[i] = tiles[i];
        if (!inputs[i].repeats) LoadRun(inputs[i].dtype, source, tiles[i], n);
      }
      for (int i = arity; i < 3; ++i) x[i] = x[0];
      char* y = static_cast<char*>(args.results[0]) + (row * inner + at) * SizeOf(result);
      float* out = result == DType::kF32 ? reinterpret_cast<float*>(y) : tiles[3];
      run->function(x[0], x[1], x[2], out, n, attribute);
      if (result != DType::kF32) StoreRun(result, out, y, n);
    }
  }

  static const void* At(const void* data, DType dtype, int64_t i) {
    return static_cast<const char*>(data) + i * SizeOf(dtype);
  }

  void Run(const KernelArgs& args) const {
    ParallelFor(elements, std::max<int64_t>(kGrain, 1), [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t row = begin / inner, column = begin % inner;
        const int64_t stop = std::min(inner, column + (end - begin));
        RunRow(args, row, column, stop);
        begin += stop - column;
      }
    });
  }
};

// Right-aligned strides of an operand over the result's dims; 0 where it repeats.
Dims BroadcastStrides(const Type& operand, const Dims& result) {
  Dims strides(result.size(), 0);
  int64_t stride = 1;
  for (size_t d = operand.dims.size(), r = result.size(); d-- > 0;) {
    --r;
    if (operand.dims[d] != 1) strides[r] = stride;
    stride *= operand.dims[d];
  }
  return strides;
}

// Merges dims from the last outwards into `inner`, then neighbouring outer dims.
void MergeDims(const KernelRequest& request, PointwisePlan& plan) {
  const Dims& dims = request.results[0].dims;
  std::array<Dims, 3> strides;
  for (int i = 0; i < plan.arity; ++i) strides[i] = BroadcastStrides(request.operands[i], dims);
  Dims merged;  // outermost last, while built
  std::array<Dims, 3> merged_strides;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1) continue;
    bool joins = !merged.empty();
    for (int i = 0; joins && i < plan.arity; ++i) {
      joins = strides[i][d] == merged_strides[i].back() * merged.back();
    }
    if (joins) {
      merged.back() *= dims[d];
      continue;
    }
    merged.push_back(dims[d]);
    for (int i = 0; i < plan.arity; ++i) merged_strides[i].push_back(strides[i][d]);
  }
  if (merged.empty()) {
    merged.push_back(1);
    for (int i = 0; i < plan.arity; ++i) merged_strides[i].push_back(0);
  }
  plan.inner = merged[0];
  for (int i = 0; i < plan.arity; ++i) plan.inputs[i].repeats = merged_strides[i][0] == 0;
  for (size_t d = merged.size(); d-- > 1;) {
    plan.outer.push_back(merged[d]);
    for (int i = 0; i < plan.arity; ++i) plan.inputs[i].strides.push_back(merged_strides[i][d]);
  }
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanPointwise(const KernelRequest& request) {
  auto plan = std::make_shared<PointwisePlan>();
  plan->run = FindPointwiseRun(request.op->name());
  if (plan->run == nullptr) return Decline("no fast loop");
  if (request.operands.size() > 3) return Decline("more than three operands");
  auto supported = [](DType dtype) { return IsSmallFloat(dtype) || dtype == DType::kBool; };
  plan->arity = static_cast<int>(request.operands.size());
  plan->result = request.results[0].dtype;
  plan->elements = request.results[0].elements();
  if (!supported(plan->result)) return Decline("computes in f32 only");
  for (int i = 0; i < plan->arity; ++i) {
    plan->inputs[i].dtype = request.operands[i].dtype;
    if (!supported(plan->inputs[i].dtype)) return Decline("computes in f32 only");
  }
  for (const char* name : {"factor", "value"}) {
    if (request.attributes->HasType<double>(name)) {
      plan->attribute = static_cast<float>(request.attributes->Float(name));
    }
  }
  MergeDims(request, *plan);
  PlannedKernel planned;
  planned.run = [plan](const KernelArgs& args) { plan->Run(args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanConvert(const KernelRequest& request) {
  const DType src = request.operands[0].dtype, dst = request.results[0].dtype;
  if (!StridedCopy::Supports(src, dst)) return Decline("converts f32, bf16 and f16 only");
  const int64_t n = request.results[0].elements();
  PlannedKernel planned;
  planned.run = [copy = StridedCopy({n}, {1}, src, {1}, dst)](const KernelArgs& args) {
    copy.Run(args.operands[0], args.results[0]);
  };
  return planned;
}

}  // namespace colossus
