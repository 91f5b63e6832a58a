// FIELD-CASES A5 with its numbers: a parameter that is read on two stages, on two ranks each.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "collectives/in_process.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/cut.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/plan.h"
#include "parallel/rank_graph.h"
#include "parallel/sharding/partition.h"
#include "parallel/sharding/rules.h"
#include "parallel/stages/stage_pipeline.h"
#include "parallel/training_step.h"
#include "parallel/zero/held_ranges.h"
#include "parallel/zero/layout.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/step.h"
#include "tensor/graph/builder.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/reduce.h"
#include "tensor/optim/update.h"
#include "tensor/passes/autodiff.h"

namespace colossus {
namespace {

// A token on each of two ranks along "data"; the loss is the sum over tokens of w first + w last,
// so the gradients of w's two uses are what is fed.
constexpr int64_t kTokens = 2;
constexpr float kFirst[kTokens] = {1, 3}, kLast[kTokens] = {5, 7};

struct Job {
  std::vector<MeshAxis> mesh;
  int zero = 0;
  Optimizer optimizer = {};
  double learning_rate = 1;
  int updates = 1;
};

absl::StatusOr<Graph> Forward() {
  GraphBuilder b("tied");
  const Type tokens{DType::kF32, {kTokens, 1}};
  StateInfo info;
  info.name = "w";
  info.global_dims = info.disk_dims = {1, 1};
  info.axes = {"", ""};
  const ValueId w = b.AddState(info, {DType::kF32, {1, 1}});
  const ValueId first = b.Feed("first", tokens), last = b.Feed("last", tokens);
  for (ValueId feed : {first, last}) b.Annotate(feed, Sharding{{{"batch"}, {}}, {}}, std::nullopt);
  b.Feed("loss_seed", {DType::kF32, {}});
  b.SetBlock("embed");
  const ValueId x = Matmul(b, "n k, k m -> n m", first, w);
  b.SetBlock("head");
  const ValueId y = Add(b, x, Matmul(b, "n k, k m -> n m", last, w));
  b.Output("loss_sum", ReduceSum(b, y, {0, 1}, /*keep=*/false));
  return std::move(b).Build();
}

StagePipeline PipelineOf(int stage) {
  ScheduleInput input;
  input.shape = {2, 1, 1};
  input.costs = UniformCosts(input.shape, {});
  absl::StatusOr<Timeline> timeline = Simulate(**FindSchedule("1f1b"), input);
  CHECK_OK(timeline.status());
  return StagePipeline::Of(CutAtBorders({"embed", "head"}, {"head"}), *std::move(timeline), stage);
}

absl::StatusOr<LocalTraining> TrainingOf(const MeshPlace& place, int zero) {
  ASSIGN_OR_RETURN(const Graph forward, Forward());
  ASSIGN_OR_RETURN(Differentiated whole, Autodiff(forward, forward.FindOutput("loss_sum"),
                                                  forward.FindValue("loss_seed")));
  ShardingRules rules;
  rules.activations["batch"] = {"data"};
  ASSIGN_OR_RETURN(const Graph annotated, AnnotateShardings(whole.graph, rules, place.mesh));
  LocalTraining training;
  ASSIGN_OR_RETURN(training.local,
                   Partition(annotated, {&place.mesh, place.rank,
                                         GradientShardings(annotated, whole.parameters)}));
  training.parameters = std::move(whole.parameters);
  training.place = place;
  if (place.mesh.SizeOf("stage") > 1) {
    training.pipeline = PipelineOf(place.stage());
    training.uses = FindStageUses(training.local.graph, *training.pipeline);
    SetStages(training.uses, *training.pipeline, training.local.states);
  }
  if (ZeroLayout::Applies(place.mesh)) {
    ASSIGN_OR_RETURN(training.zero, ZeroLayout::Make(training.local, training.parameters,
                                                     place.mesh, place.rank, {zero, DType::kF32}));
  }
  return training;
}

// The feeds of update `update`.
std::map<std::string, HostTensor> FeedsOf(const Job& job, const Mesh& mesh, int rank, int update) {
  const int64_t parts = mesh.SizeOf("data"), part = mesh.Coordinate(rank, "data");
  std::map<std::string, HostTensor> feeds;
  for (const auto& [name, values] : {std::pair{"first", kFirst}, std::pair{"last", kLast}}) {
    std::vector<float> own;
    for (int64_t t = part; t < kTokens; t += parts) own.push_back(values[t]);
    feeds[name] = HostTensor::Of<float>({kTokens / parts, 1}, own);
  }
  const auto scalar = [](double x) { return HostTensor::Of<float>({}, {static_cast<float>(x)}); };
  feeds["loss_seed"] = scalar(1);
  feeds["learning_rate"] = scalar(job.learning_rate);
  feeds["grad_scale"] = scalar(1.0 / kTokens);
  feeds["correction1"] = scalar(1 - std::pow(job.optimizer.beta1, update + 1));
  feeds["correction2"] = scalar(1 - std::pow(job.optimizer.beta2, update + 1));
  return feeds;
}

absl::StatusOr<float> ReadW(Program& program, const LocalTraining& training) {
  const MeshPlace& place = training.place;
  float w = NAN;
  for (const LocalState& state : training.local.states) {
    for (const HeldRange& range : HeldRanges(training.zero, state, place.mesh, place.rank)) {
      RETURN_IF_ERROR(program.ReadStateBytes(range.home, range.home_first * sizeof w, &w,
                                             range.count * static_cast<int64_t>(sizeof w)));
    }
  }
  return w;
}

// From w = 0. `copy`: this rank's.
absl::Status RunRank(const Job& job, Communicator& world, float* copy) {
  SetThreads(1);
  MeshPlace place;
  ASSIGN_OR_RETURN(place.mesh, Mesh::Make(job.mesh));
  place.rank = world.rank();
  MeshCommunicators communicators(place.mesh, world);
  CollectiveKernels kernels(communicators, CpuKernels());
  std::unique_ptr<Device> device =
      NewHostDevice({.threads = 1, .kernels = kernels.list(), .overlap = true});
  ASSIGN_OR_RETURN(const LocalTraining training, TrainingOf(place, job.zero));
  Plan plan;
  plan.zero = job.zero;
  TrainingOptions options;
  options.optimizer = job.optimizer;
  StepBuilder builder({"accumulate", "measure", "update"});
  RETURN_IF_ERROR(AddTrainingCalls(training, plan, options, *device, builder));
  ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                   Program::Compile(std::move(step), *device, {}));
  RETURN_IF_ERROR(program->Allocate());
  for (const StateHome& home : program->plan().states) {
    RETURN_IF_ERROR(program->WriteState(home.info.name, HostTensor(home.type)));
  }
  for (int update = 0; update < job.updates; ++update) {
    const std::map<std::string, HostTensor> feeds = FeedsOf(job, place.mesh, place.rank, update);
    const FeedFunction feed = [&](absl::string_view name, int) {
      return &feeds.at(std::string(name));
    };
    for (int phase : {kAccumulatePhase, kMeasurePhase, kUpdatePhase}) {
      RETURN_IF_ERROR(program->RunPhase(phase, feed).status());
    }
  }
  ASSIGN_OR_RETURN(*copy, ReadW(*program, training));
  return absl::OkStatus();
}

// Every rank's copy of w.
std::vector<float> CopiesOf(const Job& job) {
  int ranks = 1;
  for (const MeshAxis& axis : job.mesh) ranks *= static_cast<int>(axis.size);
  std::vector<float> copies(static_cast<size_t>(ranks));
  EXPECT_OK(RunRanks({.ranks = ranks}, [&](Communicator& world) {
    return RunRank(job, world, &copies[static_cast<size_t>(world.rank())]);
  }));
  return copies;
}

const std::vector<MeshAxis>& TwoByTwo() {
  static const std::vector<MeshAxis>& mesh =
      *new std::vector<MeshAxis>{{"stage", 2}, {"data", 2}};
  return mesh;
}

// (1 + 3 + 5 + 7) / 2 tokens: one step of SGD from 0 at rate 1 shows the gradient.
TEST(TiedStagesTest, A5_TheGradientIsThatOfAllRanks) {
  for (int zero : {0, 1}) {
    SCOPED_TRACE(zero);
    Optimizer sgd;
    sgd.kind = Optimizer::Kind::kSgd;
    EXPECT_EQ(CopiesOf({TwoByTwo(), zero, sgd}), std::vector<float>(4, -8));
  }
}

TEST(TiedStagesTest, A5_CopiesStayTheSame) {
  const Job one{{}, 0, {}, 1e-2, 20};
  const float expected = CopiesOf(one)[0];
  EXPECT_LT(expected, -0.1);
  for (int zero : {0, 1}) {
    SCOPED_TRACE(zero);
    Job job = one;
    job.mesh = TwoByTwo();
    job.zero = zero;
    const std::vector<float> copies = CopiesOf(job);
    EXPECT_EQ(copies, std::vector<float>(4, copies[0]));
    EXPECT_NEAR(copies[0], expected, 1e-5 * std::abs(expected));
  }
}

}  // namespace
}  // namespace colossus
