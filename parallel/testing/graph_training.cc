#include "parallel/testing/graph_training.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "collectives/in_process.h"
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
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/passes/autodiff.h"

namespace colossus {
namespace {

absl::StatusOr<StagePipeline> PipelineOf(const GraphJob& job, int stages, int stage) {
  ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(job.schedule));
  ScheduleInput input;
  input.shape = {stages, job.chunks, job.micro_batches};
  input.costs = UniformCosts(input.shape, {});
  ASSIGN_OR_RETURN(Timeline timeline, Simulate(*schedule, input));
  return StagePipeline::Of(CutAtBorders(job.blocks, job.borders), std::move(timeline), stage);
}

absl::StatusOr<LocalTraining> TrainingOf(const GraphJob& job, const MeshPlace& place) {
  ASSIGN_OR_RETURN(const Graph forward, job.forward());
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
  if (const int64_t stages = place.mesh.SizeOf("stage"); stages > 1) {
    ASSIGN_OR_RETURN(training.pipeline, PipelineOf(job, static_cast<int>(stages), place.stage()));
    training.uses = FindStageUses(training.local.graph, *training.pipeline);
    SetStages(training.uses, *training.pipeline, training.local.states);
  }
  if (ZeroLayout::Applies(place.mesh)) {
    ASSIGN_OR_RETURN(training.zero,
                     ZeroLayout::Make(training.local, training.parameters, place.mesh, place.rank,
                                      {job.zero, DType::kF32}));
  }
  std::erase_if(training.local.states, [](const LocalState& state) { return !state.held(); });
  return training;
}

absl::StatusOr<std::unique_ptr<Program>> Compile(const GraphJob& job, const LocalTraining& training,
                                                 Device& device) {
  Plan plan;
  plan.zero = job.zero;
  plan.micro_batches = job.micro_batches;
  TrainingOptions options;
  options.optimizer = job.optimizer;
  StepBuilder builder({"accumulate", "measure", "update"});
  RETURN_IF_ERROR(AddTrainingCalls(training, plan, options, device, builder));
  ASSIGN_OR_RETURN(Step step, std::move(builder).Build());
  return Program::Compile(std::move(step), device, {});
}

// Those of the update by name alone, those of rows by micro-batch.
class Feeds {
 public:
  Feeds(const GraphJob& job, const MeshPlace& place) {
    const int64_t parts = place.mesh.SizeOf("data");
    const int64_t part = place.mesh.Coordinate(place.rank, "data");
    for (int m = 0; m < job.micro_batches; ++m) rows_.push_back(job.feeds(m, part, parts));
    SetScalar("loss_seed", 1);
    SetScalar("learning_rate", job.learning_rate);
    SetScalar("grad_scale", job.gradient_scale);
  }

  void SetUpdate(const Optimizer& optimizer, int update) {
    SetScalar("correction1", 1 - std::pow(optimizer.beta1, update + 1));
    SetScalar("correction2", 1 - std::pow(optimizer.beta2, update + 1));
  }

  const HostTensor* Find(absl::string_view name, int micro_batch) const {
    if (const auto it = scalars_.find(std::string(name)); it != scalars_.end()) return &it->second;
    return &rows_.at(static_cast<size_t>(micro_batch)).at(std::string(name));
  }

 private:
  void SetScalar(const std::string& name, double x) {
    scalars_[name] = HostTensor::Of<float>({}, {static_cast<float>(x)});
  }

  std::vector<HostTensors> rows_;
  HostTensors scalars_;
};

// Calls `move` with each run of elements of a state that this rank has.
absl::Status ForEachHeld(
    const LocalTraining& training, const LocalState& state,
    const std::function<absl::Status(const HeldRange& range, int64_t from, int64_t bytes)>& move) {
  const int64_t size = SizeOf(state.type.dtype);
  for (const HeldRange& range :
       HeldRanges(training.zero, state, training.place.mesh, training.place.rank)) {
    RETURN_IF_ERROR(move(range, range.home_first * size, range.count * size));
  }
  return absl::OkStatus();
}

absl::Status SetStates(const GraphJob& job, const LocalTraining& training, Program& program) {
  for (const StateHome& home : program.plan().states) {
    RETURN_IF_ERROR(program.WriteState(home.info.name, HostTensor(home.type)));
  }
  if (!job.values) return absl::OkStatus();
  for (const LocalState& state : training.local.states) {
    if (state.info.role != Role::kParameter) continue;
    const HostTensor values = job.values(state.info);
    RETURN_IF_ERROR(
        ForEachHeld(training, state, [&](const HeldRange& range, int64_t from, int64_t bytes) {
          return program.WriteStateBytes(
              range.home, from, static_cast<const char*>(values.raw()) + range.first * 4, bytes);
        }));
  }
  return absl::OkStatus();
}

absl::StatusOr<HostTensors> ReadStates(const LocalTraining& training, Program& program) {
  HostTensors states;
  for (const LocalState& state : training.local.states) {
    HostTensor& values = states[state.info.name] = HostTensor(state.type);
    RETURN_IF_ERROR(
        ForEachHeld(training, state, [&](const HeldRange& range, int64_t from, int64_t bytes) {
          return program.ReadStateBytes(range.home, from,
                                        static_cast<char*>(values.raw()) + range.first * 4, bytes);
        }));
  }
  return states;
}

absl::Status RunRank(const GraphJob& job, Communicator& world, HostTensors* states) {
  SetThreads(1);
  MeshPlace place;
  ASSIGN_OR_RETURN(place.mesh, Mesh::Make(job.mesh));
  place.rank = world.rank();
  MeshCommunicators communicators(place.mesh, world);
  CollectiveKernels kernels(communicators, CpuKernels());
  std::unique_ptr<Device> device =
      NewHostDevice({.threads = 1, .kernels = kernels.list(), .overlap = true});
  ASSIGN_OR_RETURN(const LocalTraining training, TrainingOf(job, place));
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Compile(job, training, *device));
  RETURN_IF_ERROR(program->Allocate());
  RETURN_IF_ERROR(SetStates(job, training, *program));
  Feeds feeds(job, place);
  for (int update = 0; update < job.updates; ++update) {
    feeds.SetUpdate(job.optimizer, update);
    const FeedFunction feed = [&](absl::string_view name, int micro_batch) {
      return feeds.Find(name, micro_batch);
    };
    for (int phase : {kAccumulatePhase, kMeasurePhase, kUpdatePhase}) {
      RETURN_IF_ERROR(program->RunPhase(phase, feed).status());
    }
  }
  ASSIGN_OR_RETURN(*states, ReadStates(training, *program));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<HostTensors>> TrainGraph(const GraphJob& job) {
  int ranks = 1;
  for (const MeshAxis& axis : job.mesh) ranks *= static_cast<int>(axis.size);
  std::vector<HostTensors> states(static_cast<size_t>(ranks));
  RETURN_IF_ERROR(RunRanks({.ranks = ranks}, [&](Communicator& world) {
    return RunRank(job, world, &states[static_cast<size_t>(world.rank())]);
  }));
  return states;
}

}  // namespace colossus
