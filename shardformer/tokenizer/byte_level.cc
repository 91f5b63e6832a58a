#include "shardformer/tokenizer/byte_level.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "shardformer/tokenizer/json_fields.h"
#include "shardformer/tokenizer/unicode.h"

namespace colossus {
namespace {

constexpr size_t kLong = 16 << 10;    // bytes from which texts are cut
constexpr size_t kSearch = 64 << 10;  // bytes before the end in which a cut is looked for

const nlohmann::json& OrNull(const nlohmann::json* json) {
  static const nlohmann::json& null = *new nlohmann::json();
  return json == nullptr ? null : *json;
}

int64_t VocabularySize(const Bpe& bpe, const AddedTokens& added) {
  int32_t last = -1;
  for (const auto& [token, id] : bpe.ids()) last = std::max(last, id);
  for (const AddedToken& token : added.tokens()) last = std::max(last, token.id);
  return int64_t{last} + 1;
}

bool IsAsciiLetter(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); }

}  // namespace

ByteLevelTokenizer::ByteLevelTokenizer(Bpe bpe, PreTokenizer pre, Normalizer normalizer,
                                       AddedTokens added, Frame frame)
    : bpe_(std::move(bpe)),
      pre_(std::move(pre)),
      normalizer_(std::move(normalizer)),
      added_(std::move(added)),
      frame_(std::move(frame)),
      table_(VocabularySize(bpe_, added_)),
      special_(static_cast<size_t>(table_.size())),
      text_bytes_(static_cast<size_t>(table_.size())) {
  for (const auto& [token, id] : bpe_.ids()) {
    table_.Set(id, token);
    text_bytes_[id] = static_cast<int32_t>(table_.Bytes(id).size());
  }
  for (const AddedToken& token : added_.tokens()) {
    table_.Set(token.id, token.text);
    special_[token.id] = token.special;
    text_bytes_[token.id] = token.special ? 0 : static_cast<int32_t>(token.text.size());
  }
}

absl::StatusOr<std::unique_ptr<ByteLevelTokenizer>> ByteLevelTokenizer::Parse(
    const nlohmann::json& json, std::string text) {
  ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, ""));
  fields.Find("version");
  for (const char* name : {"truncation", "padding"}) {
    const nlohmann::json* value = fields.Find(name);
    if (value == nullptr) continue;
    return Fields::Refuse(name, *value, "texts are neither cut nor filled up; set it to null");
  }
  const nlohmann::json* model = fields.Find("model");
  ASSIGN_OR_RETURN(Bpe bpe, Bpe::Parse(OrNull(model), "model"));
  ASSIGN_OR_RETURN(PreTokenizer pre, PreTokenizer::Parse(OrNull(fields.Find("pre_tokenizer")),
                                                         "pre_tokenizer"));
  ASSIGN_OR_RETURN(Normalizer normalizer,
                   Normalizer::Parse(OrNull(fields.Find("normalizer")), "normalizer"));
  RETURN_IF_ERROR(CheckDecoder(OrNull(fields.Find("decoder")), "decoder"));
  ASSIGN_OR_RETURN(Frame frame, ParsePostProcessor(OrNull(fields.Find("post_processor")),
                                                   "post_processor"));
  ASSIGN_OR_RETURN(AddedTokens added, AddedTokens::Parse(OrNull(fields.Find("added_tokens")),
                                                         "added_tokens", bpe.ids(), normalizer));
  RETURN_IF_ERROR(fields.End());
  const int64_t vocabulary = VocabularySize(bpe, added);
  for (const std::vector<int32_t>* ids : {&frame.before, &frame.after}) {
    for (const int32_t id : *ids) {
      if (id < vocabulary) continue;
      return absl::InvalidArgumentError(absl::StrCat("post_processor puts id ", id,
                                                     " at a text, but ids end at ",
                                                     vocabulary - 1));
    }
  }
  std::unique_ptr<ByteLevelTokenizer> made(
      new ByteLevelTokenizer(std::move(bpe), std::move(pre), std::move(normalizer),
                             std::move(added), std::move(frame)));
  made->text_ = std::move(text);
  return made;
}

