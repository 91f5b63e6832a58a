#include "trainers/lib/answer/evaluate.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "parallel/plan.h"
#include "parallel/rank_graph.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/config/validate.h"
#include "trainers/lib/ranks/keep_alive.h"
#include "trainers/lib/ranks/launch.h"
#include "trainers/lib/ranks/run_device.h"
#include "trainers/lib/run/run_inputs.h"
#include "trainers/lib/run/run_tiers.h"
#include "trainers/lib/run/session.h"

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

// What a rank can be refused for.
struct Opened {
  RankDevice own;
  std::unique_ptr<Evaluator> evaluator;
  std::shared_ptr<const DataSet> data;
};

absl::Status Open(JobContext& context, const Plan& whole, RankGroup group, RunInputs& inputs,
                  const ModelInput& input, Opened* opened) {
  const Options& options = context.config.options;
  const ModelConfig& model = input.weights->config();
  const Plan plan = whole.OfStage(whole.StageOfRank(group.rank()));
  ASSIGN_OR_RETURN(const MeshPlace place, MeshPlace::Of(plan, model, group.rank()));
  ASSIGN_OR_RETURN(opened->own, MakeRankDevice(options, place, group));
  CompileOptions compile;
  compile.dump_graphs = options.run.dump_graphs;
  ASSIGN_OR_RETURN(const std::string tiers,
                   AddTiers(options, group.size(), *opened->own.device, &compile.program));
  if (!tiers.empty()) context.log.Info(tiers);
  absl::StatusOr<std::unique_ptr<Evaluator>> evaluator =
      Evaluator::Make(model, plan, compile, *opened->own.device, group);
  if (!evaluator.ok()) return NameTiers(evaluator.status(), options, compile.program);
  opened->evaluator = *std::move(evaluator);
  ASSIGN_OR_RETURN(opened->data, inputs.Data(input, plan.sequence_length));
  context.log.Info(opened->data->summary);
  return opened->evaluator->Allocate();
}

absl::StatusOr<Evaluation> EvaluateRank(JobContext& context, const Plan& plan, RankGroup group,
                                        RunInputs& inputs, const ModelInput& input) {
  // Reading and compiling have no places to give signs of life.
  std::optional<KeepAlive> alive(group);
  Opened opened;
  RETURN_IF_ERROR(group.Agree(Open(context, plan, group, inputs, input, &opened), "open"));
  context.begun = true;
  const auto& [own, evaluator, data] = opened;
  RETURN_IF_ERROR(evaluator->SetParameters(
      [&](const StateInfo& info, DType dtype) { return input.weights->Read(info, dtype); }));
  alive.reset();
  const FirstRows rows(*data->train, input.has_text ? data->train->rows() : kGeneratedRows);
  ASSIGN_OR_RETURN(Evaluation result, evaluator->Run(rows, data->token_bytes));
  // Every document is evaluated; its own bytes count, whatever a tokenizer makes of them.
  if (data->text_bytes > 0) result.text_bytes = data->text_bytes;
  return result;
}

// Of options and a model of which only the configuration is known.
absl::StatusOr<Plan> EvaluationPlan(const Options& options, const RunLayout& layout,
                                    const ModelConfig& model) {
  Plan plan = PlanOf(layout, options.plan);
  ASSIGN_OR_RETURN(const BatchPlan batch,
                   PlanBatch(0, options.batch.micro_batch, layout.Size("data")));
  // So many more that every stage can share them out.
  const int64_t unit = plan.AxisMultiple("data") / layout.Size("data");
  plan.micro_batch = (batch.micro_batch + unit - 1) / unit * unit;
  ASSIGN_OR_RETURN(plan.sequence_length,
                   RowLength(options.data.sequence_length, model.max_positions));
  plan.precision.compute = plan.precision.gradient = ParsePrecision(options.precision.compute);
  plan.packed = options.data.file != "synthetic" && options.data.packing == "borders";
  RETURN_IF_ERROR(Validate(plan, model));
  return plan;
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(FileSystem& files, JobContext& context) {
  const Options& options = context.config.options;
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(options));
  RunInputs inputs(files, options, context.log);
  ASSIGN_OR_RETURN(const std::shared_ptr<const ModelInput> input,
                   inputs.Model([&](const ModelConfig& model) {
                     return EvaluationPlan(options, layout, model).status();
                   }));
  context.log.Info(absl::StrCat("evaluates ", input->weights->what()));
  ASSIGN_OR_RETURN(const Plan plan, EvaluationPlan(options, layout, input->weights->config()));
  Evaluation result;  // of rank 0
  const absl::StatusOr<int> status =
      RunOnRanks(context, layout, [&](JobContext& rank, RankGroup group) -> absl::StatusOr<int> {
        ASSIGN_OR_RETURN(const Evaluation own, EvaluateRank(rank, plan, group, inputs, *input));
        if (group.first()) result = own;
        return 0;
      });
  RETURN_IF_ERROR(status.status());
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
  if (!context.first) return 0;
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
