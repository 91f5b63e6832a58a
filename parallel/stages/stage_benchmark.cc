// What a pipeline's actions cost beside the work: time and CPU time per action with its messages,
// and how the real makespan of stages that sleep compares with the virtual one.
//
//   bazel run -c opt //parallel/stages:stage_benchmark
#include <time.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "benchmark/benchmark.h"
#include "collectives/in_process.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/training_step.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/graph/block.h"
#include "tensor/graph/builder.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

constexpr int64_t kElements = 16;
const Type kValue{DType::kF32, {kElements}};

// Forward and backward sleep, if they shall.
class SleepKernel final : public Kernel {
 public:
  SleepKernel(double forward, double backward) : forward_(forward), backward_(backward) {}
  absl::string_view name() const override { return "sleep"; }
  absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
    const absl::string_view op = request.op->name();
    if (op != "tanh" && op != "exp") return absl::UnimplementedError("does not sleep");
    const std::chrono::duration<double> time(op == "tanh" ? forward_ : backward_);
    PlannedKernel planned;
    planned.name = "sleep";
    planned.seconds = time.count();
    planned.run = [time](const KernelArgs&) {
      if (time.count() > 0) std::this_thread::sleep_for(time);
    };
    return planned;
  }

 private:
  const double forward_, backward_;
};

// One op forward and one backward in each of `parts` blocks.
Graph Chain(int parts) {
  GraphBuilder b("chain");
  ValueId x = b.Feed("x", kValue);
  for (int part = 0; part < parts; ++part) {
    BlockScope scope(b, absl::StrCat("b", part));
    x = Tanh(b, x);
  }
  for (int part = parts - 1; part >= 0; --part) {
    BlockScope scope(b, GradientBlock(absl::StrCat("b", part)));
    x = Exp(b, x);
  }
  b.Output("sum/x", x);
  absl::StatusOr<Graph> graph = std::move(b).Build();
  CHECK_OK(graph.status());
  return *std::move(graph);
}

StagePipeline PipelineOf(int stages, int micro_batches, const StageCosts& costs, int stage) {
  std::vector<std::string> blocks;
  for (int part = 0; part < stages; ++part) blocks.push_back(absl::StrCat("b", part));
  ScheduleInput input;
  input.shape = {stages, 1, micro_batches};
  input.costs = UniformCosts(input.shape, costs);
  absl::StatusOr<Timeline> timeline = Simulate(**FindSchedule("1f1b"), input);
  CHECK_OK(timeline.status());
  return StagePipeline::Of(CutAtBorders(blocks, {blocks.begin() + 1, blocks.end()}),
                           *std::move(timeline), stage);
}

absl::StatusOr<std::unique_ptr<Program>> Compile(const StagePipeline& pipeline, Device& device) {
  const int micro_batches = pipeline.timeline.shape.micro_batches;
  StepBuilder step({"accumulate"});
  ASSIGN_OR_RETURN(Variant variant, AddVariant(Chain(pipeline.stages), ZeroLayout(), &pipeline,
                                               "chain", {}, device, step));
  ASSIGN_OR_RETURN(MessageSegments messages,
                   AddMessageSegments(variant.messages, pipeline, "", false, step));
  AddBlockCalls(step,
                TrainingCalls(pipeline, variant.messages, messages,
                              [&](int) -> const StageVariant& { return variant; }),
                0, {}, nullptr, micro_batches - 1);
  ASSIGN_OR_RETURN(Step built, std::move(step).Build());
  return Program::Compile(std::move(built), device, {});
}

struct Measured {
  double seconds = 0;      // median of an update
  double cpu_seconds = 0;  // of all ranks, mean
};

double CpuSeconds() {
  timespec now;
  CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

absl::Status RunRank(Communicator& world, int micro_batches, const StageCosts& costs, int updates,
                     Measured* measured) {
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Make({{"stage", world.size()}}));
  MeshCommunicators communicators(mesh, world);
  const SleepKernel sleep(costs.forward, costs.backward_input);
  std::vector<const Kernel*> list = {&sleep};
  for (const Kernel* kernel : CpuKernels()) list.push_back(kernel);
  CollectiveKernels kernels(communicators, list);
  std::unique_ptr<Device> device = NewHostDevice({.kernels = kernels.list(), .overlap = true});
  const StagePipeline pipeline = PipelineOf(world.size(), micro_batches, costs, world.rank());
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Compile(pipeline, *device));
  RETURN_IF_ERROR(program->Allocate());
  const HostTensor x(kValue);
  const FeedFunction feeds = [&](absl::string_view, int) { return &x; };
  std::vector<double> seconds;
  double cpu = 0;
  for (int update = -2; update < updates; ++update) {
    RETURN_IF_ERROR(Barrier(world, "update"));
    if (update == 0) cpu = CpuSeconds();
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(program->RunPhase(0, feeds).status());
    RETURN_IF_ERROR(Barrier(world, "done"));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (update >= 0) seconds.push_back(took.count());
  }
  if (world.rank() != 0) return absl::OkStatus();
  measured->cpu_seconds = (CpuSeconds() - cpu) / updates;
  std::nth_element(seconds.begin(), seconds.begin() + updates / 2, seconds.end());
  measured->seconds = seconds[static_cast<size_t>(updates) / 2];
  return absl::OkStatus();
}

Measured Measure(int stages, int micro_batches, const StageCosts& costs, int updates) {
  Measured measured;
  CHECK_OK(RunRanks({.ranks = stages}, [&](Communicator& world) {
    return RunRank(world, micro_batches, costs, updates, &measured);
  }));
  return measured;
}

// Nothing to do: what is left is the cost of actions, sends and receives.
void Overhead(benchmark::State& state) {
  const int stages = static_cast<int>(state.range(0)), micro_batches = 64;
  Measured measured;
  StageCosts nothing;
  nothing.forward = nothing.backward_input = nothing.backward_weight = 0;
  for (auto _ : state) {
    measured = Measure(stages, micro_batches, nothing, 200);
    state.SetIterationTime(measured.seconds);
  }
  const double actions = 2.0 * micro_batches;
  state.counters["us_per_action"] = 1e6 * measured.seconds / actions;
  state.counters["cpu_us_per_action"] = 1e6 * measured.cpu_seconds / (actions * stages);
}
BENCHMARK(Overhead)->Arg(2)->Arg(4)->Iterations(1)->Repetitions(3)->UseManualTime();

// Four stages that sleep: their real makespan over the virtual one.
void Makespan(benchmark::State& state) {
  const StageCosts costs{.forward = 0.01, .backward_input = 0.02, .backward_weight = 0};
  const int stages = 4, micro_batches = 8;
  Measured measured;
  for (auto _ : state) {
    measured = Measure(stages, micro_batches, costs, 5);
    state.SetIterationTime(measured.seconds);
  }
  const StagePipeline pipeline = PipelineOf(stages, micro_batches, costs, 0);
  ScheduleInput input;
  input.shape = pipeline.timeline.shape;
  const double makespan = Measure(pipeline.timeline, UniformCosts(input.shape, costs)).makespan;
  state.counters["virtual_ms"] = 1e3 * makespan;
  state.counters["real_over_virtual"] = measured.seconds / makespan;
}
BENCHMARK(Makespan)->Iterations(1)->Repetitions(3)->UseManualTime();

}  // namespace
}  // namespace colossus
