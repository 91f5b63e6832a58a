#include "shardformer/tokenizer/load.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/tokenizer/bytes.h"
#include "tensor/io/json.h"

namespace colossus {
namespace {

// The value at `key`; null if there is none or `json` is no object.
nlohmann::json At(const nlohmann::json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() ? nlohmann::json() : *found;
}

bool IsByteLevel(const nlohmann::json& step) {
  return At(step, "type") == "ByteLevel" && At(step, "add_prefix_space") != true;
}

// "<|endoftext|>" alone, as id 256, found anywhere in a text and taking no blanks with it.
bool AddsOnlyTheEnd(const nlohmann::json& added) {
  if (!added.is_array() || added.size() != 1) return false;
  const nlohmann::json& end = added[0];
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
    if (At(end, flag) == true) return false;
  }
  return At(end, "id") == BytesTokenizer::kEnd &&
         At(end, "content") == std::string(BytesTokenizer::kEndText);
}

}  // namespace

absl::Status CheckBytesTokenizer(const nlohmann::json& json, absl::string_view file_name) {
  const nlohmann::json bytes =
      nlohmann::json::parse(BytesTokenizer().TokenizerJson(), nullptr, /*allow_exceptions=*/false);
  const nlohmann::json model = At(json, "model"), merges = At(model, "merges");
  const struct {
    bool holds;
    const char* what;
  } conditions[] = {
      {At(model, "type") == "BPE", "its model is another than BPE"},
      {merges.is_array() && merges.empty(), "it merges bytes"},
      {At(model, "vocab") == At(bytes["model"], "vocab"), "its vocabulary is another"},
      {AddsOnlyTheEnd(At(json, "added_tokens")), "it has other added tokens"},
      {At(json, "normalizer").is_null(), "it has a normalizer"},
      {IsByteLevel(At(json, "pre_tokenizer")), "its pre_tokenizer is another than ByteLevel"},
      {IsByteLevel(At(json, "decoder")), "its decoder is another than ByteLevel"},
      {At(json, "post_processor").is_null() || IsByteLevel(At(json, "post_processor")),
       "it has a post_processor"},
  };
  for (const auto& condition : conditions) {
    if (condition.holds) continue;
    return absl::UnimplementedError(absl::StrCat(
        file_name, ": only the bytes tokenizer can be read, and this is not it: ",
        condition.what));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(FileSystem& files,
                                                         const std::string& directory) {
  const std::string path = JoinPath(directory, "tokenizer.json");
  ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(files, path));
  RETURN_IF_ERROR(CheckBytesTokenizer(json, path));
  return std::make_unique<BytesTokenizer>();
}

}  // namespace colossus
