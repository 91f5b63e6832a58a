#include "shardformer/tokenizer/bytes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/byte_symbols.h"

namespace colossus {
namespace {

nlohmann::ordered_json ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> BytesTokenizer::Encode(absl::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (text[i] == kEndText[0] && absl::StartsWith(text.substr(i), kEndText)) {
      ids.push_back(kEnd);
      i += kEndText.size();
    } else {
      ids.push_back(static_cast<unsigned char>(text[i++]));
    }
  }
  return ids;
}

size_t BytesTokenizer::SafePrefix(absl::string_view text) const {
  const size_t most = std::min(text.size(), kEndText.size() - 1);
  for (size_t tail = most; tail > 0; --tail) {
    if (absl::EndsWith(text, kEndText.substr(0, tail))) return text.size() - tail;
  }
  return text.size();
}

std::string BytesTokenizer::Decode(absl::Span<const int32_t> ids, SpecialTokens special) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    CHECK(id >= 0 && id <= kEnd) << "id " << id;
    if (id != kEnd) {
      text += static_cast<char>(id);
    } else if (special == SpecialTokens::kKeep) {
      text.append(kEndText.data(), kEndText.size());
    }
  }
  return text;
}

std::string BytesTokenizer::TokenizerJson() const {
  using Json = nlohmann::ordered_json;
  const std::string end(kEndText);
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[ByteSymbol(byte)] = byte;
  vocabulary[end] = kEnd;
  const Json added = {{"id", kEnd},      {"content", end},  {"single_word", false},
                      {"lstrip", false}, {"rstrip", false}, {"normalized", false},
                      {"special", true}};
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", vocabulary},
                      {"merges", Json::array()}};
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array({added})},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", ByteLevel()},
                     {"post_processor", nullptr},
                     {"decoder", ByteLevel()},
                     {"model", model}};
  return root.dump(2) + "\n";
}

std::string BytesTokenizer::TokenizerConfigJson(int64_t model_max_length) const {
  const std::string end(kEndText);
  nlohmann::ordered_json root = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                 {"bos_token", end},
                                 {"eos_token", end},
                                 {"clean_up_tokenization_spaces", false}};
  if (model_max_length > 0) root["model_max_length"] = model_max_length;
  return root.dump(2) + "\n";
}

}  // namespace colossus
