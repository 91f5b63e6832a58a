// Chains against their steps one by one, at the sizes of GPT-2 steps. Run by hand, on a quiet
// machine:
//
//   bazel run //tensor/kernels/cpu:chain_benchmark
//
// GB/s counts the chain's operands and results once, for both; "stream" is y = a x + z on buffers
// that no cache holds. COLOSSUS_BENCHMARK_THREADS sets the threads (1).
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "benchmark/benchmark.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/kernels/kernel.h"
#include "tensor/ops/chain.h"

namespace colossus {
namespace {

struct Case {
  std::string name;
  Attributes attributes;
  Types operands;
};

// A kernel with buffers for its results; operands are given.
struct Bound {
  Bound(const Op& op, const Attributes& attributes, const Types& types,
        std::vector<const void*> given)
      : operands(std::move(given)) {
    absl::StatusOr<Types> made = op.Infer({types, attributes});
    CHECK_OK(made.status());
    absl::StatusOr<PlannedKernel> planned =
        PlanKernel(CpuKernels(), {&op, &attributes, types, *made, Threads()});
    CHECK_OK(planned.status());
    kernel = *std::move(planned);
    for (const Type& type : *made) {
      values.emplace_back(type);
      results.push_back(values.back().raw());
    }
  }
  void Run() { kernel.run({operands, results}); }

  PlannedKernel kernel;
  std::vector<const void*> operands;
  std::vector<HostTensor> values;
  std::vector<void*> results;
};

void Measure(benchmark::State& state, const Case& c, const std::function<void()>& run) {
  for (auto _ : state) run();
  state.counters["GB/s"] = benchmark::Counter(
      ChainOp().CostOf({c.operands, c.attributes}).bytes * 1e-9 *
          static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}

std::vector<HostTensor> Operands(const Case& c) {
  std::vector<HostTensor> x(c.operands.begin(), c.operands.end());
  for (HostTensor& value : x) {
    for (int64_t i = 0; i < value.type().elements(); ++i) {
      value.Set(i, static_cast<double>(i % 251) / 64 - 2);
    }
  }
  return x;
}

void Fused(benchmark::State& state, const Case& c) {
  std::vector<HostTensor> x = Operands(c);
  std::vector<const void*> pointers;
  for (const HostTensor& value : x) pointers.push_back(value.raw());
  Bound chain(ChainOp(), c.attributes, c.operands, pointers);
  Measure(state, c, [&] { chain.Run(); });
}

void Apart(benchmark::State& state, const Case& c) {
  std::vector<HostTensor> x = Operands(c);
  absl::StatusOr<ChainProgram> program =
      ParseChain(c.attributes, static_cast<int>(c.operands.size()));
  CHECK_OK(program.status());
  absl::StatusOr<Types> types = ChainTypes(*program, c.operands);
  CHECK_OK(types.status());
  std::vector<const void*> values;
  for (const HostTensor& value : x) values.push_back(value.raw());
  std::vector<std::unique_ptr<Bound>> steps;
  for (const ChainStep& step : program->steps) {
    Types step_types;
    std::vector<const void*> given;
    for (int value : step.values) {
      step_types.push_back((*types)[value]);
      given.push_back(values[value]);
    }
    steps.push_back(std::make_unique<Bound>(*step.op, step.attributes, step_types, given));
    values.push_back(steps.back()->values[0].raw());
  }
  Measure(state, c, [&] {
    for (const auto& step : steps) step->Run();
  });
}

void Stream(benchmark::State& state) {
  const int64_t n = int64_t{64} << 20;
  std::vector<float> x(n, 1), y(n), z(n, 2);
  for (auto _ : state) {
    ParallelFor(n, 1 << 20, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = 3 * x[i] + z[i];
    });
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["GB/s"] =
      benchmark::Counter(12e-9 * static_cast<double>(n * state.iterations()),
                         benchmark::Counter::kIsRate);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  struct Size {
    const char* name;
    int64_t tokens, c;
  };
  for (const Size& size : {Size{"tiny", 4096, 128}, Size{"gpt2", 2048, 768}}) {
    const DType f = DType::kBF16;
    const Type x{f, {size.tokens, size.c}}, wide{DType::kF32, x.dims}, c{f, {size.c}};
    const Type up{f, {size.tokens, 4 * size.c}}, up_c{f, {4 * size.c}};
    auto add = [&](const char* name, const Strings& steps, const Ints& results,
                   const Types& operands) {
      cases.push_back({absl::StrCat(size.name, "/", name),
                       {{"steps", steps}, {"results", results}}, operands});
    };
    add("activation", {"add x0 x1", "gelu_tanh t0"}, {0, 1}, {up, up_c});
    add("residual", {"add x0 x1", "convert t0 dtype=f32", "add x2 t1"}, {2}, {x, c, wide});
    add("dropped_residual",
        {"add x0 x1", "convert t0 dtype=f32", "dropout t1 x2 x3 rate=0x1p-3 site=a", "add x4 t2"},
        {3}, {x, c, {DType::kI64, {2}}, {DType::kI64, {}}, wide});
    add("residual_grad", {"add x0 x1", "convert t0 dtype=bf16"}, {0, 1}, {wide, wide});
  }
  return cases;
}

int Main(int argc, char** argv) {
  const char* threads = std::getenv("COLOSSUS_BENCHMARK_THREADS");
  SetThreads(threads == nullptr ? 1 : std::atoi(threads));
  for (const Case& c : Cases()) {
    for (const bool fused : {true, false}) {
      benchmark::RegisterBenchmark(
          absl::StrCat(c.name, fused ? "/fused" : "/apart").c_str(),
          [c, fused](benchmark::State& state) { fused ? Fused(state, c) : Apart(state, c); })
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    }
  }
  benchmark::RegisterBenchmark("stream", Stream)->Unit(benchmark::kMicrosecond)->UseRealTime();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace colossus

int main(int argc, char** argv) { return colossus::Main(argc, argv); }
