// Text to ids and back, for training data, prompts and answers.
//
// Thread-safe: implementations are constant after they are made. The caller owns them.
//
//   BytesTokenizer tokenizer;
//   ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode("ab"));   // 97, 98
//   std::string text = tokenizer.Decode(ids, SpecialTokens::kSkip);
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_TOKENIZER_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace colossus {

// Whether Decode writes the text of special tokens (end of text) or leaves them out.
enum class SpecialTokens { kKeep, kSkip };

// What lies in a model's directory so that others read the same ids.
struct TokenizerFile {
  std::string name;  // "tokenizer.json"
  std::string contents;
};

struct Frame {
  std::vector<int32_t> before, after;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Number of ids: every id is in [0, vocabulary_size()).
  virtual int64_t vocabulary_size() const = 0;
  // The id that ends a document; -1 if the tokenizer has none (only one loaded with EndToken::kAny
  // may have none).
  virtual int32_t end_id() const = 0;

  // The ids of `text`. No end token is added; where the text spells a special token, its id
  // appears. InvalidArgument for bytes that are no UTF-8, if the tokenizer reads characters;
  // ResourceExhausted where a pattern runs out of memory.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const = 0;

  // The ids that the tokenizer puts around a text that is given to a model; Encode leaves them out.
  virtual const Frame& frame() const;

  // Bytes at the start of `text` that can be encoded apart from all that may follow: for any more,
  // Encode(text.substr(0, n)) then Encode(text.substr(n) + more) is Encode(text + more). 0 means
  // that the tokenizer must see the whole document at once.
  virtual size_t SafePrefix(absl::string_view text) const = 0;

  // The text of `ids`, byte for byte; it need not be valid UTF-8. REQUIRES: ids in the vocabulary.
  virtual std::string Decode(absl::Span<const int32_t> ids, SpecialTokens special) const = 0;

  // Bytes of text that `id` stands for; 0 for special tokens. Loss in bits per byte divides by it.
  virtual int32_t TextBytes(int32_t id) const = 0;

  // The files from which the tokenizer is loaded again. `model_max_length`: positions of the model
  // exported with them, 0 if it has no limit.
  virtual std::vector<TokenizerFile> Files(int64_t model_max_length) const = 0;
};

inline const Frame& Tokenizer::frame() const {
  static const Frame& none = *new Frame;
  return none;
}

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_TOKENIZER_H_
