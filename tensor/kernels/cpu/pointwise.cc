// Pointwise ops, chains of them and conversions: runs of f32, tile by tile, so that what passes
// from one op of a chain to the next stays near the core.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/dropout_run.h"
#include "tensor/kernels/cpu/isa.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/pointwise_loops.h"
#include "tensor/kernels/cpu/strided_copy.h"
#include "tensor/ops/chain.h"

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

constexpr int64_t kTile = 512;       // elements; those of a few values stay in L1
constexpr int64_t kGrain = 1 << 13;  // elements worth a thread
constexpr int kMaxValues = kMaxChainOperands + kMaxChainSteps;

struct Input {
  DType dtype = DType::kF32;
  bool scalars = false;   // dropout's: read once, no part of the iteration space
  Dims strides;           // per outer dim, in elements; 0 repeats
  bool repeats = false;   // within the inner run

  bool in_place() const { return !repeats && !scalars && dtype == DType::kF32; }
};

// One op of the chain. Its result is f32 while the tile is near, rounded to `dtype` if a later step
// reads it.
struct Step {
  const PointwiseRun* run = nullptr;  // nullptr: a conversion or dropout
  bool drops = false;                 // values: x, key, first row
  DropoutScalars dropout;
  float attribute = 0;
  std::array<int, 3> values = {};  // those the op lacks repeat the first
  DType dtype = DType::kF32;
  bool read = false;    // by a later step
  bool copies = false;  // converts what lies in place, over which a result may be stored
  int result = -1;      // of the chain; -1: stays inside
};

// Results are rows of `inner` elements, in which each operand is dense or one value. Value i is
// operand i, then the steps follow.
struct ChainPlan {
  Dims outer;
  int64_t inner = 1, elements = 0;
  std::vector<Input> inputs;
  std::vector<Step> steps;
  // From this step on results may be stored: no later one reads an operand in place, over which a
  // result may lie.
  int stores_from = 0;
  int64_t row_elements = 0;  // of the leading dim

  struct Tiles {
    alignas(64) float data[kMaxValues][kTile];
    std::array<const float*, kMaxValues> values;  // where each value of the running tile is
  };

  void Run(const KernelArgs& args) const {
    ParallelFor(elements, kGrain, [&](int64_t begin, int64_t end) {
      Tiles tiles;
      while (begin < end) {
        const int64_t row = begin / inner, column = begin % inner;
        const int64_t stop = std::min(inner, column + (end - begin));
        RunRow(args, row, column, stop, tiles);
        begin += stop - column;
      }
    });
  }

