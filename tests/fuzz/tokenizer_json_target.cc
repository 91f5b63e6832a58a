// tokenizer.json: what is accepted encodes and decodes a text, with ids in the vocabulary.
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/byte_level.h"
#include "shardformer/tokenizer/testing/small_tokenizer.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "tensor/io/json.h"
#include "tests/fuzz/fuzz_target.h"

namespace colossus {
namespace {

using nlohmann::json;

// The small tokenizer without most of its bytes, so that mutations meet what has a meaning.
json Few() {
  json few = SmallTokenizerJson();
  json vocabulary;
  for (const auto& [token, id] : few["model"]["vocab"].items()) {
    if (id >= 250 || (id >= 97 && id < 123)) vocabulary[token] = id;
  }
  few["model"]["vocab"] = vocabulary;
  few["model"]["merges"] = {"u s", "e r", "us er"};
  return few;
}

std::vector<std::string> Seeds() {
  json split = Few(), parts = Few();
  const json byte_level = split["pre_tokenizer"];
  const json words = {{"type", "Split"},
                      {"pattern", {{"Regex", "(?i:'s)|\\p{L}+|\\p{N}{1,3}+|\\s+(?!\\S)|[^a-z]"}}},
                      {"behavior", "MergedWithNext"},
                      {"invert", false}};
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  split["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {words, digits, byte_level}}};
  split["normalizer"] = {{"type", "NFC"}};
  parts["model"]["unk_token"] = "u";
  parts["model"]["ignore_merges"] = true;
  parts["added_tokens"].push_back(AddedTokenJson(261, "us"));
  parts["added_tokens"][1]["single_word"] = true;
  parts["added_tokens"][1]["normalized"] = true;
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", "user"}};
  parts["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFKD"}}, replace}}};
  parts["post_processor"] = {
      {"type", "RobertaProcessing"}, {"sep", {"us", 256}}, {"cls", {"er", 257}}};
  return {Few().dump(), split.dump(), parts.dump()};
}

void Run(absl::string_view input) {
  absl::StatusOr<json> description = ParseJson(input, "tokenizer.json");
  if (!description.ok()) return;
  auto tokenizer = ByteLevelTokenizer::Parse(*description, std::string(input));
  if (!tokenizer.ok()) return;
  const absl::StatusOr<std::vector<int32_t>> ids =
      (*tokenizer)->Encode("user x1234 <|endoftext|>Us\n\n caf\u00E9 e\u0301 \U0001F999\u180E us");
  if (!ids.ok()) return;  // a pattern that tries too many ways
  for (const int32_t id : *ids) CHECK(id >= 0 && id < (*tokenizer)->vocabulary_size()) << id;
  (*tokenizer)->Decode(*ids, SpecialTokens::kSkip);
  CHECK_EQ((*tokenizer)->Files(0)[0].contents, input);
}

}  // namespace

const FuzzTarget& Target() {
  static const FuzzTarget target = {
      .name = "tokenizer_json",
      .seeds = Seeds,
      .run = Run,
      .words = {"\"type\"", "\"Split\"", "\"Regex\"", "\"String\"", "\"Removed\"", "\"Isolated\"",
                "\"Contiguous\"", "\"invert\"", "true", "\"NFC\"", "\"normalized\"", "\"lstrip\"",
                "\"rstrip\"", "\"single_word\"", "\\\\p{L}", "\\\\s+", "(?!", "(?i:", "{1,3}",
                "[^", "|", "*", "+", "2097151", "\"id\"", "null"},
  };
  return target;
}

}  // namespace colossus
