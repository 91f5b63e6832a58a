#include "parallel/training_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "collectives/communicator.h"
#include "parallel/update_graph.h"
#include "parallel/zero/held_ranges.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/loss.h"

namespace colossus {
namespace {

// Guards the clip factor against a zero norm, as the common definition of clipping does.
constexpr double kClipEpsilon = 1e-6;

// The host's own collectives: what an update leaves on the link stream may still run.
constexpr char kHostChannel[] = "host";

// Bytes written at a time when a state is zeroed.
constexpr int64_t kZeroBytes = 1 << 20;

int64_t CountLabels(const std::vector<MicroBatch>& micro_batches) {
  int64_t tokens = 0;
  for (const MicroBatch& batch : micro_batches) {
    for (int32_t label : batch.labels.data<int32_t>()) tokens += label != kIgnoreLabel;
  }
  return tokens;
}

// A vocabulary that is padded over ranks has rows for more ids than there are.
absl::Status CheckFeed(const HostTensor& ids, absl::string_view what, bool ignored,
                       int64_t vocabulary) {
  const absl::Span<const int32_t> values = ids.data<int32_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < vocabulary) continue;
    if (ignored && values[i] == kIgnoreLabel) continue;
    const int64_t length = ids.type().dims.back(), at = static_cast<int64_t>(i);
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", values[i], " at position ", at % length, " of row ", at / length,
                     " is outside the vocabulary, ", vocabulary));
  }
  return absl::OkStatus();
}

// Whether the part reaches beyond its state.
bool IsPadded(const LocalState& state) {
  const Dims& global = state.info.global_dims;
  return InsideOf(BoxPiece(state.slice), global).count < state.type.elements();
}

// `values`: whole, in the order of the parameter's dims.
HostTensor PartOfParameter(const LocalState& state, const HostTensor& values) {
  HostTensor whole(Type{values.type().dtype, state.info.global_dims});
  std::memcpy(whole.raw(), values.raw(), values.type().bytes());
  return CutOut(whole, state.slice);
}

HostTensor ScalarOf(DType dtype, double value) {
  HostTensor scalar(Type{dtype, {}});
  scalar.Set(0, value);
  return scalar;
}

}  // namespace

absl::Status CheckIds(const MicroBatch& batch, int64_t vocabulary) {
  RETURN_IF_ERROR(CheckFeed(batch.input_ids, "id", /*ignored=*/false, vocabulary));
  return CheckFeed(batch.labels, "target", /*ignored=*/true, vocabulary);
}

// Padding is a document of its own that does not count.
HostTensor FeedOf(absl::string_view name, const HostTensor& rows, const Plan& plan,
                  const MeshPlace& place) {
  const int32_t padding = name == "labels" ? kIgnoreLabel : name == "segments" ? -1 : 0;
  return PositionsOf(rows, padding, plan, place);
}

TrainingProgram::TrainingProgram(const ModelConfig& config, const Plan& plan,
                                 const TrainingOptions& options, CompiledTraining compiled,
                                 const RankContext& context)
    : plan_(plan.OfStage(compiled.place.stage())),
      options_(options),
      context_(context),
      compiled_(std::move(compiled)),
      vocabulary_(config.vocabulary) {
  // A power of two near 1 / tokens keeps narrow gradients in range and is undone exactly.
  double planned = static_cast<double>(plan_.rows() * plan_.sequence_length);
  loss_seed_ = std::exp2(-std::ceil(std::log2(planned)));
  const Type tokens{DType::kI32,
                    {plan_.micro_batch, plan_.padded_length() / plan_.AxisSize("sequence")}};
  empty_.input_ids = empty_.labels = empty_.positions = empty_.segments = HostTensor(tokens);
  for (int32_t& label : empty_.labels.data<int32_t>()) label = kIgnoreLabel;
  for (const LocalState& state : compiled_.states) {
    const MeshPlace& place = compiled_.place;
    for (const HeldRange& range : HeldRanges(compiled_.zero, state, place.mesh, place.rank)) {
      shares_.push_back({state.info, state.type.dtype,
                         PartOf(BoxPiece(state.slice), range.first, range.count), range.owner,
                         range.home, range.home_first});
    }
  }
}

absl::StatusOr<std::unique_ptr<TrainingProgram>> TrainingProgram::Make(
    const ModelConfig& config, const Plan& plan, const TrainingOptions& options, Device& device,
    const RankContext& context) {
  ASSIGN_OR_RETURN(CompiledTraining compiled,
                   CompileTraining(config, plan, options, device, context.rank));
  CHECK(compiled.place.alone() || !device.computes() || context.communicators != nullptr)
      << "several ranks need communicators";
  return std::unique_ptr<TrainingProgram>(
      new TrainingProgram(config, plan, options, std::move(compiled), context));
}

