#include "shardformer/tokenizer/decoder.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/tokenizer/byte_symbols.h"
#include "shardformer/tokenizer/json_fields.h"

namespace colossus {
namespace {

absl::Status Check(const nlohmann::json& json, const std::string& path, int* byte_levels) {
  if (json.is_null()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, path));
  ASSIGN_OR_RETURN(const std::string type, fields.RequiredText("type"));
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const nlohmann::json* list, fields.RequiredList("decoders"));
    for (size_t i = 0; i < list->size(); ++i) {
      RETURN_IF_ERROR(Check((*list)[i], absl::StrCat(path, ".decoders[", i, "]"), byte_levels));
    }
    return fields.End();
  }
  if (type == "ByteLevel") {
    ++*byte_levels;
    // They have a meaning for pre_tokenizer and post_processor alone.
    for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      RETURN_IF_ERROR(fields.Bool(name, true).status());
    }
    return fields.End();
  }
  if (type == "Fuse" && *byte_levels > 0) return fields.End();  // ByteLevel leaves one piece
  return Fields::Refuse(fields.PathOf("type"), type, "known are ByteLevel, and Sequence with it");
}

}  // namespace

absl::Status CheckDecoder(const nlohmann::json& json, const std::string& path) {
  int byte_levels = 0;
  RETURN_IF_ERROR(Check(json, path, &byte_levels));
  if (byte_levels == 1) return absl::OkStatus();
  return Fields::Refuse(path, json, "a byte-level tokenizer needs one decoder ByteLevel");
}

void DecodeTable::Set(int32_t id, absl::string_view token) {
  std::string& bytes = bytes_[static_cast<size_t>(id)];
  if (!BytesOfSymbols(token, &bytes)) bytes = std::string(token);
}

}  // namespace colossus
