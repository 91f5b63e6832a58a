#include "trainers/lib/answer/parity_compute.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status.h"
#include "parallel/compile.h"
#include "parallel/training_program.h"
#include "tensor/ops/loss.h"
#include "trainers/lib/ranks/keep_alive.h"
#include "trainers/lib/ranks/launch.h"
#include "trainers/lib/ranks/run_device.h"
#include "trainers/lib/ranks/whole_state.h"
#include "trainers/lib/run/model_options.h"
#include "trainers/lib/run/run_tiers.h"
#include "trainers/lib/run/session.h"

namespace colossus {
namespace {

constexpr int kSteps = 3;  // optimizer steps; the loss is known before each and after the last

// The reference gives unshifted labels: position t is judged against labels[t + 1].
HostTensor Shifted(const HostTensor& labels) {
  HostTensor shifted(labels.type());
  const int64_t rows = labels.type().dims[0], length = labels.type().dims[1];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t t = 0; t < length; ++t) {
      shifted.Set(r * length + t, t + 1 < length ? labels.Get(r * length + t + 1) : kIgnoreLabel);
    }
  }
  return shifted;
}

// The first `rows` rows, and rows of `value` behind them if there are not as many.
HostTensor WithRows(const HostTensor& values, int64_t rows, int32_t value) {
  HostTensor all(Type{DType::kI32, {rows, values.type().dims[1]}});
  for (int32_t& element : all.data<int32_t>()) element = value;
  std::memcpy(all.raw(), values.raw(),
              static_cast<size_t>(std::min(values.type().bytes(), all.type().bytes())));
  return all;
}

HostTensor Scalar(double value) {
  HostTensor scalar(Type{DType::kF32, {}});
  scalar.Set(0, value);
  return scalar;
}

HostTensor OnDisk(const StateInfo& info, const HostTensor& values, double factor) {
  HostTensor disk(Type{DType::kF32, info.disk_dims});
  for (int64_t i = 0; i < disk.type().elements(); ++i) disk.Set(i, values.Get(i) * factor);
  return disk;
}

// One rank's part of the computation.
class ParityRank {
 public:
  // `config`: that of the model, with what the reference did not train.
  ParityRank(const Options& options, const Plan& plan, const ModelConfig& config,
             const ModelDirectory& model, const Golden& golden, RankGroup group)
      : options_(options),
        plan_(plan.OfStage(plan.StageOfRank(group.rank()))),
        config_(config),
        model_(model),
        golden_(golden),
        group_(group) {}

  // Both programs are refused, if at all, before either takes memory; then one at a time has it.
  // Collective.
  absl::Status Compile();
  absl::StatusOr<Computed> Run(const ParityInputs& inputs);

 private:
  // The rank's device, and what lies below it for each of the programs.
  absl::Status OpenDevice(absl::Span<ProgramOptions* const> programs);
  // The rows of this rank's place along "data", of rows padded for all of them.
  HostTensor OwnRows(const HostTensor& values, int32_t padding) const;
  absl::Status ComputeLogits(const ParityInputs& inputs);
  absl::Status ComputeSteps(const ParityInputs& inputs);
  absl::Status KeepFinal();
  void KeepGradients(const UpdateResult& result);

  const Options& options_;
  const Plan plan_;  // as this rank's stage sees it
  const ModelConfig& config_;
  const ModelDirectory& model_;
  const Golden& golden_;
  RankGroup group_;
  RankDevice own_;
  RankProgram forward_;
  std::unique_ptr<TrainingProgram> training_;
  Computed computed_;
};

absl::Status ParityRank::OpenDevice(absl::Span<ProgramOptions* const> programs) {
  ASSIGN_OR_RETURN(const MeshPlace place,
                   MeshPlace::Of(plan_, config_, group_.rank()));
  ASSIGN_OR_RETURN(own_, MakeRankDevice(options_, place, group_));
  for (ProgramOptions* program : programs) {
    RETURN_IF_ERROR(AddTiers(options_, group_.size(), *own_.device, program).status());
  }
  return absl::OkStatus();
}

