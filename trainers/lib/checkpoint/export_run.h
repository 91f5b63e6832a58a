// A trained model as a directory that other libraries load: weights, config, tokenizer, generation
// defaults.
//
// Thread-safe: functions of their arguments. One tensor at a time is in memory.
//
//   UseTokenizerEnd(tokenizer, &config);
//   RETURN_IF_ERROR(ExportRun(files, "out/model", config, parameters, &tokenizer, read));
#ifndef COLOSSUS_TRAINERS_LIB_CHECKPOINT_EXPORT_RUN_H_
#define COLOSSUS_TRAINERS_LIB_CHECKPOINT_EXPORT_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/file_system.h"
#include "shardformer/config.h"
#include "shardformer/export.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "tensor/graph/state.h"

namespace colossus {

// Makes the model's first and end-of-text ids those that its training text had, unless the end of
// the text already is among the model's own.
void UseTokenizerEnd(const Tokenizer& tokenizer, ModelConfig* config);

// Writes config.json, model.safetensors (fp32) and generation_config.json, and with `tokenizer`
// (may be null) its files. Each file is replaced at once.
absl::Status ExportRun(FileSystem& files, const std::string& directory, const ModelConfig& config,
                       const std::vector<StateInfo>& parameters, const Tokenizer* tokenizer,
                       const ParameterReader& read);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CHECKPOINT_EXPORT_RUN_H_
