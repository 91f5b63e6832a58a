#include "trainers/lib/export_run.h"

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace colossus {

void UseTokenizerEnd(const Tokenizer& tokenizer, ModelConfig* config) {
  config->bos_id = tokenizer.end_id();
  config->eos_ids = {tokenizer.end_id()};
  config->raw["bos_token_id"] = tokenizer.end_id();
  config->raw["eos_token_id"] = tokenizer.end_id();
}

absl::Status ExportRun(FileSystem& files, const std::string& directory, const ModelConfig& config,
                       const std::vector<StateInfo>& parameters, const BytesTokenizer* tokenizer,
                       const ParameterReader& read) {
  RETURN_IF_ERROR(ExportModel(files, directory, config, parameters, DType::kF32, read));
  nlohmann::ordered_json generation = {{"_from_model_config", true}};
  if (config.bos_id) generation["bos_token_id"] = *config.bos_id;
  if (config.eos_ids.size() == 1) generation["eos_token_id"] = config.eos_ids[0];
  if (config.eos_ids.size() > 1) generation["eos_token_id"] = config.eos_ids;
  RETURN_IF_ERROR(files.WriteFileAtomically(JoinPath(directory, "generation_config.json"),
                                            generation.dump(2) + "\n"));
  if (tokenizer == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(files.WriteFileAtomically(JoinPath(directory, "tokenizer.json"),
                                            tokenizer->TokenizerJson()));
  return files.WriteFileAtomically(JoinPath(directory, "tokenizer_config.json"),
                                   tokenizer->TokenizerConfigJson(config.max_positions));
}

}  // namespace colossus
