#include "trainers/lib/run/run_inputs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/presets.h"
#include "trainers/lib/checkpoint/export_run.h"
#include "trainers/lib/run/model_options.h"

namespace colossus {
namespace {

// A preset has no weights yet: its vocabulary grows to hold the ids of the text.
void FitVocabulary(const Tokenizer& tokenizer, Log& log, ModelConfig* model) {
  const int64_t ids = tokenizer.vocabulary_size();
  if (ids <= model->vocabulary) return;
  log.Info(absl::StrCat("model: vocabulary ", ids, " in place of the preset's ", model->vocabulary,
                        ", for the tokenizer"));
  model->vocabulary = ids;
  model->raw["vocab_size"] = ids;
}

}  // namespace

absl::Status RunInputs::OpenModel(const Check& check, ModelInput* input) {
  const Options::Model& options = options_.model;
  ModelConfig& model = input->model;
  const std::string config = JoinPath(options.directory, "config.json");
  if (!options.preset.empty()) {
    ASSIGN_OR_RETURN(model, PresetConfig(options.preset));
    RETURN_IF_ERROR(check(model));
  } else if (options.initialize == "random") {
    ASSIGN_OR_RETURN(model, LoadModelConfig(files_, config));
    RETURN_IF_ERROR(check(model));
    for (const std::string& note : model.notes) log_.Info(absl::StrCat("model: ", note));
  } else {
    if (files_.Exists(config)) {
      ASSIGN_OR_RETURN(const ModelConfig before, LoadModelConfig(files_, config));
      RETURN_IF_ERROR(check(before));
    }
    ASSIGN_OR_RETURN(input->weights,
                     ModelSource::Open(files_, options.directory, options.require_tied, log_));
    model = input->weights->config();
    RETURN_IF_ERROR(check(model));
  }
  // What the weights decided stands in the checkpoint's and the exported config too.
  model.raw["tie_word_embeddings"] = model.tie_word_embeddings;
  input->has_text = options_.data.file != "synthetic";
  if (input->has_text) {
    ASSIGN_OR_RETURN(input->tokenizer, FindTextTokenizer(files_, options_, model.eos_ids));
    if (!options.preset.empty()) FitVocabulary(*input->tokenizer, log_, &model);
    UseTokenizerEnd(*input->tokenizer, &model);
  }
  return ApplyModelOptions(options, &model);
}

absl::StatusOr<std::shared_ptr<const ModelInput>> RunInputs::Model(const Check& check) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!model_) {
    auto input = std::make_shared<ModelInput>();
    const absl::Status status = OpenModel(check, input.get());
    if (status.ok()) {
      model_ = std::shared_ptr<const ModelInput>(std::move(input));
    } else {
      model_ = status;
    }
  }
  return *model_;
}

absl::StatusOr<std::shared_ptr<const DataSet>> RunInputs::Data(const ModelInput& model,
                                                               int64_t sequence_length) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!data_) {
    absl::StatusOr<DataSet> data = LoadData(files_, options_.data,
                                            {.tokenizer = model.tokenizer.get(),
                                             .sequence_length = sequence_length,
                                             .vocabulary = model.model.vocabulary,
                                             .seed = static_cast<uint64_t>(options_.run.seed)});
    if (data.ok()) {
      data_ = std::shared_ptr<const DataSet>(std::make_shared<DataSet>(*std::move(data)));
    } else {
      data_ = data.status();
    }
  }
  return *data_;
}

}  // namespace colossus