absl::Status ParityRank::Compile() {
  TrainingOptions training;
  training.fetch_gradients = true;
  training.compile.dump_graphs = options_.run.dump_graphs;
  CompileOptions compile = training.compile;  // of the forward: a disk of its own
  ProgramOptions* const programs[] = {&training.compile.program, &compile.program};
  RETURN_IF_ERROR(group_.Agree(OpenDevice(programs), "open device"));
  for (ProgramOptions* program : programs) RETURN_IF_ERROR(AgreeOnTiers(group_, program));
  training.optimizer = {Optimizer::Kind::kAdamw, golden_.beta1, golden_.beta2, golden_.epsilon, 0,
                        golden_.weight_decay};
  ASSIGN_OR_RETURN(training_, TrainingProgram::Make(config_, plan_, training, *own_.device,
                                                    {group_.rank(), own_.communicators.get()}));
  ForwardOptions forward;
  forward.rows = plan_.micro_batch;
  forward.length = plan_.sequence_length;
  forward.compute = plan_.precision.compute;
  forward.loss = false;
  forward.logits = true;
  ASSIGN_OR_RETURN(forward_, CompileForward(config_, forward, plan_, compile, *own_.device,
                                            group_.rank()));
  return absl::OkStatus();
}

HostTensor ParityRank::OwnRows(const HostTensor& values, int32_t padding) const {
  const HostTensor all = WithRows(values, plan_.rows(), padding);
  const MeshPlace& place = training_->place();
  const int64_t first = place.mesh.Coordinate(place.rank, "data") * plan_.micro_batch;
  return CutOut(all, {{first, 0}, {plan_.micro_batch, plan_.sequence_length}, all.type().dims});
}

absl::Status ParityRank::ComputeLogits(const ParityInputs& inputs) {
  RETURN_IF_ERROR(forward_.program->Allocate());
  RETURN_IF_ERROR(SetParameters(forward_, [&](const StateInfo& info, DType dtype) {
    return model_.Read(info, dtype);
  }));
  const HostTensor ids = training_->FeedOf("input_ids", OwnRows(inputs.ids, 0));
  const FeedFunction feeds = [&](absl::string_view name, int) {
    return name == "input_ids" ? &ids : nullptr;
  };
  ASSIGN_OR_RETURN(Fetched fetched, forward_.program->RunPhase(0, feeds));
  const HostTensor& all = fetched.at({"logits", 0});
  Dims dims = all.type().dims;
  dims[0] = inputs.rows;
  HostTensor logits(Type{all.type().dtype, dims});
  std::memcpy(logits.raw(), all.raw(), static_cast<size_t>(logits.type().bytes()));
  computed_["logits"] = std::move(logits);
  forward_.program.reset();  // its memory is free again
  return absl::OkStatus();
}

absl::Status ParityRank::KeepFinal() {
  for (const StateInfo& info : model_.parameters()) {
    const std::string master = StateName(Role::kMaster, info.name);
    const bool narrow = FindJobState(*training_, master) != nullptr;
    ASSIGN_OR_RETURN(const HostTensor values,
                     ReadWholeState(*training_, narrow ? master : info.name, group_));
    computed_["final." + info.name] = OnDisk(info, values, 1);
  }
  return absl::OkStatus();
}

void ParityRank::KeepGradients(const UpdateResult& result) {
  for (const StateInfo& info : model_.parameters()) {
    const auto found = result.gradients.find({absl::StrCat("gradient/", info.name), -1});
    if (found == result.gradients.end()) continue;
    computed_["grad." + info.name] = OnDisk(info, found->second, result.gradient_scale);
  }
}

absl::Status ParityRank::ComputeSteps(const ParityInputs& inputs) {
  RETURN_IF_ERROR(training_->Allocate());
  for (const StateInfo& info : model_.parameters()) {
    ASSIGN_OR_RETURN(const HostTensor values, model_.Read(info, DType::kF32));
    RETURN_IF_ERROR(training_->SetParameter(info.name, values));
  }
  UpdateInput input;
  input.micro_batches.push_back(
      {OwnRows(inputs.ids, 0), OwnRows(inputs.labels, kIgnoreLabel), {}, {}, 0});
  input.learning_rate = golden_.learning_rate;
  if (plan_.precision.compute == DType::kF16) input.loss_scale = options_.precision.loss_scale;
  for (int step = 0; step <= kSteps; ++step) {
    if (step == kSteps) RETURN_IF_ERROR(KeepFinal());
    input.applied = input.step = step;
    ASSIGN_OR_RETURN(const UpdateResult result, training_->RunUpdate(input));
    const HostTensor loss = Scalar(result.loss);
    computed_[step == 0 ? "loss" : absl::StrCat("loss_step", step + 1)] = loss;
    if (step > 0) continue;
    computed_["loss_step1"] = loss;
    computed_["grad_norm"] = Scalar(result.grad_norm);
    KeepGradients(result);
  }
  return absl::OkStatus();
}