  // Elements [begin, end) of row `row`.
  void RunRow(const KernelArgs& args, int64_t row, int64_t begin, int64_t end,
              Tiles& tiles) const {
    std::array<const char*, kMaxChainOperands> sources;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Input& input = inputs[i];
      sources[i] = static_cast<const char*>(args.operands[i]) + Base(input, row) * Size(input);
      if (!input.repeats || input.scalars) continue;
      float* tile = tiles.data[i];
      LoadRun(input.dtype, sources[i], tile, 1);
      std::fill(tile + 1, tile + std::min(kTile, end - begin), tile[0]);
      tiles.values[i] = tile;
    }
    for (int64_t at = begin; at < end; at += kTile) {
      const int64_t n = std::min(kTile, end - at);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].repeats || inputs[i].scalars) continue;
        const char* source = sources[i] + at * Size(inputs[i]);
        tiles.values[i] = inputs[i].in_place() ? reinterpret_cast<const float*>(source)
                                               : tiles.data[i];
        if (!inputs[i].in_place()) LoadRun(inputs[i].dtype, source, tiles.data[i], n);
      }
      RunTile(args, row * inner + at, n, tiles);
    }
  }

  // n elements from element `at` of the results.
  void RunTile(const KernelArgs& args, int64_t at, int64_t n, Tiles& tiles) const {
    const int count = static_cast<int>(steps.size());
    for (int s = 0; s < count; ++s) {
      const Step& step = steps[s];
      const bool stores = step.result >= 0 && s >= stores_from;
      float* tile = tiles.data[inputs.size() + s];
      if (stores && step.dtype == DType::kF32) tile = static_cast<float*>(Result(args, step, at));
      tiles.values[inputs.size() + s] = Compute(args, step, tiles, at, tile, n);
      if (stores) Store(args, step, at, tiles.values[inputs.size() + s], n);
    }
    for (int s = 0; s < std::min(stores_from, count); ++s) {
      if (steps[s].result < 0) continue;
      Store(args, steps[s], at, tiles.values[inputs.size() + s], n);
    }
  }

  // Where the value of the step is: `tile`, or where it was already.
  const float* Compute(const KernelArgs& args, const Step& step, const Tiles& tiles, int64_t at,
                       float* tile, int64_t n) const {
    const float* x = tiles.values[step.values[0]];
    if (step.drops) {
      const int64_t first_row = *static_cast<const int64_t*>(args.operands[step.values[2]]);
      DropoutRun(step.dropout, args.operands[step.values[1]], first_row * row_elements + at, x,
                 tile, n);
      x = tile;
    } else if (step.run != nullptr) {
      step.run->function(x, tiles.values[step.values[1]], tiles.values[step.values[2]], tile, n,
                         step.attribute);
      x = tile;
    }
    const bool narrow = step.dtype == DType::kBF16 || step.dtype == DType::kF16;
    if (narrow && (step.read || step.copies)) RoundRun(step.dtype, x, tile, n);
    else if (step.copies) std::copy(x, x + n, tile);
    else return x;
    return tile;
  }

  static void Store(const KernelArgs& args, const Step& step, int64_t at, const float* x,
                    int64_t n) {
    void* y = Result(args, step, at);
    if (x != y) StoreRun(step.dtype, x, y, n);
  }

  static void* Result(const KernelArgs& args, const Step& step, int64_t at) {
    return static_cast<char*>(args.results[step.result]) + at * SizeOf(step.dtype);
  }

  static int64_t Size(const Input& input) { return SizeOf(input.dtype); }

  // The first element of row `row`.
  int64_t Base(const Input& input, int64_t row) const {
    int64_t base = 0;
    for (int d = static_cast<int>(outer.size()) - 1; d >= 0; --d) {
      base += row % outer[d] * input.strides[d];
      row /= outer[d];
    }
    return base;
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
void MergeDims(const KernelRequest& request, ChainPlan& plan) {
  const Dims& dims = request.results[0].dims;
  const size_t arity = request.operands.size();
  std::vector<Dims> strides, merged_strides(arity);
  for (size_t i = 0; i < arity; ++i) {
    strides.push_back(plan.inputs[i].scalars ? Dims(dims.size(), 0)
                                             : BroadcastStrides(request.operands[i], dims));
  }
  Dims merged;  // outermost last, while built
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1) continue;
    bool joins = !merged.empty();
    for (size_t i = 0; joins && i < arity; ++i) {
      joins = strides[i][d] == merged_strides[i].back() * merged.back();
    }
    if (joins) {
      merged.back() *= dims[d];
      continue;
    }
    merged.push_back(dims[d]);
    for (size_t i = 0; i < arity; ++i) merged_strides[i].push_back(strides[i][d]);
  }
  if (merged.empty()) {
    merged.push_back(1);
    for (Dims& of_input : merged_strides) of_input.push_back(0);
  }
  plan.inner = merged[0];
  for (size_t i = 0; i < arity; ++i) plan.inputs[i].repeats = merged_strides[i][0] == 0;
  for (size_t d = merged.size(); d-- > 1;) {
    plan.outer.push_back(merged[d]);
    for (size_t i = 0; i < arity; ++i) plan.inputs[i].strides.push_back(merged_strides[i][d]);
  }
}

