#include "trainers/lib/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "shardformer/model.h"
#include "trainers/lib/metrics.h"

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

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Make(const ModelConfig& config,
                                                           const EvaluatorShape& shape,
                                                           const CompileOptions& options,
                                                           Device& device) {
  ForwardOptions forward;
  forward.rows = shape.rows;
  forward.length = shape.sequence_length;
  forward.compute = shape.compute;
  forward.packed = shape.packed;
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                   CompileForward(config, forward, options, device));
  Program* own = program.get();
  return std::unique_ptr<Evaluator>(new Evaluator(shape, std::move(program), own, 0, 0));
}

std::unique_ptr<Evaluator> Evaluator::Of(TrainingProgram& training) {
  const Plan& plan = training.plan();
  const EvaluatorShape shape = {plan.micro_batch, plan.sequence_length, plan.precision.compute,
                                plan.packed};
  return std::unique_ptr<Evaluator>(new Evaluator(shape, nullptr, &training.program(),
                                                  kValidatePhase, kValidateMicroBatch));
}

absl::Status Evaluator::SetParameters(const Reader& read) {
  CHECK(owned_ != nullptr) << "a training program has its parameters";
  for (const StateHome& home : program_->plan().states) {
    ASSIGN_OR_RETURN(const HostTensor values, read(home.info, home.type.dtype));
    RETURN_IF_ERROR(program_->WriteState(home.info.name, values));
  }
  return absl::OkStatus();
}

absl::StatusOr<Evaluation> Evaluator::Run(const RowSource& source,
                                          absl::Span<const int32_t> token_bytes) {
  Evaluation sums;
  sums.text_bytes = source.TextBytes(token_bytes);
  Batch batch;
  for (int64_t first = 0; first < source.rows(); first += shape_.rows) {
    std::vector<int64_t> rows(
        static_cast<size_t>(std::min(shape_.rows, source.rows() - first)));
    std::iota(rows.begin(), rows.end(), first);
    FillBatch(source, rows, shape_.rows, &batch);
    const MicroBatch micro_batch = ToMicroBatch(batch, shape_.packed, first);
    const FeedFunction feeds = [&](absl::string_view name, int) -> const HostTensor* {
      if (name == "input_ids") return &micro_batch.input_ids;
      if (name == "labels") return &micro_batch.labels;
      if (name == "positions") return &micro_batch.positions;
      if (name == "segments") return &micro_batch.segments;
      return nullptr;
    };
    ASSIGN_OR_RETURN(const Fetched fetched, program_->RunPhase(phase_, feeds));
    sums.nats += fetched.at({"loss_sum", micro_batch_}).Get(0);
    sums.tokens += batch.counting_tokens;
  }
  if (sums.tokens == 0) {
    return absl::InvalidArgumentError("the rows to evaluate have no position that counts");
  }
  return sums;
}

}  // namespace colossus