std::unique_ptr<ByteLevelTokenizer::Scratch> ByteLevelTokenizer::TakeScratch() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (free_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(free_.back());
  free_.pop_back();
  return scratch;
}

void ByteLevelTokenizer::EncodeText(absl::string_view text, Scratch* scratch,
                                    std::vector<int32_t>* ids) const {
  if (!normalizer_.Keeps(text)) {
    scratch->normalized = normalizer_.Run(text, &scratch->pre.matcher);
    text = scratch->normalized;
  }
  added_.normalized().Split(text, [&](absl::string_view part, int32_t id) {
    if (id >= 0) {
      ids->push_back(id);
      return;
    }
    pre_.Run(part, &scratch->pre,
             [&](absl::string_view piece) { bpe_.Encode(piece, &scratch->bpe, ids); });
  });
}

absl::StatusOr<std::vector<int32_t>> ByteLevelTokenizer::Encode(absl::string_view text) const {
  const size_t good = ValidUtf8Prefix(text);
  if (good != text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text is no UTF-8: byte ", good, " of it begins no character; ",
                     "--tokenizer=bytes reads any bytes"));
  }
  std::unique_ptr<Scratch> scratch = TakeScratch();
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 1);
  added_.raw().Split(text, [&](absl::string_view part, int32_t id) {
    if (id >= 0) {
      ids.push_back(id);
    } else {
      EncodeText(part, scratch.get(), &ids);
    }
  });
  RETURN_IF_ERROR(scratch->pre.matcher.status());
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(scratch));
  return ids;
}

// A letter, a space, a letter, and around them nothing but ASCII and no added token.
bool ByteLevelTokenizer::IsSafeCut(absl::string_view text, size_t at) const {
  if (text[at] != ' ' || !IsAsciiLetter(text[at - 1]) || !IsAsciiLetter(text[at + 1])) return false;
  const size_t reach = added_.longest() + 2;
  const size_t begin = at > reach ? at - reach : 0;
  const absl::string_view window = text.substr(begin, at - begin + reach);
  const bool ascii =
      std::all_of(window.begin(), window.end(), [](char c) { return (c & 0x80) == 0; });
  return ascii && !added_.raw().FindsAny(window) && !added_.normalized().FindsAny(window);
}

size_t ByteLevelTokenizer::SafePrefix(absl::string_view text) const {
  if (text.size() < kLong || !pre_.CutsBeforeSpace() || !normalizer_.KeepsAscii()) return 0;
  const size_t margin = added_.longest() + 2;
  if (text.size() <= margin + 1) return 0;
  const size_t last = text.size() - margin, first = last > kSearch ? last - kSearch : 1;
  for (size_t at = last; at > first; --at) {
    if (IsSafeCut(text, at - 1)) return at - 1;
  }
  return 0;
}

std::string ByteLevelTokenizer::Decode(absl::Span<const int32_t> ids, SpecialTokens special) const {
  std::string text;
  for (const int32_t id : ids) {
    CHECK(id >= 0 && id < table_.size()) << "id " << id;
    if (special == SpecialTokens::kSkip && IsSpecial(id)) continue;
    text += table_.Bytes(id);
  }
  return text;
}

std::vector<TokenizerFile> ByteLevelTokenizer::Files(int64_t model_max_length) const {
  std::string config = config_text_;
  if (config.empty()) {
    nlohmann::ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
    for (const AddedToken& token : added_.tokens()) {
      if (token.id == end_id_) json["eos_token"] = token.content;
    }
    json["clean_up_tokenization_spaces"] = false;
    if (model_max_length > 0) json["model_max_length"] = model_max_length;
    config = json.dump(2) + "\n";
  }
  return {{"tokenizer.json", text_}, {"tokenizer_config.json", config}};
}

std::optional<int32_t> ByteLevelTokenizer::FindId(const std::string& token) const {
  for (const AddedToken& added : added_.tokens()) {
    if (added.content == token) return added.id;
  }
  const auto found = bpe_.ids().find(token);
  return found == bpe_.ids().end() ? std::nullopt : std::optional<int32_t>(found->second);
}

void ByteLevelTokenizer::set_end_id(int32_t id) {
  CHECK(id >= 0 && id < table_.size()) << "id " << id;
  end_id_ = id;
}

}  // namespace colossus
