#include "parallel/time_pipeline.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/check.h"
#include "base/status.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/timeline.h"
#include "shardformer/initialize.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/step.h"
#include "tensor/host_tensor.h"

namespace colossus {
namespace {

constexpr double kNotHere = -1;
constexpr double kNever = std::numeric_limits<double>::infinity();
// Of a part whose backward is split.
constexpr ActionKind kKinds[] = {ActionKind::kForward, ActionKind::kBackwardInput,
                                 ActionKind::kBackwardWeight};
constexpr size_t kKindCount = std::size(kKinds);
constexpr uint64_t kSeed = 1;

// Of `count` values. REQUIRES: count > 0.
double Median(const double* values, int count) {
  std::vector<double> sorted(values, values + count);
  const auto middle = sorted.begin() + count / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

bool CopiesBetweenTiers(const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::kLoad:
    case InstructionKind::kStore:
    case InstructionKind::kReadDisk:
    case InstructionKind::kWriteDisk:
      return true;
    case InstructionKind::kFeed:
    case InstructionKind::kKernel:
    case InstructionKind::kCopy:
    case InstructionKind::kFetch:
      break;
  }
  return false;
}

// Rows whose tokens all count and differ.
MicroBatch MadeUpRows(const Plan& plan, int64_t vocabulary, int64_t micro_batch) {
  const Type type{DType::kI32, {plan.micro_batch, plan.sequence_length}};
  MicroBatch rows{HostTensor(type), HostTensor(type), HostTensor(type), HostTensor(type),
                  micro_batch * plan.micro_batch * plan.AxisSize("data")};
  for (int64_t i = 0; i < type.elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t id = 7919 * (micro_batch * type.elements() + i);
    rows.input_ids.data<int32_t>()[at] = static_cast<int32_t>(id % vocabulary);
    rows.labels.data<int32_t>()[at] = static_cast<int32_t>((id + 1) % vocabulary);
    rows.positions.data<int32_t>()[at] = static_cast<int32_t>(i % plan.sequence_length);
    rows.segments.data<int32_t>()[at] = 0;
  }
  return rows;
}

UpdateInput MadeUpUpdate(const Plan& plan, int64_t vocabulary) {
  UpdateInput input;
  for (int64_t m = 0; m < plan.micro_batches; ++m) {
    input.micro_batches.push_back(MadeUpRows(plan, vocabulary, m));
  }
  return input;
}

}  // namespace

PipelineTimes::PipelineTimes(int parts_of_model, int messages_of_stages, int of_an_update)
    : parts(parts_of_model),
      messages(messages_of_stages),
      micro_batches(of_an_update),
      work(kKindCount * static_cast<size_t>(parts_of_model) * static_cast<size_t>(of_an_update),
           kNotHere),
      message(static_cast<size_t>(messages_of_stages) * static_cast<size_t>(of_an_update),
              kNotHere) {}

double& PipelineTimes::Work(int part, ActionKind kind, int micro_batch) {
  const auto k = static_cast<size_t>(std::find(std::begin(kKinds), std::end(kKinds), kind) -
                                     std::begin(kKinds));
  CHECK_LT(k, kKindCount) << "whole backwards are not measured";
  const size_t row = static_cast<size_t>(part) * kKindCount + k;
  return work[row * static_cast<size_t>(micro_batches) + static_cast<size_t>(micro_batch)];
}

double& PipelineTimes::Message(int which, int micro_batch) {
  return message[static_cast<size_t>(which) * static_cast<size_t>(micro_batches) +
                 static_cast<size_t>(micro_batch)];
}

MeasurePipeline::MeasurePipeline(Program& program, const StagePipeline& pipeline,
                                 const PipelineCalls& calls, Communicator* world)
    : program_(program),
      calls_(calls),
      world_(world),
      times_(pipeline.cut.parts, calls.message_count, pipeline.timeline.shape.micro_batches) {}

void MeasurePipeline::Before(size_t) { start_ = program_.device().clock().Seconds(); }

absl::Status MeasurePipeline::After(size_t t) {
  const double seconds = program_.device().clock().Seconds() - start_;
  if (world_ != nullptr) world_->Beat();
  const Instruction& instruction = program_.plan().instructions[t];
  if (CopiesBetweenTiers(instruction)) return absl::OkStatus();
  const Call& call = program_.step().calls[static_cast<size_t>(instruction.call)];
  if (call.micro_batch < 0) return absl::OkStatus();
  double* spent = nullptr;
  if (const auto work = calls_.works.find(call.segment); work != calls_.works.end()) {
    spent = &times_.Work(work->second.part, work->second.kind, call.micro_batch);
  } else if (const auto end = calls_.messages.find(call.segment); end != calls_.messages.end()) {
    spent = &times_.Message(end->second, call.micro_batch);
  }
  if (spent != nullptr) *spent = std::max(*spent, 0.0) + seconds;
  return absl::OkStatus();
}

absl::StatusOr<PipelineCosts> AgreeOnCosts(const PipelineTimes& times, Communicator& world) {
  const int micro_batches = times.micro_batches;
  const size_t works = kKindCount * static_cast<size_t>(times.parts);
  // One reduction: the least of messages' times and, of what is negative, the most.
  std::vector<double> all;
  for (size_t row = 0; row < works; ++row) {
    const double median =
        Median(&times.work[row * static_cast<size_t>(micro_batches)], micro_batches);
    all.push_back(-std::max(median, 0.0));
  }
  for (double seconds : times.message) all.push_back(seconds < 0 ? kNever : seconds);
  RETURN_IF_ERROR(AllReduce(world, all.data(), static_cast<int64_t>(all.size()), "time_pipeline",
                            Reduction::kMin));
  PipelineCosts costs;
  for (size_t part = 0; part < static_cast<size_t>(times.parts); ++part) {
    const double* of_part = &all[part * kKindCount];
    costs.parts.push_back({-of_part[0], -of_part[1], -of_part[2], 0, 0});
  }
  for (int m = 0; m < times.messages; ++m) {
    const double seconds =
        Median(&all[works + static_cast<size_t>(m) * static_cast<size_t>(micro_batches)],
               micro_batches);
    if (std::isfinite(seconds)) costs.communication = std::max(costs.communication, seconds);
  }
  return costs;
}

absl::Status PrepareTrial(TrainingProgram& trial) {
  RETURN_IF_ERROR(trial.Allocate());
  for (const LocalState& state : trial.local_states()) {
    if (state.info.role != Role::kParameter) continue;
    RETURN_IF_ERROR(
        trial.SetParameter(state.info.name, InitialValue(state.info, DType::kF32, kSeed)));
  }
  return absl::OkStatus();
}

absl::StatusOr<PipelineCosts> TimePipeline(TrainingProgram& trial, int64_t vocabulary,
                                           Communicator& world) {
  const CompiledTraining& compiled = trial.compiled();
  CHECK(compiled.pipeline && compiled.pipeline->split_backward);
  const UpdateInput input = MadeUpUpdate(trial.plan(), vocabulary);
  // The first one finds pages and caches as no later one does.
  MeasurePipeline first(trial.program(), *compiled.pipeline, compiled.calls, &world);
  RETURN_IF_ERROR(trial.RunUpdate(input, &first).status());
  MeasurePipeline second(trial.program(), *compiled.pipeline, compiled.calls, &world);
  RETURN_IF_ERROR(trial.RunUpdate(input, &second).status());
  return AgreeOnCosts(second.times(), world);
}

absl::StatusOr<double> SecondsOf(const Timeline& order, const PipelineCosts& costs) {
  const PipelineActions actions = order.actions();
  Rules rules;
  rules.placement = order.placement;
  rules.split_backward = order.split_backward;
  rules.must_run_before = InOrder(actions, order.orders());
  rules.memory_bound.assign(static_cast<size_t>(order.shape.stages), kNever);
  ASSIGN_OR_RETURN(const Timeline again, RunRules(rules, order.shape, costs));
  return Measure(again, costs).makespan;
}

}  // namespace colossus
