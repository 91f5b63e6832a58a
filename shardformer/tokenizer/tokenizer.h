// Text to ids and back, for training data, prompts and answers.
//
// Thread-safe: implementations are constant after they are made. The caller owns them.
//
//   BytesTokenizer tokenizer;
//   std::vector<int32_t> ids = tokenizer.Encode("ab");          // 97, 98
//   std::string text = tokenizer.Decode(ids, SpecialTokens::kSkip);
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_TOKENIZER_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace colossus {

// Whether Decode writes the text of special tokens (end of text) or leaves them out.
enum class SpecialTokens { kKeep, kSkip };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Number of ids: every id is in [0, vocabulary_size()).
  virtual int64_t vocabulary_size() const = 0;
  // The id that ends a document.
  virtual int32_t end_id() const = 0;

  // The ids of `text`. No end token is added; where the text spells a special token, its id
  // appears.
  virtual std::vector<int32_t> Encode(absl::string_view text) const = 0;

  // Bytes at the start of `text` that can be encoded apart from all that may follow: for any more,
  // Encode(text.substr(0, n)) then Encode(text.substr(n) + more) is Encode(text + more). 0 means
  // that the tokenizer must see the whole document at once.
  virtual size_t SafePrefix(absl::string_view text) const = 0;

  // The text of `ids`, byte for byte; it need not be valid UTF-8. REQUIRES: ids in the vocabulary.
  virtual std::string Decode(absl::Span<const int32_t> ids, SpecialTokens special) const = 0;

  // Bytes of text that `id` stands for; 0 for special tokens. Loss in bits per byte divides by it.
  virtual int32_t TextBytes(int32_t id) const = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_TOKENIZER_H_