HostTensor TrainingProgram::FeedOf(absl::string_view name, const HostTensor& rows) const {
  return colossus::FeedOf(name, rows, plan_, compiled_.place);
}

const LocalState* TrainingProgram::FindState(absl::string_view name) const {
  for (const LocalState& state : compiled_.states) {
    if (state.info.name == name) return &state;
  }
  return nullptr;
}

// Ranks that differ along other axes have the same rows.
absl::StatusOr<int64_t> TrainingProgram::CountTokens(const UpdateInput& input) {
  int64_t tokens = CountLabels(input.micro_batches);
  if (plan_.AxisSize("data") == 1 || context_.communicators == nullptr) return tokens;
  ASSIGN_OR_RETURN(Communicator * data, context_.communicators->On({"data"}, kHostChannel));
  RETURN_IF_ERROR(AllReduce(*data, &tokens, 1, "count_tokens"));
  return tokens;
}

absl::Status TrainingProgram::Allocate() {
  RETURN_IF_ERROR(program().Allocate());
  for (const StateHome& home : states()) {
    const bool moment = home.info.role == Role::kMoment1 || home.info.role == Role::kMoment2;
    const LocalState* state = FindState(home.info.name);
    // What is between the parameters of a chunk is zero, and stays so; so is what a padded part has
    // beyond its state, which no checkpoint holds.
    if (moment || !compiled_.zero.chunks().empty() || (state != nullptr && IsPadded(*state))) {
      RETURN_IF_ERROR(Zero(home));
    }
  }
  return absl::OkStatus();
}

absl::Status TrainingProgram::Zero(const StateHome& home) {
  if (!program().device().computes()) return absl::OkStatus();
  return Zero(home.info.name, 0, home.range.bytes);
}

absl::Status TrainingProgram::Zero(absl::string_view home, int64_t first, int64_t bytes) {
  const std::vector<char> zeros(static_cast<size_t>(std::min(kZeroBytes, bytes)));
  for (int64_t at = 0; at < bytes; at += kZeroBytes) {
    RETURN_IF_ERROR(program().WriteStateBytes(home, first + at, zeros.data(),
                                              std::min(kZeroBytes, bytes - at)));
  }
  return absl::OkStatus();
}

absl::Status TrainingProgram::WriteZeros(const LocalState& state) {
  const int64_t size = SizeOf(state.type.dtype);
  for (const HeldRange& range :
       HeldRanges(compiled_.zero, state, compiled_.place.mesh, compiled_.place.rank)) {
    RETURN_IF_ERROR(Zero(range.home, range.home_first * size, range.count * size));
  }
  return absl::OkStatus();
}

// `values`: of this rank's part, of which it may hold a shard only.
absl::Status TrainingProgram::Write(const LocalState& state, const HostTensor& values) {
  const int64_t size = SizeOf(values.type().dtype);
  for (const HeldRange& range :
       HeldRanges(compiled_.zero, state, compiled_.place.mesh, compiled_.place.rank)) {
    RETURN_IF_ERROR(program().WriteStateBytes(
        range.home, range.home_first * size,
        static_cast<const char*>(values.raw()) + range.first * size, range.count * size));
  }
  return absl::OkStatus();
}

absl::Status TrainingProgram::SetParameter(absl::string_view name, const HostTensor& values) {
  if (FindState(name) == nullptr) {
    const auto& all = compiled_.parameters;  // of other stages too
    const bool known = std::any_of(all.begin(), all.end(),
                                   [&](const StateInfo& info) { return info.name == name; });
    if (known) return absl::OkStatus();
  }
  const LocalState* parameter = FindState(name);
  if (parameter == nullptr || parameter->info.role != Role::kParameter) {
    return absl::NotFoundError(absl::StrCat("no parameter '", name, "'"));
  }
  for (Role role : StateRoles(options_.optimizer, parameter->type.dtype)) {
    const LocalState* own = FindState(StateName(role, name));
    if (own == nullptr) continue;  // frozen, or without a gradient
    const Type& type = own->type;
    if (ElementCount(own->info.global_dims) != values.type().elements()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter '", name, "' is ", ToString(Type{type.dtype, own->info.global_dims}),
          ", given ", ToString(values.type())));
    }
    if (!program().device().computes()) continue;
    if (role != Role::kParameter && role != Role::kMaster) {
      RETURN_IF_ERROR(WriteZeros(*own));
      continue;
    }
    const bool part = !compiled_.place.alone_in_stage();
    // The largest tensors are large beside the host's memory: no copy that is not needed.
    HostTensor made;
    if (part) made = PartOfParameter(*own, values);
    if ((part ? made : values).type().dtype != type.dtype) {
      made = (part ? made : values).Converted(type.dtype);
    }
    const HostTensor& converted =
        part || values.type().dtype != type.dtype ? made : values;
    const BadElement bad =
        colossus::FindNonFinite(type.dtype, converted.raw(), type.elements());
    if (bad.index < type.elements()) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", name, "' holds ", bad.kind, " at element ", bad.index, " in ",
                       Name(type.dtype), part ? " of its part" : "", ", from ",
                       part ? converted.Get(bad.index) : values.Get(bad.index)));
    }
    RETURN_IF_ERROR(Write(*own, converted));
  }
  return absl::OkStatus();
}

