#include "shardformer/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/tokenizer/json_fields.h"
#include "shardformer/tokenizer/pattern.h"
#include "shardformer/tokenizer/unicode.h"

namespace colossus {
namespace {

size_t LastCharacter(absl::string_view text) {
  size_t last = text.size() - 1;
  while ((text[last] & 0xC0) == 0x80) --last;
  return last;
}

// Whether the character at the start of `text` belongs to words.
bool StartsWithWord(absl::string_view text) {
  static const Pattern& word =
      *new Pattern(Pattern::Own(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])"));
  size_t length;
  DecodeUtf8(text, &length);
  const absl::string_view character = text.substr(0, length);
  std::string subject;
  const bool copied = WithStandIns(character, &subject);
  Matcher matcher;
  size_t begin, end;
  return word.Find(copied ? subject.data() : character.data(), length, 0, &matcher, &begin, &end);
}

// Where the white space at the end of `text` begins.
size_t TrailingSpace(absl::string_view text) {
  while (!text.empty()) {
    const size_t last = LastCharacter(text);
    size_t length;
    if (!IsWhiteSpace(DecodeUtf8(text.substr(last), &length))) break;
    text = text.substr(0, last);
  }
  return text.size();
}

size_t LeadingSpace(absl::string_view text) {
  size_t i = 0, length;
  while (i < text.size() && IsWhiteSpace(DecodeUtf8(text.substr(i), &length))) i += length;
  return i;
}

absl::StatusOr<AddedToken> ParseToken(const nlohmann::json& json, const std::string& path) {
  ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, path));
  AddedToken token;
  ASSIGN_OR_RETURN(token.id, fields.RequiredId("id"));
  ASSIGN_OR_RETURN(token.content, fields.RequiredText("content"));
  if (token.content.empty()) {
    return Fields::Wrong(fields.PathOf("content"), "a text that is not empty", "");
  }
  ASSIGN_OR_RETURN(token.special, fields.Bool("special", false));
  ASSIGN_OR_RETURN(token.normalized, fields.Bool("normalized", !token.special));
  ASSIGN_OR_RETURN(token.single_word, fields.Bool("single_word", false));
  ASSIGN_OR_RETURN(token.lstrip, fields.Bool("lstrip", false));
  ASSIGN_OR_RETURN(token.rstrip, fields.Bool("rstrip", false));
  RETURN_IF_ERROR(fields.End());
  return token;
}

}  // namespace

void TokenFinder::Add(const AddedToken& token) {
  const absl::string_view text = token.text;
  if (text.empty()) return;
  starts_[static_cast<unsigned char>(text[0])] = true;
  uint32_t node = 0;
  for (const char c : text) {
    const uint64_t edge = uint64_t{node} * 256 + static_cast<unsigned char>(c);
    const auto [found, added] = next_.try_emplace(edge, static_cast<uint32_t>(nodes_.size()));
    if (added) nodes_.emplace_back();
    node = found->second;
  }
  if (nodes_[node].token >= 0) return;
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

TokenFinder::Match TokenFinder::LongestAt(absl::string_view text) const {
  Match match;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto found = next_.find(uint64_t{node} * 256 + static_cast<unsigned char>(text[i]));
    if (found == next_.end()) break;
    node = found->second;
    if (nodes_[node].token >= 0) match = {i + 1, &tokens_[nodes_[node].token]};
  }
  return match;
}

bool TokenFinder::FindsAny(absl::string_view text) const {
  for (size_t i = 0; i < text.size(); ++i) {
    if (starts_[static_cast<unsigned char>(text[i])] && LongestAt(text.substr(i)).size > 0) {
      return true;
    }
  }
  return false;
}

void TokenFinder::Split(absl::string_view text,
                        absl::FunctionRef<void(absl::string_view, int32_t)> give) const {
  size_t done = 0;
  for (size_t i = 0; !tokens_.empty() && i < text.size();) {
    if (!starts_[static_cast<unsigned char>(text[i])]) {
      ++i;
      continue;
    }
    const Match match = LongestAt(text.substr(i));
    if (match.size == 0) {
      ++i;
      continue;
    }
    size_t begin = i, end = i + match.size;
    i = end;
    const AddedToken& token = *match.token;
    if (token.single_word) {
      const bool before =
          begin > 0 && StartsWithWord(text.substr(LastCharacter(text.substr(0, begin))));
      if (before || (end < text.size() && StartsWithWord(text.substr(end)))) continue;
    }
    if (token.lstrip) begin = std::max(TrailingSpace(text.substr(0, begin)), done);
    if (token.rstrip) end += LeadingSpace(text.substr(end));
    begin = std::min(begin, end);
    if (done < begin) give(text.substr(done, begin - done), -1);
    give(text.substr(begin, end - begin), token.id);
    done = end;
  }
  if (done < text.size()) give(text.substr(done), -1);
}

absl::StatusOr<AddedTokens> AddedTokens::Parse(
    const nlohmann::json& json, const std::string& path,
    const absl::flat_hash_map<std::string, int32_t>& ids, const Normalizer& normalizer) {
  AddedTokens made;
  if (json.is_null()) return made;
  if (!json.is_array()) return Fields::Wrong(path, "a list", json);
  absl::flat_hash_set<int32_t> taken;
  for (const auto& [text, id] : ids) taken.insert(id);
  absl::flat_hash_set<std::string> texts;
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string place = absl::StrCat(path, "[", i, "]");
    ASSIGN_OR_RETURN(AddedToken token, ParseToken(json[i], place));
    const auto own = ids.find(token.content);
    const bool fits = own == ids.end() ? taken.insert(token.id).second : own->second == token.id;
    if (!fits || !texts.insert(token.content).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          place, " gives id ", token.id, " to ", nlohmann::json(token.content).dump(),
          ", but that id or text is given otherwise elsewhere in the file"));
    }
    made.tokens_.push_back(std::move(token));
  }
  Matcher matcher;
  // Special ones first: where two have one text after normalization, the first counts.
  for (const bool special : {true, false}) {
    for (AddedToken& token : made.tokens_) {
      if (token.special != special) continue;
      token.text = token.normalized ? normalizer.Run(token.content, &matcher) : token.content;
      made.longest_ = std::max(made.longest_, token.text.size());
      (token.normalized ? made.normalized_ : made.raw_).Add(token);
    }
  }
  RETURN_IF_ERROR(matcher.status());
  return made;
}

}  // namespace colossus
