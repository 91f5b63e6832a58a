#include "trainers/lib/evaluate.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/data.h"
#include "trainers/lib/model_source.h"
#include "trainers/lib/run_device.h"
#include "trainers/lib/session.h"
#include "trainers/lib/validate.h"

namespace colossus {
namespace {

nlohmann::json Optional(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

// Rows are generated without end; so many are evaluated.
constexpr int64_t kGeneratedRows = 64;

// The first rows of generated ones, or all of a text.
class FirstRows final : public RowSource {
 public:
  FirstRows(const RowSource& source, int64_t rows) : source_(source), rows_(rows) {}
  int64_t rows() const override { return rows_; }
  int64_t sequence_length() const override { return source_.sequence_length(); }
  int64_t TextBytes(absl::Span<const int32_t> token_bytes) const override {
    return source_.TextBytes(token_bytes);
  }
  int32_t padding_id() const override { return source_.padding_id(); }
  void Fill(int64_t row, RowOut out) const override { source_.Fill(row, out); }

 private:
  const RowSource& source_;
  const int64_t rows_;
};

}  // namespace

absl::StatusOr<Evaluation> Evaluate(FileSystem& files, JobContext& context) {
  const Options& options = context.config.options;
  ASSIGN_OR_RETURN(const ModelSource model,
                   ModelSource::Open(files, options.model.directory,
                                     options.model.require_tied, context.log));
  context.log.Info(absl::StrCat("evaluates ", model.what()));
  const bool generated = options.data.file == "synthetic";
  std::unique_ptr<Tokenizer> tokenizer;
  if (!generated) {
    ASSIGN_OR_RETURN(tokenizer, FindTextTokenizer(files, options, model.config().eos_ids));
  }
  EvaluatorShape shape;
  ASSIGN_OR_RETURN(const BatchPlan batch, PlanBatch(0, options.batch.micro_batch, 1));
  shape.rows = batch.micro_batch;
  ASSIGN_OR_RETURN(shape.sequence_length,
                   RowLength(options.data.sequence_length, model.config().max_positions));
  shape.compute = ParsePrecision(options.precision.compute);
  shape.packed = !generated && options.data.packing == "borders";
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, MakeDevice(options));
  CompileOptions compile;
  compile.dump_graphs = options.run.dump_graphs;
  ASSIGN_OR_RETURN(const std::unique_ptr<Evaluator> evaluator,
                   Evaluator::Make(model.config(), shape, compile, *device));
  ASSIGN_OR_RETURN(const DataSet data,
                   LoadData(files, options.data, {.tokenizer = tokenizer.get(),
                                                  .sequence_length = shape.sequence_length,
                                                  .vocabulary = model.config().vocabulary}));
  context.log.Info(data.summary);
  RETURN_IF_ERROR(evaluator->Allocate());
  context.begun = true;
  RETURN_IF_ERROR(evaluator->SetParameters(
      [&](const StateInfo& info, DType dtype) { return model.Read(info, dtype); }));
  const FirstRows rows(*data.train, generated ? kGeneratedRows : data.train->rows());
  ASSIGN_OR_RETURN(Evaluation result, evaluator->Run(rows, data.token_bytes));
  // Every document is evaluated; its own bytes count, whatever a tokenizer makes of them.
  if (data.text_bytes > 0) result.text_bytes = data.text_bytes;
  return result;
}

std::string EvaluationJson(const Evaluation& evaluation) {
  const nlohmann::ordered_json json = {{"loss", evaluation.loss()},
                                       {"perplexity", evaluation.perplexity()},
                                       {"bits_per_byte", Optional(evaluation.bits_per_byte())},
                                       {"tokens", evaluation.tokens}};
  return json.dump();
}

absl::StatusOr<int> RunEvaluate(JobContext& context) {
  ASSIGN_OR_RETURN(const Evaluation result, Evaluate(RealFileSystem(), context));
  if (context.config.options.run.json) {
    std::printf("%s\n", EvaluationJson(result).c_str());
    return 0;
  }
  std::printf("loss: %.6f\nperplexity: %.4f\n", result.loss(), result.perplexity());
  if (const std::optional<double> bits = result.bits_per_byte()) {
    std::printf("bits per byte: %.4f\n", *bits);
  }
  std::printf("tokens: %lld\n", static_cast<long long>(result.tokens));
  return 0;
}

}  // namespace colossus
