#include "trainers/lib/run/model_options.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "parallel/sharding/rules.h"
#include "shardformer/model.h"

namespace colossus {

absl::Status FreezeParameters(absl::string_view key, absl::string_view patterns,
                              ModelConfig* model) {
  ASSIGN_OR_RETURN(const std::vector<StateInfo> parameters, ModelParameters(*model));
  for (const absl::string_view entry : absl::StrSplit(patterns, ',', absl::SkipEmpty())) {
    absl::string_view pattern = entry;
    const bool trained = absl::ConsumePrefix(&pattern, "!");
    bool found = false;
    for (const StateInfo& info : parameters) {
      if (!MatchesPattern(pattern, info.name)) continue;
      found = true;
      if (trained) {
        model->frozen.erase(info.name);
      } else {
        model->frozen.insert(info.name);
      }
    }
    if (found) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": no parameter is named '", pattern, "'; there are ",
                     parameters.size(), ", from '", parameters.front().name, "' to '",
                     parameters.back().name, "'; * stands for any text"));
  }
  if (model->frozen.size() < parameters.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, " = \"", patterns, "\" freezes all ", parameters.size(),
                   " parameters, so that nothing is left to train; name fewer"));
}

absl::Status ApplyModelOptions(const Options::Model& options, ModelConfig* model) {
  if (options.dropout >= 0) {
    model->attention_dropout = options.dropout;
    model->embedding_dropout = options.dropout;
    model->residual_dropout = options.dropout;
  }
  return FreezeParameters("model.freeze", options.freeze, model);
}

}  // namespace colossus
