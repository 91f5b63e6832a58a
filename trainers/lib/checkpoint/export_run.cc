#include "trainers/lib/checkpoint/export_run.h"

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace colossus {

void UseTokenizerEnd(const Tokenizer& tokenizer, ModelConfig* config) {
  const int64_t end = tokenizer.end_id();
  const std::vector<int64_t>& own = config->eos_ids;
  if (std::find(own.begin(), own.end(), end) != own.end()) return;
  const std::vector<int32_t>& before = tokenizer.frame().before;
  config->bos_id = before.empty() ? end : before[0];
  config->eos_ids = {end};
  config->raw["bos_token_id"] = *config->bos_id;
  config->raw["eos_token_id"] = end;
}

absl::Status ExportRun(FileSystem& files, const std::string& directory, const ModelConfig& config,
                       const std::vector<StateInfo>& parameters, const Tokenizer* tokenizer,
                       const ParameterReader& read) {
  RETURN_IF_ERROR(ExportModel(files, directory, config, parameters, DType::kF32, read));
  nlohmann::ordered_json generation = {{"_from_model_config", true}};
  if (config.bos_id) generation["bos_token_id"] = *config.bos_id;
  if (config.eos_ids.size() == 1) generation["eos_token_id"] = config.eos_ids[0];
  if (config.eos_ids.size() > 1) generation["eos_token_id"] = config.eos_ids;
  RETURN_IF_ERROR(files.WriteFileAtomically(JoinPath(directory, "generation_config.json"),
                                            generation.dump(2) + "\n"));
  if (tokenizer == nullptr) return absl::OkStatus();
  for (const TokenizerFile& file : tokenizer->Files(config.max_positions)) {
    RETURN_IF_ERROR(files.WriteFileAtomically(JoinPath(directory, file.name), file.contents));
  }
  return absl::OkStatus();
}

}  // namespace colossus
