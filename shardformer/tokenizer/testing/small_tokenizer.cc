#include "shardformer/tokenizer/testing/small_tokenizer.h"

#include <string>

#include "shardformer/tokenizer/byte_symbols.h"

namespace colossus {

nlohmann::json AddedTokenJson(int id, const char* content) {
  return {{"id", id},         {"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},  {"normalized", false}, {"special", false}};
}

nlohmann::json SmallTokenizerJson() {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary[ByteSymbol(byte)] = byte;
  const std::string space = ByteSymbol(' ');
  vocabulary["us"] = 256;
  vocabulary["er"] = 257;
  vocabulary["user"] = 258;
  vocabulary[space + "user"] = 259;
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", true}};
  nlohmann::json end = AddedTokenJson(kSmallEnd, "<|endoftext|>");
  end["special"] = true;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", nlohmann::json::array({end})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", {"u s", "e r", "us er", space + " user"}}}}};
}

}  // namespace colossus
