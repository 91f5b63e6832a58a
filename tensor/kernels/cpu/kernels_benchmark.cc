// Times of the CPU kernels at the sizes of GPT-2 steps. Run by hand, on a quiet machine:
//
//   bazel run //tensor/kernels/cpu:kernels_benchmark -- --benchmark_filter=tiny
//
// Columns: GFLOP/s and GB/s of the op's own cost. COLOSSUS_BENCHMARK_THREADS sets the threads (1).
// Products named .../onednn are the library's alone, of the same shape.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "benchmark/benchmark.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "tensor/host_tensor.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/kernels/kernel.h"
#include "tensor/ops/op_list.h"

namespace colossus {
namespace {

struct Case {
  std::string name, op;
  Attributes attributes;
  Types operands;
};

// One transformer block and the ends of a model, per micro-batch.
struct Model {
  std::string name;
  int64_t b, s, c, h, vocabulary;
};

Types Repeat(const Type& type, int count) { return Types(count, type); }

void AddProducts(const Model& m, DType dtype, const std::string& suffix, std::vector<Case>& cases) {
  const Type x{dtype, {m.b, m.s, m.c}}, up{dtype, {m.b, m.s, 4 * m.c}}, w{dtype, {m.c, 4 * m.c}};
  auto add = [&](const char* name, const char* spec, const Type& a, const Type& b) {
    Attributes attributes{{"spec", spec}};
    if (std::strcmp(name, "dw") == 0) attributes.Set("dtype", "f32");
    cases.push_back({absl::StrCat(m.name, "/matmul_", name, suffix), "matmul", attributes, {a, b}});
  };
  add("up", "b s c, c f -> b s f", x, w);
  add("down", "b s f, c f -> b s c", up, w);
  add("qkv", "b s c, c f -> b s f", x, {dtype, {m.c, 3 * m.c}});
  add("dw", "b s c, b s f -> c f", x, up);
}

void AddAttention(const Model& m, DType dtype, const std::string& suffix,
                  std::vector<Case>& cases) {
  const Type head{dtype, {m.b, m.s, m.h, m.c / m.h}}, lse{DType::kF32, {m.b, m.h, m.s}};
  const Attributes causal{{"scale", 0.125}, {"causal", true}};
  cases.push_back({absl::StrCat(m.name, "/attention", suffix), "attention", causal,
                   Repeat(head, 3)});
  Types operands = Repeat(head, 5);
  operands.push_back(lse);
  cases.push_back({absl::StrCat(m.name, "/attention_grad", suffix), "attention_grad", causal,
                   operands});
  const Type one{dtype, {m.b, 1, m.h, m.c / m.h}};
  cases.push_back({absl::StrCat(m.name, "/attention_decode", suffix), "attention",
                   {{"scale", 0.125}, {"causal", false}}, {one, head, head}});
}

// One head of a long sequence.
void AddLongAttention(DType dtype, std::vector<Case>& cases) {
  const Type head{dtype, {1, 32768, 1, 64}}, lse{DType::kF32, {1, 1, 32768}};
  const Attributes causal{{"scale", 0.125}, {"causal", true}};
  const std::string suffix(Name(dtype));
  cases.push_back({"long/attention_" + suffix, "attention", causal, Repeat(head, 3)});
  Types operands = Repeat(head, 5);
  operands.push_back(lse);
  cases.push_back({"long/attention_grad_" + suffix, "attention_grad", causal, operands});
}

void AddLoss(const Model& m, DType dtype, const std::string& suffix, std::vector<Case>& cases) {
  cases.push_back({absl::StrCat(m.name, "/linear_cross_entropy", suffix), "linear_cross_entropy",
                   {{"with", Strings{"seed"}}},
                   {{dtype, {m.b, m.s, m.c}}, {dtype, {m.vocabulary, m.c}},
                    {DType::kI32, {m.b, m.s}}, {DType::kF32, {}}}});
}

void AddLoops(const Model& m, DType dtype, const std::string& suffix, std::vector<Case>& cases) {
  const Type x{dtype, {m.b, m.s, m.c}}, wide{DType::kF32, {m.b, m.s, m.c}};
  const Type up{dtype, {m.b, m.s, 4 * m.c}}, c{DType::kF32, {m.c}}, stat{DType::kF32, {m.b, m.s}};
  const Type state{DType::kF32, {12 * m.c * m.c}}, scalar{DType::kF32, {}};
  const Strings affine{"weight", "bias"};
  auto add = [&](const char* name, const char* op, const Attributes& attributes,
                 const Types& operands) {
    cases.push_back({absl::StrCat(m.name, "/", name, suffix), op, attributes, operands});
  };
  add("layer_norm", "layer_norm", {{"eps", 1e-5}, {"with", affine}, {"dtype", Name(dtype)}},
      {wide, c, c});
  add("layer_norm_grad", "layer_norm_grad", {{"bias", true}, {"with", Strings{"weight"}}},
      {x, wide, stat, stat, c});
  add("gelu", "gelu", {}, {up});
  add("gelu_tanh", "gelu_tanh", {}, {up});
  add("gelu_tanh_grad", "gelu_tanh_grad", {}, {up, up});
  add("add", "add", {}, {x, x});
  add("bias", "add", {}, {up, {dtype, {4 * m.c}}});
  add("bias_grad", "reduce_sum", {{"dims", Ints{0, 1}}, {"keep", false}}, {up});
  add("dropout", "dropout", {{"rate", 0.1}, {"site", "x"}},
      {x, {DType::kI64, {2}}, {DType::kI64, {}}});
  add("transpose", "transpose", {{"perm", Ints{0, 2, 1}}}, {x});
  add("embedding", "embedding", {}, {{dtype, {m.vocabulary, m.c}}, {DType::kI32, {m.b, m.s}}});
  add("embedding_grad", "embedding_grad", {{"rows", m.vocabulary}, {"dtype", "f32"}},
      {x, {DType::kI32, {m.b, m.s}}});
  const auto adamw = [&](const char* name, const std::vector<Dims>& parameters) {
    Types operands;
    for (const Dims& dims : parameters) {
      const Type wide{DType::kF32, dims};
      operands.insert(operands.end(), {wide, {dtype, dims}, wide, wide});
    }
    operands.insert(operands.end(), 4, scalar);
    add(name, "adamw",
        {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"compute", Name(dtype)},
         {"weight_decay", Floats(parameters.size(), 0.1)}},
        operands);
  };
  adamw("adamw", {state.dims});
  adamw("adamw_bias", {{m.c}});
  adamw("adamw_block", {{m.c}, {m.c}, {m.c, 3 * m.c}, {3 * m.c}, {m.c, m.c}, {m.c}, {m.c}, {m.c},
                        {m.c, 4 * m.c}, {4 * m.c}, {4 * m.c, m.c}, {m.c}});
  add("sum_squares", "sum_squares", {}, {{dtype, state.dims}});
}

void Run(benchmark::State& state, const Case& c) {
  const char* variable = std::getenv("COLOSSUS_BENCHMARK_THREADS");
  const int threads = variable == nullptr ? 1 : std::atoi(variable);
  SetThreads(threads);
  const Op* op = FindOp(c.op);
  absl::StatusOr<Types> results = op->Infer({c.operands, c.attributes});
  CHECK_OK(results.status());
  absl::StatusOr<PlannedKernel> kernel =
      PlanKernel(CpuKernels(), {op, &c.attributes, c.operands, *results, threads});
  CHECK_OK(kernel.status());
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<HostTensor> x(c.operands.begin(), c.operands.end());
  std::vector<HostTensor> y(results->begin(), results->end());
  HostTensor workspace(Type{DType::kU8, {kernel->workspace_bytes}});
  std::vector<const void*> operands;
  std::vector<void*> outputs;
  for (HostTensor& value : x) {
    for (int64_t i = 0; i < value.type().elements(); ++i) {
      value.Set(i, IsFloat(value.type().dtype) ? normal(random) : random() % 256);
    }
    operands.push_back(value.raw());
  }
  for (HostTensor& value : y) outputs.push_back(value.raw());
  for (auto _ : state) kernel->run({operands, outputs, workspace.raw()});
  const Cost cost = op->CostOf({c.operands, c.attributes});
  using benchmark::Counter;
  state.counters["GFLOP/s"] =
      Counter(cost.flops * 1e-9 * static_cast<double>(state.iterations()), Counter::kIsRate);
  state.counters["GB/s"] =
      Counter(cost.bytes * 1e-9 * static_cast<double>(state.iterations()), Counter::kIsRate);
  state.SetLabel(kernel->name);
}

// y[m, n] = a[m, k] w[k, n] by the library, weights in the format it likes best.
void RunLibrary(benchmark::State& state, int64_t m, int64_t n, int64_t k, DType dtype) {
  const char* variable = std::getenv("COLOSSUS_BENCHMARK_THREADS");
  SetThreads(variable == nullptr ? 1 : std::atoi(variable));
  using dnnl::memory;
  const auto type = dtype == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc a({m, k}, type, memory::format_tag::ab);
  const memory::desc w({k, n}, type, memory::format_tag::any);
  const memory::desc y({m, n}, type, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, w, y), engine);
  memory x(pd.src_desc(), engine), weights(pd.weights_desc(), engine), out(pd.dst_desc(), engine);
  std::memset(x.get_data_handle(), 0, pd.src_desc().get_size());
  std::memset(weights.get_data_handle(), 0, pd.weights_desc().get_size());
  const dnnl::matmul product(pd);
  for (auto _ : state) {
    product.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, out}});
    stream.wait();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(
      2e-9 * static_cast<double>(m * n * k) * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
  state.SetLabel(pd.impl_info_str());
}

