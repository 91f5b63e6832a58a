#include "trainers/lib/run/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "shardformer/model.h"
#include "trainers/lib/ranks/keep_alive.h"
#include "trainers/lib/report/metrics.h"

namespace colossus {

double Evaluation::perplexity() const { return std::exp(loss()); }

std::optional<double> Evaluation::bits_per_byte() const {
  if (text_bytes == 0) return std::nullopt;
  return BitsPerByte(nats, text_bytes);
}

MicroBatch ToMicroBatch(const Batch& batch, bool packed, int64_t first_row) {
  const Dims dims = {batch.rows, batch.sequence_length};
  MicroBatch feeds;
  feeds.input_ids = HostTensor::Of<int32_t>(dims, batch.ids);
  feeds.labels = HostTensor::Of<int32_t>(dims, batch.labels);
  if (packed) {
    feeds.positions = HostTensor::Of<int32_t>(dims, batch.positions);
    feeds.segments = HostTensor::Of<int32_t>(dims, batch.segments);
  }
  feeds.first_row = first_row;
  return feeds;
}

Evaluator::Evaluator(const Plan& plan, const MeshPlace& place, RankGroup group)
    : plan_(plan), group_(group) {
  const Mesh& mesh = place.mesh;
  share_ = {plan.micro_batch, mesh.SizeOf("data"), mesh.Coordinate(place.rank, "data")};
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name != "data" && mesh.Coordinate(place.rank, axis.name) != 0) counts_ = false;
  }
  if (place.stage() != 0) counts_ = false;
}

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Make(const ModelConfig& config,
                                                           const Plan& plan,
                                                           const CompileOptions& options,
                                                           Device& device, RankGroup group) {
  ForwardOptions forward;
  forward.rows = plan.micro_batch;
  forward.length = plan.sequence_length;
  forward.compute = plan.precision.compute;
  forward.packed = plan.packed;
  ASSIGN_OR_RETURN(RankProgram compiled,
                   CompileForward(config, forward, plan, options, device, group.rank()));
  auto evaluator = std::unique_ptr<Evaluator>(new Evaluator(plan, compiled.place, group));
  evaluator->owned_ = std::move(compiled);
  evaluator->vocabulary_ = config.vocabulary;
  return evaluator;
}

std::unique_ptr<Evaluator> Evaluator::Of(TrainingProgram& training, RankGroup group) {
  auto evaluator =
      std::unique_ptr<Evaluator>(new Evaluator(training.plan(), training.place(), group));
  evaluator->training_ = &training;
  return evaluator;
}

absl::Status Evaluator::SetParameters(const TypedReader& read) {
  CHECK(training_ == nullptr) << "a training program has its parameters";
  return colossus::SetParameters(owned_, read);
}

absl::StatusOr<double> Evaluator::LossOf(const MicroBatch& rows) {
  Heartbeat beat(group_);
  StepObserver* const observer = group_.size() > 1 ? &beat : nullptr;
  if (training_ != nullptr) return training_->ValidationLoss(rows, observer);
  RETURN_IF_ERROR(CheckIds(rows, vocabulary_));
  HostTensors fed;
  const auto feed = [&](const char* name, const HostTensor& whole) {
    fed[name] = FeedOf(name, whole, plan_, owned_.place);
  };
  feed("input_ids", rows.input_ids);
  feed("labels", rows.labels);
  if (plan_.packed) {
    feed("positions", rows.positions);
    feed("segments", rows.segments);
  }
  const FeedFunction feeds = [&](absl::string_view name, int) -> const HostTensor* {
    const auto found = fed.find(std::string(name));
    return found == fed.end() ? nullptr : &found->second;
  };
  ASSIGN_OR_RETURN(const Fetched fetched, owned_.program->RunPhase(0, feeds, observer));
  return fetched.at({"loss_sum", 0}).Get(0);
}

absl::StatusOr<Evaluation> Evaluator::Run(const RowSource& source,
                                          absl::Span<const int32_t> token_bytes) {
  Evaluation sums;
  sums.text_bytes = source.TextBytes(token_bytes);
  Batch batch;
  UpdateRows rows;
  for (int64_t first = 0; first < source.rows(); first += share_.all_rows()) {
    rows.rows.resize(static_cast<size_t>(std::min(share_.all_rows(), source.rows() - first)));
    std::iota(rows.rows.begin(), rows.rows.end(), first);
    FillBatch(source, rows.Share(0, share_), share_.micro_batch, &batch);
    ASSIGN_OR_RETURN(const double loss, LossOf(ToMicroBatch(batch, plan_.packed, first)));
    sums.nats += loss;
    if (counts_) sums.tokens += batch.counting_tokens;
  }
  ASSIGN_OR_RETURN(sums.tokens, group_.Sum(sums.tokens, "evaluated tokens"));
  if (sums.tokens == 0) {
    return absl::InvalidArgumentError("the rows to evaluate have no position that counts");
  }
  return sums;
}

}  // namespace colossus
