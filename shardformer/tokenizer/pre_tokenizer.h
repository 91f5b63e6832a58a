// PreTokenizer: a text to the pieces within which BPE merges, as `pre_tokenizer` of tokenizer.json
// says.
//
// Thread-safe: constant once made; what a run writes is in the scratch, one a thread.
// Kinds read: Sequence, Split, Digits and, as the last step, ByteLevel. A kind is one case in
// ParseStep (pre_tokenizer.cc).
//
//   ASSIGN_OR_RETURN(PreTokenizer pre,
//                    PreTokenizer::Parse(json["pre_tokenizer"], "pre_tokenizer"));
//   PreTokenizerScratch scratch;
//   pre.Run("Hello world", &scratch, [&](absl::string_view piece) { ... });
//   RETURN_IF_ERROR(scratch.matcher.status());
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_PRE_TOKENIZER_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_PRE_TOKENIZER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/pattern.h"

namespace colossus {

struct PreTokenizerScratch {
  Matcher matcher;
  std::string subject;                    // the text as patterns see it
  std::string prefixed_text, prefixed_subject;
};

class PreTokenizer {
 public:
  // `path` names the value in messages. Unimplemented names a kind or part that cannot be read.
  static absl::StatusOr<PreTokenizer> Parse(const nlohmann::json& json, const std::string& path);

  // Gives the pieces of `text` in order; none is empty, and each is valid until the next call. With
  // add_prefix_space a piece may begin with a space that `text` lacks. REQUIRES: valid UTF-8.
  void Run(absl::string_view text, PreTokenizerScratch* scratch,
           absl::FunctionRef<void(absl::string_view)> piece) const;

  // Whether a text may be cut before a space that stands between two ASCII letters: the pieces of
  // both parts are those of the whole. Known of the published patterns, false for others.
  bool CutsBeforeSpace() const { return cuts_before_space_; }

 private:
  // What becomes of the stretches that match and those between them.
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Step {
    std::optional<Pattern> pattern;  // none: the piece stays whole
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
    bool add_prefix_space = false;
    bool byte_level = false;
    bool cuts_before_space = false;
  };
  struct Piece;

  static absl::StatusOr<Step> ParseStep(const nlohmann::json& json, const std::string& path);
  static absl::StatusOr<Step> ParseSplit(class Fields& fields);
  static absl::Status ParseList(const nlohmann::json& json, const std::string& path,
                                std::vector<Step>* steps);
  template <class Emit>
  static void Cut(const Step& step, const Piece& piece, Matcher* matcher, Emit emit);
  template <class Emit>
  static void Stretches(const Pattern& pattern, const Piece& piece, Matcher* matcher, Emit emit);
  void RunFrom(size_t index, Piece piece, PreTokenizerScratch* scratch,
               absl::FunctionRef<void(absl::string_view)> give) const;

  std::vector<Step> steps_;
  bool cuts_before_space_ = false;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_PRE_TOKENIZER_H_
