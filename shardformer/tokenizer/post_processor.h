// The ids that a tokenizer puts around a text, as `post_processor` of tokenizer.json says.
//
// Thread-safe: functions of their arguments. Kinds read: ByteLevel (which moves offsets alone),
// TemplateProcessing, RobertaProcessing, BertProcessing and Sequence, for one text, not for pairs.
//
//   ASSIGN_OR_RETURN(Frame frame, ParsePostProcessor(json["post_processor"], "post_processor"));
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_POST_PROCESSOR_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_POST_PROCESSOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/tokenizer.h"

namespace colossus {

// Null gives an empty frame. `path` names the value in messages. Unimplemented names a kind or part
// that cannot be read. That the ids are in the vocabulary is for the caller to check.
absl::StatusOr<Frame> ParsePostProcessor(const nlohmann::json& json, const std::string& path);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_POST_PROCESSOR_H_
