// What model.* says about a model that has been read: dropout, and which parameters are frozen.
//
// Thread-safe: a function of its arguments.
//
//   RETURN_IF_ERROR(ApplyModelOptions(options.model, &model));
#ifndef COLOSSUS_TRAINERS_LIB_RUN_MODEL_OPTIONS_H_
#define COLOSSUS_TRAINERS_LIB_RUN_MODEL_OPTIONS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "shardformer/config.h"
#include "trainers/lib/config/options.h"

namespace colossus {

// InvalidArgument: a pattern of model.freeze that no parameter matches, or nothing left to train.
absl::Status ApplyModelOptions(const Options::Model& options, ModelConfig* model);

// Its freezing alone: `patterns` as in model.freeze, which `key` gave.
absl::Status FreezeParameters(absl::string_view key, absl::string_view patterns,
                              ModelConfig* model);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_MODEL_OPTIONS_H_