const HostTensor* TrainingProgram::Feed(const UpdateInput& input, absl::string_view name,
                                        int micro_batch) {
  if (name == "first_row") return &first_rows_[micro_batch];
  if (micro_batch >= 0) {
    const std::vector<MicroBatch>& batches = own_.empty() ? input.micro_batches : own_;
    const bool given = micro_batch < static_cast<int>(batches.size());
    const MicroBatch& batch = given ? batches[micro_batch] : empty_;
    if (name == "input_ids") return &batch.input_ids;
    if (name == "labels") return &batch.labels;
    if (name == "positions") return &batch.positions;
    if (name == "segments") return &batch.segments;
  }
  auto found = scalars_.find(std::string(name));
  return found == scalars_.end() ? nullptr : &found->second;
}

void TrainingProgram::SetScalars(const UpdateInput& input, double grad_scale) {
  const DType dtype = MasterDType(plan_.precision.compute);
  const Optimizer& optimizer = options_.optimizer;
  const double count = static_cast<double>(input.applied + 1);
  scalars_["learning_rate"] = ScalarOf(dtype, input.learning_rate);
  scalars_["grad_scale"] = ScalarOf(dtype, grad_scale);
  scalars_["correction1"] = ScalarOf(dtype, 1 - std::pow(optimizer.beta1, count));
  scalars_["correction2"] = ScalarOf(dtype, 1 - std::pow(optimizer.beta2, count));
}

// Feeds of the phases accumulate and measure.
void TrainingProgram::Begin(const UpdateInput& input) {
  CHECK_LE(static_cast<int64_t>(input.micro_batches.size()), plan_.micro_batches);
  scalars_["loss_seed"] = ScalarOf(MasterDType(plan_.precision.compute), Seed(input));
  scalars_["dropout_key"] = scalars_["rounding_key"] =
      HostTensor::Of<int64_t>({2}, {static_cast<int64_t>(input.seed), input.step});
  first_rows_.clear();
  for (int64_t m = 0; m < plan_.micro_batches; ++m) {
    const bool given = m < static_cast<int64_t>(input.micro_batches.size());
    first_rows_.push_back(
        HostTensor::Of<int64_t>({}, {given ? input.micro_batches[m].first_row
                                           : m * plan_.micro_batch * plan_.AxisSize("data")}));
  }
  own_.clear();
  if (plan_.whole_rows()) return;
  for (const MicroBatch& whole : input.micro_batches) own_.push_back(OwnPart(whole));
}

MicroBatch TrainingProgram::OwnPart(const MicroBatch& whole) const {
  MicroBatch own{FeedOf("input_ids", whole.input_ids), FeedOf("labels", whole.labels), HostTensor(),
                 HostTensor(), whole.first_row};
  if (plan_.packed) {
    own.positions = FeedOf("positions", whole.positions);
    own.segments = FeedOf("segments", whole.segments);
  }
  return own;
}

absl::StatusOr<std::optional<NonFinite>> TrainingProgram::FindNonFiniteState() {
  ASSIGN_OR_RETURN(std::optional<NonFinite> found, colossus::FindNonFiniteState(program()));
  if (!found) return found;
  for (const StateShare& share : shares_) {
    const int64_t at = found->element - share.home_first;
    if (share.home != found->value || at < 0 || at >= share.piece.count) continue;
    ForEachRun(PartOf(share.piece, at, 1), WholePiece(share.info.global_dims),
               [&](int64_t, int64_t element, int64_t) {
                 found->value = share.info.name;
                 found->type = {share.dtype, share.info.global_dims};
                 found->element = element;
               });
    break;
  }
  return found;
}

