// ByteLevelTokenizer: the byte-level BPE that a tokenizer.json describes.
//
// Thread-safe: constant once made; calls take scratch memory from a pool, so calls at once do not
// wait for each other. Made of parts that are read and tested one by one: normalizer.h,
// added_tokens.h, pre_tokenizer.h, bpe.h, post_processor.h, decoder.h. Another kind of tokenizer is
// another class over such parts.
//
//   ASSIGN_OR_RETURN(nlohmann::json json, ParseJson(text, "gpt2/tokenizer.json"));
//   ASSIGN_OR_RETURN(auto tokenizer, ByteLevelTokenizer::Parse(json, text));
//   tokenizer->set_end_id(*tokenizer->FindId("<|endoftext|>"));
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_BYTE_LEVEL_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_BYTE_LEVEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/added_tokens.h"
#include "shardformer/tokenizer/bpe.h"
#include "shardformer/tokenizer/decoder.h"
#include "shardformer/tokenizer/normalizer.h"
#include "shardformer/tokenizer/post_processor.h"
#include "shardformer/tokenizer/pre_tokenizer.h"
#include "shardformer/tokenizer/tokenizer.h"

namespace colossus {

class ByteLevelTokenizer final : public Tokenizer {
 public:
  // `json` is tokenizer.json. InvalidArgument for what is wrong with it and Unimplemented for what
  // cannot be read; both name the member and what stands there.
  // `text` is what `json` was parsed from; Files() gives it back.
  static absl::StatusOr<std::unique_ptr<ByteLevelTokenizer>> Parse(const nlohmann::json& json,
                                                                   std::string text);

  int64_t vocabulary_size() const override { return table_.size(); }
  int32_t end_id() const override { return end_id_; }
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override;
  const Frame& frame() const override { return frame_; }
  // Cuts long texts before a space between two ASCII words, far from added tokens, if the patterns
  // are known to allow it; else 0.
  size_t SafePrefix(absl::string_view text) const override;
  std::string Decode(absl::Span<const int32_t> ids, SpecialTokens special) const override;
  int32_t TextBytes(int32_t id) const override { return text_bytes_[static_cast<size_t>(id)]; }
  std::vector<TokenizerFile> Files(int64_t model_max_length) const override;

  // The id of an added token or of a token of the vocabulary, as the file spells it.
  std::optional<int32_t> FindId(const std::string& token) const;
  // Whether decoding may leave it out.
  bool IsSpecial(int32_t id) const { return special_[static_cast<size_t>(id)]; }

  // REQUIRES: in the vocabulary.
  void set_end_id(int32_t id);
  // The tokenizer_config.json that Files() gives; without it, one that names the end token.
  void set_config_text(std::string text) { config_text_ = std::move(text); }

 private:
  struct Scratch {
    PreTokenizerScratch pre;
    BpeScratch bpe;
    std::string normalized;
  };
  ByteLevelTokenizer(Bpe bpe, PreTokenizer pre, Normalizer normalizer, AddedTokens added,
                     Frame frame);
  void EncodeText(absl::string_view text, Scratch* scratch, std::vector<int32_t>* ids) const;
  std::unique_ptr<Scratch> TakeScratch() const;
  bool IsSafeCut(absl::string_view text, size_t at) const;

  const Bpe bpe_;
  const PreTokenizer pre_;
  const Normalizer normalizer_;
  const AddedTokens added_;
  const Frame frame_;
  DecodeTable table_;
  std::vector<bool> special_;
  std::vector<int32_t> text_bytes_;
  int32_t end_id_ = -1;
  std::string text_, config_text_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> free_;  // guarded by mutex_
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_BYTE_LEVEL_H_
