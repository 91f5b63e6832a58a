#include "shardformer/tokenizer/load.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/tokenizer/byte_level.h"
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

// Names that special tokens at the end of a text have in published files, the surest first.
constexpr const char* kEndNames[] = {"<|endoftext|>", "<|end_of_text|>",
                                     "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "</s>", "<eos>"};

std::string ConfigBeside(const std::string& file) {
  const size_t slash = file.rfind('/');
  const std::string name = "tokenizer_config.json";
  return slash == std::string::npos ? name : file.substr(0, slash + 1) + name;
}

// Empty where there is none.
absl::StatusOr<std::string> ReadConfigBeside(FileSystem& files, const std::string& file) {
  const std::string path = ConfigBeside(file);
  if (!files.Exists(path)) return std::string();
  return files.ReadFile(path);
}

// eos_token of tokenizer_config.json: a text, or an object with the text as `content`.
absl::StatusOr<std::optional<std::string>> EndNameOf(const std::string& config,
                                                     const std::string& path) {
  if (config.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(config, path));
  nlohmann::json end = At(json, "eos_token");
  if (end.is_object()) end = At(end, "content");
  if (end.is_null()) return std::nullopt;
  if (end.is_string()) return end.get<std::string>();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": eos_token must be a string, but is ", JsonKind(end)));
}

absl::StatusOr<std::optional<int32_t>> FindEnd(const ByteLevelTokenizer& tokenizer,
                                               const std::string& config,
                                               const std::string& config_path,
                                               const std::vector<int64_t>& model_end_ids) {
  if (!model_end_ids.empty() && model_end_ids[0] >= 0 &&
      model_end_ids[0] < tokenizer.vocabulary_size() &&
      tokenizer.IsSpecial(static_cast<int32_t>(model_end_ids[0]))) {
    return static_cast<int32_t>(model_end_ids[0]);
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> name, EndNameOf(config, config_path));
  if (name) {
    const std::optional<int32_t> id = tokenizer.FindId(*name);
    if (id) return id;
    return absl::InvalidArgumentError(absl::StrCat(config_path, ": eos_token is ",
                                                   nlohmann::json(*name).dump(),
                                                   ", which tokenizer.json does not have"));
  }
  for (const char* usual : kEndNames) {
    const std::optional<int32_t> id = tokenizer.FindId(usual);
    if (id && tokenizer.IsSpecial(*id)) return id;
  }
  return std::nullopt;
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
        file_name, ": not the bytes tokenizer: ", condition.what));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(FileSystem& files,
                                                         const std::string& path,
                                                         const LoadTokenizerOptions& options) {
  const bool folder = files.IsDirectory(path);
  const std::string file = folder ? JoinPath(path, "tokenizer.json") : path;
  ASSIGN_OR_RETURN(std::string text, files.ReadFile(file));
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, file));
  if (CheckBytesTokenizer(json, file).ok()) return std::make_unique<BytesTokenizer>();
  absl::StatusOr<std::unique_ptr<ByteLevelTokenizer>> made =
      ByteLevelTokenizer::Parse(json, std::move(text));
  if (!made.ok()) return Annotate(made.status(), file);
  ASSIGN_OR_RETURN(const std::string config, ReadConfigBeside(files, file));
  ASSIGN_OR_RETURN(const std::optional<int32_t> end,
                   FindEnd(**made, config, ConfigBeside(file), options.model_end_ids));
  if (end) {
    (*made)->set_end_id(*end);
  } else if (options.end == EndToken::kNeeded) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": no token is known to end a text; name it in ", ConfigBeside(file),
        ": {\"eos_token\": \"<|endoftext|>\"}"));
  }
  (*made)->set_config_text(config);
  return std::move(*made);
}

}  // namespace colossus