void AddLibraryProducts(const Model& m, DType dtype) {
  auto add = [&](const char* name, int64_t n, int64_t k) {
    const std::string title =
        absl::StrCat(m.name, "/matmul_", name, "_", std::string(Name(dtype)), "/onednn");
    benchmark::RegisterBenchmark(title.c_str(), [=](benchmark::State& state) {
      RunLibrary(state, m.b * m.s, n, k, dtype);
    })->Unit(benchmark::kMicrosecond);
  };
  add("up", 4 * m.c, m.c);
  add("down", m.c, 4 * m.c);
  add("qkv", 3 * m.c, m.c);
}

int Main(int argc, char** argv) {
  std::vector<Case> cases;
  const Model models[] = {{"tiny", 16, 256, 128, 4, 257},
                          {"30m", 8, 512, 384, 6, 50304},
                          {"gpt2", 2, 1024, 768, 12, 50304},
                          {"gpt2_512", 4, 512, 768, 12, 50304},
                          {"gpt2_1024", 4, 1024, 768, 12, 50304}};
  for (const Model& m : models) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const std::string suffix = absl::StrCat("_", std::string(Name(dtype)));
      AddProducts(m, dtype, suffix, cases);
      AddAttention(m, dtype, suffix, cases);
      AddLoops(m, dtype, suffix, cases);
      AddLoss(m, dtype, suffix, cases);
      AddLibraryProducts(m, dtype);
    }
  }
  for (DType dtype : {DType::kF32, DType::kBF16}) AddLongAttention(dtype, cases);
  for (const Case& c : cases) {
    benchmark::RegisterBenchmark(c.name.c_str(), [c](benchmark::State& state) { Run(state, c); })
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace colossus

int main(int argc, char** argv) { return colossus::Main(argc, argv); }