absl::StatusOr<std::optional<NonFinite>> TrainingProgram::FindNonFinite(const UpdateInput& input,
                                                                        StepObserver* observer,
                                                                        bool go_on) {
  if (!go_on) {
    ASSIGN_OR_RETURN(std::optional<NonFinite> state, FindNonFiniteState());
    if (state) return state;
  }
  Begin(input);
  NonFiniteSearch search(program(), observer, go_on);
  FeedFunction feeds = [&](absl::string_view name, int micro_batch) {
    return Feed(input, name, micro_batch);
  };
  for (int phase : {kAccumulatePhase, kMeasurePhase}) {
    const absl::Status status = program().RunPhase(phase, feeds, &search).status();
    if (search.found() && !go_on) return search.found();
    RETURN_IF_ERROR(status);
  }
  std::optional<NonFinite> found = search.found();
  if (found) found->instruction = InPipeline(found->instruction);
  return found;
}

int64_t TrainingProgram::InPipeline(int64_t instruction) const {
  if (compiled_.calls.order.empty()) return instruction;
  const Program& program = *compiled_.program;
  const Call& call =
      program.step().calls[program.plan().instructions[static_cast<size_t>(instruction)].call];
  const auto found = compiled_.calls.order.find({call.segment, call.micro_batch});
  // What is in no action comes after all of them.
  const int64_t order = found == compiled_.calls.order.end() ? int64_t{1} << 24 : found->second;
  return order * (int64_t{1} << 32) + instruction;
}

absl::Status TrainingProgram::SumOverStages(double* values, int64_t count,
                                            absl::string_view site) const {
  if (plan_.stages.size() == 1 || context_.communicators == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(Communicator * stages, AcrossStages());
  if (!SpeaksForStage()) std::fill(values, values + count, 0);
  return AllReduce(*stages, values, count, site);
}

absl::StatusOr<Communicator*> TrainingProgram::AcrossStages() const {
  const char* axis = compiled_.place.own_mesh ? kWorldAxis : "stage";
  return context_.communicators->On({axis}, kHostChannel);
}

bool TrainingProgram::SpeaksForStage() const {
  return !compiled_.place.own_mesh || compiled_.place.rank == 0;
}

absl::Status TrainingProgram::ShareGradients(Fetched& gradients) const {
  if (plan_.stages.size() == 1 || context_.communicators == nullptr) return absl::OkStatus();
  if (!options_.fetch_gradients) return absl::OkStatus();
  ASSIGN_OR_RETURN(Communicator * stages, AcrossStages());
  for (const StateInfo& info : compiled_.parameters) {
    const auto& updated = compiled_.with_gradients;
    if (std::count(updated.begin(), updated.end(), info.name) == 0) continue;
    const std::pair<std::string, int> key{GradientName(info.name), -1};
    const LocalState* own = FindState(info.name);
    // Whoever owns it comes with its place, the others with 0.
    const bool gives = own != nullptr && own->owned() && SpeaksForStage();
    int64_t root = gives ? stages->rank() : 0;
    RETURN_IF_ERROR(AllReduce(*stages, &root, 1, "gradients/owner"));
    HostTensor& gradient = gradients[key];
    if (own == nullptr || !own->owned()) {
      gradient = HostTensor(Type{plan_.precision.gradient, info.global_dims});
    }
    Collective share;
    share.kind = CollectiveKind::kBroadcast;
    share.dtype = gradient.type().dtype;
    share.src = share.dst = gradient.raw();
    share.count = gradient.type().elements();
    share.root = static_cast<int>(root);
    share.site = "gradients/share";
    RETURN_IF_ERROR(stages->Run(share));
  }
  return absl::OkStatus();
}

void TrainingProgram::NameWholeGradients(Fetched& fetched) const {
  if (compiled_.place.alone_in_stage()) return;
  for (const std::string& parameter : compiled_.with_gradients) {
    auto node = fetched.extract({WholeGradientName(parameter), -1});
    if (node.empty()) continue;
    node.key() = {GradientName(parameter), -1};
    const Dims& dims = FindState(parameter)->info.global_dims;
    const Dims& padded = node.mapped().type().dims;
    if (dims != padded) node.mapped() = CutOut(node.mapped(), {Dims(dims.size(), 0), dims, padded});
    fetched.insert(std::move(node));
  }
}

absl::StatusOr<double> TrainingProgram::ValidationLoss(const MicroBatch& rows,
                                                       StepObserver* observer) {
  RETURN_IF_ERROR(CheckIds(rows, vocabulary_));
  const MicroBatch own = OwnPart(rows);
  const FeedFunction feeds = [&](absl::string_view name, int) -> const HostTensor* {
    if (name == "input_ids") return &own.input_ids;
    if (name == "labels") return &own.labels;
    if (name == "positions") return &own.positions;
    if (name == "segments") return &own.segments;
    return nullptr;
  };
  ASSIGN_OR_RETURN(const Fetched fetched, program().RunPhase(kValidatePhase, feeds, observer));
  return fetched.at({"loss_sum", kValidateMicroBatch}).Get(0);
}

absl::StatusOr<UpdateResult> TrainingProgram::RunLayerwise(const UpdateInput& input,
                                                           int64_t tokens,
                                                           StepObserver* observer) {
  if (input.clip_norm > 0 || input.loss_scale != 1) {
    return absl::InvalidArgumentError(
        "update=layerwise updates before the norm of all gradients is known: it goes without "
        "clipping and loss scale");
  }
  UpdateResult result;
  result.tokens = tokens;
  result.gradient_scale = 1 / (Seed(input) * static_cast<double>(tokens));
  Begin(input);
  SetScalars(input, result.gradient_scale);
  FeedFunction feeds = [&](absl::string_view name, int micro_batch) {
    return Feed(input, name, micro_batch);
  };
  ASSIGN_OR_RETURN(result.gradients, program().RunPhase(kAccumulatePhase, feeds, observer));
  NameWholeGradients(result.gradients);
  double loss_sum = 0, sum_squares = 0;
  std::erase_if(result.gradients, [&](const auto& item) {
    const std::string& name = item.first.first;
    const bool loss = name == "loss_sum", squares = absl::StartsWith(name, LayerSquaresName(""));
    if (loss) loss_sum += item.second.Get(0);
    if (squares) sum_squares += item.second.Get(0);
    return loss || squares;
  });
  result.loss = loss_sum / static_cast<double>(tokens);
  result.grad_norm = std::sqrt(sum_squares) * result.gradient_scale;
  if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) return result;
  return absl::DataLossError(absl::StrCat(
      "update ", input.step, ": the loss is ", result.loss, " and the norm of the gradient ",
      result.grad_norm,
      "; update=layerwise has applied it by now, so the parameters are of no use. Go on from the "
      "newest checkpoint with update=whole, which skips such an update"));
}

