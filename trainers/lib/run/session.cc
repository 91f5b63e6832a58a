#include "trainers/lib/run/session.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status.h"
#include "parallel/rank_graph.h"
#include "shardformer/initialize.h"
#include "shardformer/model.h"
#include "tensor/exec/disk/file_disk_tier.h"
#include "trainers/lib/ranks/keep_alive.h"
#include "trainers/lib/report/progress.h"
#include "trainers/lib/report/tier_report.h"
#include "trainers/lib/run/run_tiers.h"

namespace colossus {
namespace {

// Rows of an update of so many micro-batches.
absl::StatusOr<int64_t> RowsOf(int64_t micro_batches, int64_t micro_batch, int64_t data_parallel) {
  int64_t rows;
  if (!__builtin_mul_overflow(micro_batches, micro_batch, &rows) &&
      !__builtin_mul_overflow(rows, data_parallel, &rows)) {
    return rows;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("batch.micro_batches is ", micro_batches, " and batch.micro_batch ", micro_batch,
                   ": more rows than can be counted; use smaller ones"));
}

// The batch arithmetic and the plan, for a model of which only the configuration is known.
absl::Status MakePlan(const Options& options, const ModelConfig& model, Session* session) {
  const RunLayout& layout = session->layout;
  int64_t global_batch = options.batch.global_batch, micro_batch = options.batch.micro_batch;
  if (options.batch.micro_batches > 0) {
    if (micro_batch == 0) micro_batch = kDefaultRows;
    ASSIGN_OR_RETURN(global_batch, RowsOf(options.batch.micro_batches, micro_batch,
                                          layout.Size("data")));
  }
  ASSIGN_OR_RETURN(session->batch, PlanBatch(global_batch, micro_batch, layout.Size("data")));
  Plan& plan = session->plan;
  plan = PlanOf(layout, options.plan);
  plan.micro_batch = session->batch.micro_batch;
  plan.micro_batches = session->batch.accumulation;
  ASSIGN_OR_RETURN(plan.sequence_length,
                   RowLength(options.data.sequence_length, model.max_positions));
  plan.precision.compute = ParsePrecision(options.precision.compute);
  // An fp16 gradient would lose what the loss scale has saved.
  plan.precision.gradient = plan.precision.compute == DType::kBF16
                                ? ParsePrecision(options.precision.gradient)
                                : DType::kF32;
  plan.packed = options.data.file != "synthetic" && options.data.packing == "borders";
  plan.dropout =
      model.attention_dropout > 0 || model.embedding_dropout > 0 || model.residual_dropout > 0;
  return Validate(plan, model);
}

Optimizer MakeOptimizer(const Options::Optimizer& options) {
  Optimizer optimizer;
  optimizer.kind = options.name == "sgd" ? Optimizer::Kind::kSgd : Optimizer::Kind::kAdamw;
  optimizer.beta1 = options.beta1;
  optimizer.beta2 = options.beta2;
  optimizer.epsilon = options.epsilon;
  optimizer.momentum = options.momentum;
  optimizer.weight_decay = options.weight_decay;
  optimizer.narrow_moments = options.state == "bf16";
  return optimizer;
}

bool WantsValidation(const Options& options) {
  return !options.data.validation_file.empty() || options.data.validation_share > 0;
}

// The rank's device and what lies below it.
absl::Status OpenDevice(const Options& options, int rank, const FileDiskTierOptions& offload,
                        Session* session, ProgramOptions* program) {
  session->plan = session->plan.OfStage(session->plan.StageOfRank(rank));
  ASSIGN_OR_RETURN(const MeshPlace place, MeshPlace::Of(session->plan, session->model, rank));
  ASSIGN_OR_RETURN(session->own, MakeRankDevice(options, place, session->group));
  session->device = session->own.device.get();
  ASSIGN_OR_RETURN(session->tiers, AddTiers(options, session->layout.ranks, *session->device,
                                            program, offload));
  return absl::OkStatus();
}

// By session->compiled_with.
absl::Status MakePrograms(const Options& options, int rank, Session* session) {
  const TrainingOptions& training = session->compiled_with;
  const RankContext context = {rank, session->own.communicators.get()};
  absl::StatusOr<std::unique_ptr<TrainingProgram>> made = TrainingProgram::Make(
      session->model, session->plan, training, *session->device, context);
  if (!made.ok()) return NameTiers(made.status(), options, training.compile.program);
  session->training = *std::move(made);
  if (training.validation) session->validation = Evaluator::Of(*session->training, session->group);
  return absl::OkStatus();
}

absl::Status CompilePrograms(const Options& options, int rank, const FileDiskTierOptions& offload,
                             Session* session) {
  TrainingOptions& training = session->compiled_with;
  session->offload = offload;
  training.optimizer = session->optimizer = MakeOptimizer(options.optimizer);
  training.compile.dump_graphs = options.run.dump_graphs;
  ProgramOptions* program = &training.compile.program;
  RETURN_IF_ERROR(session->group.Agree(OpenDevice(options, rank, offload, session, program),
                                       "open device"));
  RETURN_IF_ERROR(AgreeOnTiers(session->group, program));
  training.validation = WantsValidation(options) && session->device->computes();
  // Borders and searched orders go by it.
  ASSIGN_OR_RETURN(const int64_t least,
                   session->group.Max(-session->device->capacity_bytes(), "device memory"));
  training.pipeline.device_bytes = -least;
  return MakePrograms(options, rank, session);
}

struct Counted {
  int64_t tensors = 0, elements = 0;
  void Add(const StateInfo& info) {
    ++tensors;
    elements += ElementCount(info.global_dims);
  }
};

std::string DecayText(const std::vector<StateInfo>& parameters, double decay) {
  Counted all, decayed, rest, frozen;
  for (const StateInfo& info : parameters) {
    all.Add(info);
    (!info.trainable ? frozen : info.decayed ? decayed : rest).Add(info);
  }
  std::string text = absl::StrFormat(
      "parameters: %d tensors, %d elements; weight decay %g on %d tensors (%d elements): matrices, "
      "embeddings among them; none on %d tensors (%d elements): norm weights and biases",
      all.tensors, all.elements, decay, decayed.tensors, decayed.elements, rest.tensors,
      rest.elements);
  if (frozen.tensors > 0) {
    absl::StrAppendFormat(&text, "; frozen: %d tensors (%d elements)", frozen.tensors,
                          frozen.elements);
  }
  return text;
}

// Rank 0's stage, as an example of all.
std::string StagesText(const Session& session) {
  const TrainingProgram& training = *session.training;
  std::set<std::string> own;
  for (const LocalState& state : training.local_states()) {
    if (state.info.role == Role::kParameter) own.insert(state.info.name);
  }
  return absl::StrCat(session.plan.stages.size(), " stages, schedule ", session.plan.schedule, ", ",
                      session.plan.micro_batches, " micro-batches an update; stage 0 holds ",
                      own.size(), " of ", training.parameters().size(), " parameters");
}

}  // namespace

int64_t Session::device_bytes() const { return training->program().plan().device_bytes; }

BatchShare Session::share(int rank) const {
  absl::StatusOr<MeshPlace> place = MeshPlace::Of(plan, model, rank);
  CHECK_OK(place.status());  // so have those of all ranks
  const Plan own = plan.OfStage(place->stage());
  return {own.micro_batch, own.AxisSize("data"), place->mesh.Coordinate(place->rank, "data")};
}

absl::StatusOr<std::unique_ptr<Communicator>> Session::StageRanks() const {
  if (plan.stages.size() == 1) return nullptr;
  const StagePlan& stage = plan.stages[static_cast<size_t>(training->place().stage())];
  return group.world()->Subgroup(stage.ranks, "stage/host");
}

DType ParsePrecision(absl::string_view name) {
  CHECK(name == "fp32" || name == "bf16" || name == "fp16") << name;
  return name == "fp32" ? DType::kF32 : name == "bf16" ? DType::kBF16 : DType::kF16;
}

absl::Status PlanSession(const Options& options, const ModelConfig& model, int rank,
                         Session* session) {
  session->model = model;
  ASSIGN_OR_RETURN(session->layout, LayoutOf(options));
  RETURN_IF_ERROR(MakePlan(options, model, session));
  return CompilePrograms(options, rank, FileDiskTierOptions(), session);
}

absl::Status CompileAgain(Session& session) {
  session.validation.reset();
  session.training.reset();
  const Options& options = session.config.options;
  RETURN_IF_ERROR(
      ReopenDisk(options, session.offload, &session.compiled_with.compile.program));
  return MakePrograms(options, session.group.rank(), &session);
}

absl::StatusOr<std::unique_ptr<Session>> OpenSession(RunInputs& inputs, const Config& config,
                                                     const RunLayout& layout, RankGroup group) {
  const Options& options = config.options;
  // Reading and compiling have no places to give signs of life.
  const KeepAlive alive(group);
  auto session = std::make_unique<Session>();
  session->group = group;
  session->layout = layout;
  absl::StatusOr<std::shared_ptr<const ModelInput>> input = inputs.Model(
      [&](const ModelConfig& model) { return MakePlan(options, model, session.get()); });
  // On several machines the files may differ, here and below.
  RETURN_IF_ERROR(group.Agree(input.status(), "open model"));
  session->input = *std::move(input);
  session->model = session->input->model;
  // Only the first rank has seen the check.
  RETURN_IF_ERROR(MakePlan(options, session->model, session.get()));
  session->config = config;
  session->config.options.batch.micro_batch = session->batch.micro_batch;
  session->config.options.batch.global_batch = session->batch.global_batch;
  session->config.options.batch.micro_batches = 0;  // said by the two
  session->config.options.data.sequence_length = session->plan.sequence_length;
  RETURN_IF_ERROR(group.Agree(
      CompilePrograms(options, group.rank(), inputs.offload(), session.get()), "compile"));
  absl::StatusOr<std::shared_ptr<const DataSet>> data =
      inputs.Data(*session->input, session->plan.sequence_length);
  RETURN_IF_ERROR(group.Agree(data.status(), "open data"));
  session->data = *std::move(data);
  return session;
}

void DescribeSession(const Session& session, Log& log) {
  const std::string text = ToToml(session.config);
  for (absl::string_view section : absl::StrSplit(text, "\n\n", absl::SkipEmpty())) {
    absl::ConsumeSuffix(&section, "\n");
    log.Info(absl::StrCat("config: ", absl::StrReplaceAll(section, {{"]\n", "] "}})));
  }
  log.Info(session.data->summary);
  const Plan& plan = session.plan;
  log.Info(absl::StrFormat("batch: %s; rows of %d tokens",
                           session.batch.ToString(session.layout.Size("data")),
                           plan.sequence_length));
  if (session.layout.ranks > 1) {
    log.Info(absl::StrFormat(
        "ranks: %s; %d threads each; one that is silent for %d s while others wait ends the run",
        session.layout.ToString(), session.device->threads(),
        session.config.options.run.stall_seconds));
    if (!session.training->zero().chunks().empty()) {
      log.Info(absl::StrCat("chunks: ", session.training->zero().Summary()));
    }
    if (plan.stages.size() > 1) log.Info(absl::StrCat("pipeline: ", StagesText(session)));
  }
  log.Info(absl::StrFormat("precision: compute %s, finished gradient %s, master f32, "
                           "moments %s",
                           Name(plan.precision.compute), Name(plan.precision.gradient),
                           session.optimizer.narrow_moments
                               ? "bf16, rounded at random (--optimizer_state=bf16)"
                               : "f32"));
  const std::vector<StateInfo>& parameters = session.training->parameters();
  log.Info(DecayText(parameters, session.optimizer.weight_decay));
  const MemoryPlan& memory = session.training->program().plan();
  std::vector<std::string> largest;
  for (const Contributor& contributor : memory.contributors) {
    largest.push_back(absl::StrCat(contributor.what, " ", BytesText(contributor.bytes)));
  }
  log.Info(absl::StrFormat("memory: %s on the device, %s of it states; largest: %s",
                           BytesText(session.device_bytes()), BytesText(memory.state_bytes),
                           absl::StrJoin(largest, ", ")));
  if (memory.placed) {
    log.Info(session.tiers);
    log.Info(absl::StrFormat("memory below the device: %s of the host, %s of disk",
                             BytesText(memory.host_bytes), BytesText(memory.disk_bytes)));
  }
  for (const std::string& choice : ChosenByAuto(session)) log.Info(choice);
  log.Info(FlopsFormula(SizeOfModel(session.model, parameters, plan.sequence_length)));
}

std::vector<std::string> ChosenByAuto(const Session& session) {
  std::vector<std::string> lines = session.training->choices();
  if (session.config.options.plan.placement != "auto") return lines;
  if (std::optional<std::string> line = PlacementChoice(session.training->program())) {
    lines.push_back(*std::move(line));
  }
  return lines;
}

absl::Status SetFirstValues(Session& session) {
  if (!session.device->computes()) return absl::OkStatus();
  const uint64_t seed = static_cast<uint64_t>(session.config.options.run.seed);
  for (const StateInfo& info : session.training->parameters()) {
    session.group.Beat();
    if (const std::optional<ModelSource>& weights = session.input->weights) {
      ASSIGN_OR_RETURN(const HostTensor values, weights->Read(info, DType::kF32));
      const absl::Status set = session.training->SetParameter(info.name, values);
      if (!set.ok()) return Annotate(set, weights->what());
    } else {
      RETURN_IF_ERROR(
          session.training->SetParameter(info.name, InitialValue(info, DType::kF32, seed)));
    }
  }
  return absl::OkStatus();
}

ModelSize SizeOfModel(const ModelConfig& model, const std::vector<StateInfo>& parameters,
                      int64_t sequence_length) {
  ModelSize size;
  int64_t vocabulary_matrix = 0;  // the head; the embedding is a lookup, or the same tensor
  for (const StateInfo& info : parameters) {
    if (info.disk_dims.size() < 2) continue;
    if (info.axes[0] == "vocab") {
      vocabulary_matrix = ElementCount(info.global_dims);
    } else if (!info.axes[0].empty()) {  // a table of positions has no axis on its rows
      size.matmul_parameters += ElementCount(info.global_dims);
    } else {
      continue;
    }
    if (!info.trainable) size.frozen_matmul_parameters += ElementCount(info.global_dims);
  }
  size.matmul_parameters += vocabulary_matrix;
  size.layers = model.layers;
  size.sequence_length = sequence_length;
  size.hidden = model.heads * model.head_dim;
  return size;
}

}  // namespace colossus
