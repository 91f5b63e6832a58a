// The bytes tokenizer: id = byte value, end of text = 256, vocabulary 257.
//
// Thread-safe: constant. It is an ordinary byte-level BPE without merges, so the files it writes
// make other libraries give the same ids.
//
//   BytesTokenizer tokenizer;
//   tokenizer.TokenizerJson();   // write as tokenizer.json beside an exported model
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_BYTES_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shardformer/tokenizer/tokenizer.h"

namespace colossus {

class BytesTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEnd = 256;
  static constexpr absl::string_view kEndText = "<|endoftext|>";

  int64_t vocabulary_size() const override { return 257; }
  int32_t end_id() const override { return kEnd; }
  // Any bytes; never an error.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override;
  // All of `text` but a last part that may grow into "<|endoftext|>".
  size_t SafePrefix(absl::string_view text) const override;
  std::string Decode(absl::Span<const int32_t> ids, SpecialTokens special) const override;
  int32_t TextBytes(int32_t id) const override { return id == kEnd ? 0 : 1; }

  std::vector<TokenizerFile> Files(int64_t model_max_length) const override {
    return {{"tokenizer.json", TokenizerJson()},
            {"tokenizer_config.json", TokenizerConfigJson(model_max_length)}};
  }

  // Contents of tokenizer.json and tokenizer_config.json. `model_max_length`: positions of the
  // model exported with them, 0 if it has no limit.
  std::string TokenizerJson() const;
  std::string TokenizerConfigJson(int64_t model_max_length) const;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_BYTES_H_