bool Supported(DType dtype) { return IsSmallFloat(dtype) || dtype == DType::kBool; }

absl::Status AddStep(const ChainStep& step, DType dtype, ChainPlan& plan) {
  Step added;
  added.dtype = dtype;
  if (!Supported(dtype)) return Decline("computes in f32 only");
  added.run = FindPointwiseRun(step.op->name());
  added.drops = step.op->name() == "dropout";
  const bool converts = step.op->name() == "convert" && dtype != DType::kBool;
  if (added.run == nullptr && !added.drops && !converts) return Decline("no fast loop");
  if (added.drops) added.dropout = DropoutScalarsOf(step.attributes);
  if (step.values.size() > 3) return Decline("more than three operands");
  for (size_t i = 0; i < 3; ++i) added.values[i] = step.values[i < step.values.size() ? i : 0];
  for (const char* name : {"factor", "value"}) {
    if (step.attributes.HasType<double>(name)) {
      added.attribute = static_cast<float>(step.attributes.Float(name));
    }
  }
  for (int value : step.values) {
    const int producer = value - static_cast<int>(plan.inputs.size());
    if (producer >= 0) plan.steps[producer].read = true;
    else if (plan.inputs[value].in_place()) plan.stores_from = static_cast<int>(plan.steps.size());
  }
  const size_t source = static_cast<size_t>(step.values[0]);
  added.copies = converts && source < plan.inputs.size() &&
                 plan.inputs[source].in_place();
  plan.steps.push_back(added);
  return absl::OkStatus();
}

absl::StatusOr<PlannedKernel> PlanProgram(const KernelRequest& request,
                                          const ChainProgram& program, const Types& types) {
  auto plan = std::make_shared<ChainPlan>();
  const Type& result = request.results[0];
  plan->elements = result.elements();
  for (const Type& operand : request.operands) plan->inputs.emplace_back().dtype = operand.dtype;
  for (const ChainStep& step : program.steps) {
    if (step.op->name() != "dropout") continue;
    plan->row_elements = result.dims[0] == 0 ? 0 : plan->elements / result.dims[0];
    for (int value : {step.values[1], step.values[2]}) {
      if (value >= program.operands) return Decline("draws with what it makes itself");
      plan->inputs[value].scalars = true;
    }
  }
  for (const Input& input : plan->inputs) {
    if (!input.scalars && !Supported(input.dtype)) return Decline("computes in f32 only");
  }
  MergeDims(request, *plan);
  for (size_t s = 0; s < program.steps.size(); ++s) {
    absl::Status added = AddStep(program.steps[s], types[program.operands + s].dtype, *plan);
    if (!added.ok()) return added;
  }
  for (size_t r = 0; r < program.results.size(); ++r) {
    plan->steps[program.results[r]].result = static_cast<int>(r);
  }
  PlannedKernel planned;
  planned.run = [plan](const KernelArgs& args) { plan->Run(args); };
  return planned;
}

}  // namespace

// A pointwise op is a chain of one step.
absl::StatusOr<PlannedKernel> PlanPointwise(const KernelRequest& request) {
  ChainProgram program;
  program.operands = static_cast<int>(request.operands.size());
  program.steps.push_back({request.op, {}, *request.attributes});
  for (int i = 0; i < program.operands; ++i) program.steps[0].values.push_back(i);
  program.results = {0};
  Types types(request.operands.begin(), request.operands.end());
  types.push_back(request.results[0]);
  return PlanProgram(request, program, types);
}

absl::StatusOr<PlannedKernel> PlanChain(const KernelRequest& request) {
  absl::StatusOr<ChainProgram> program =
      ParseChain(*request.attributes, static_cast<int>(request.operands.size()));
  if (!program.ok()) return program.status();
  absl::StatusOr<Types> types = ChainTypes(*program, request.operands);
  if (!types.ok()) return types.status();
  return PlanProgram(request, *program, *types);
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