absl::StatusOr<Computed> ParityRank::Run(const ParityInputs& inputs) {
  const KeepAlive alive(group_);  // models of goldens are small
  RETURN_IF_ERROR(ComputeLogits(inputs));
  RETURN_IF_ERROR(ComputeSteps(inputs));
  return std::move(computed_);
}

}  // namespace

absl::StatusOr<ParityInputs> ReadParityInputs(const Golden& golden) {
  for (const char* name : {"attention_mask", "token_type_ids", "decoder_input_ids", "pixel_values",
                           "input_features"}) {
    if (golden.Has(name)) {
      return absl::UnimplementedError(
          absl::StrCat(golden.file().path(), ": input '", name, "' is not one of a causal model"));
    }
  }
  ParityInputs inputs;
  ASSIGN_OR_RETURN(inputs.ids, golden.Read("input_ids", DType::kI32));
  ASSIGN_OR_RETURN(HostTensor labels, golden.Read("labels", DType::kI32));
  if (inputs.ids.type().rank() != 2 || labels.type() != inputs.ids.type()) {
    return absl::InvalidArgumentError(absl::StrCat(
        golden.file().path(), ": input_ids and labels must be [rows, length], both alike"));
  }
  inputs.rows = inputs.ids.type().dims[0];
  inputs.length = inputs.ids.type().dims[1];
  inputs.labels = Shifted(labels);
  return inputs;
}

absl::Status CheckIds(const ParityInputs& inputs, const ModelConfig& config) {
  for (int64_t i = 0; i < inputs.ids.type().elements(); ++i) {
    const double id = inputs.ids.Get(i), label = inputs.labels.Get(i);
    const bool bad_label = label != kIgnoreLabel && (label < 0 || label >= config.vocabulary);
    if (id < 0 || id >= config.vocabulary || bad_label) {
      return absl::InvalidArgumentError(
          absl::StrCat("golden: an id is outside of the vocabulary of ", config.vocabulary));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> ParityPlan(const Options& options, const RunLayout& layout,
                                const ParityInputs& inputs, const ModelConfig& config) {
  Plan plan = PlanOf(layout, options.plan);
  // Rows for all places along data, of every stage.
  const int64_t places = plan.AxisMultiple("data");
  plan.micro_batch = (inputs.rows + places - 1) / places * (places / layout.Size("data"));
  plan.sequence_length = inputs.length;
  plan.precision.compute = ParsePrecision(options.precision.compute);
  plan.precision.gradient = DType::kF32;
  RETURN_IF_ERROR(Validate(plan, config));
  return plan;
}

absl::StatusOr<Computed> ComputeParity(JobContext& context, const RunLayout& layout,
                                       const Plan& plan, const ModelDirectory& model,
                                       const Golden& golden, const ParityInputs& inputs) {
  ModelConfig config = model.config();
  RETURN_IF_ERROR(FreezeParameters("golden.json: frozen", absl::StrJoin(golden.frozen, ","),
                                   &config));
  Computed computed;  // by rank 0
  const absl::StatusOr<int> status =
      RunOnRanks(context, layout, [&](JobContext& rank, RankGroup group) -> absl::StatusOr<int> {
        ParityRank own(context.config.options, plan, config, model, golden, group);
        RETURN_IF_ERROR(group.Agree(own.Compile(), "open"));
        rank.begun = true;
        ASSIGN_OR_RETURN(Computed result, own.Run(inputs));
        if (group.first()) computed = std::move(result);
        return 0;
      });
  RETURN_IF_ERROR(status.status());
  return computed;
}

}  // namespace colossus