absl::StatusOr<UpdateResult> TrainingProgram::RunUpdate(const UpdateInput& input,
                                                        StepObserver* observer) {
  for (const MicroBatch& batch : input.micro_batches) {
    RETURN_IF_ERROR(CheckIds(batch, vocabulary_));
  }
  UpdateResult result;
  ASSIGN_OR_RETURN(result.tokens, CountTokens(input));
  if (result.tokens == 0) {
    result.skipped = "no position of the update counts";
    return result;
  }
  if (plan_.update == UpdateTime::kLayerwise) return RunLayerwise(input, result.tokens, observer);
  Begin(input);
  FeedFunction feeds = [&](absl::string_view name, int micro_batch) {
    return Feed(input, name, micro_batch);
  };
  ASSIGN_OR_RETURN(Fetched sums, program().RunPhase(kAccumulatePhase, feeds, observer));
  double loss_sum = 0;
  for (const auto& item : sums) {
    if (item.first.first == "loss_sum") loss_sum += item.second.Get(0);
  }
  ASSIGN_OR_RETURN(result.gradients, program().RunPhase(kMeasurePhase, feeds, observer));
  NameWholeGradients(result.gradients);
  const auto squares = result.gradients.find({"sum_squares", -1});  // not of all stages
  double sums_of_all[] = {loss_sum, squares == result.gradients.end() ? 0 : squares->second.Get(0)};
  RETURN_IF_ERROR(SumOverStages(sums_of_all, 2, "loss_and_norm"));
  loss_sum = sums_of_all[0];
  const double sum_squares = sums_of_all[1];
  result.gradients.erase({"sum_squares", -1});
  RETURN_IF_ERROR(ShareGradients(result.gradients));
  result.gradient_scale = 1 / (Seed(input) * static_cast<double>(result.tokens));
  result.loss = loss_sum / static_cast<double>(result.tokens);
  result.grad_norm = std::sqrt(sum_squares) * result.gradient_scale;
  result.finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  if (!result.finite) {
    result.skipped = "the loss or the gradient norm is not finite";
    return result;
  }
  double clip = 1;
  if (input.clip_norm > 0) {
    clip = std::min(1.0, input.clip_norm / (result.grad_norm + kClipEpsilon));
  }
  SetScalars(input, result.gradient_scale * clip);
  RETURN_IF_ERROR(program().RunPhase(kUpdatePhase, feeds, observer).status());
  return result;
}

}  // namespace colossus
