// Normalizer: the text that a tokenizer sees in place of the one it is given, as `normalizer` of
// tokenizer.json says.
//
// Thread-safe: constant once made. Kinds read: NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip and
// Sequence. A kind is one case in ParseStep (normalizer.cc).
//
//   ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::Parse(json["normalizer"], "normalizer"));
//   Matcher matcher;
//   std::string text = normalizer.Run("u\u0308", &matcher);   // U+00FC under NFC
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_NORMALIZER_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_NORMALIZER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/pattern.h"

namespace colossus {

class Normalizer {
 public:
  // Null gives one that changes nothing. `path` names the value in messages. Unimplemented names a
  // kind or part that cannot be read.
  static absl::StatusOr<Normalizer> Parse(const nlohmann::json& json, const std::string& path);

  // Whether every text stays as it is.
  bool none() const { return steps_.empty(); }
  // Whether every ASCII text stays as it is, and an ASCII character keeps apart what is before and
  // after it.
  bool KeepsAscii() const;

  // REQUIRES: valid UTF-8. The result is, too. Failures are in the matcher's status.
  std::string Run(absl::string_view text, Matcher* matcher) const;
  // Whether Run would surely change nothing; false where that takes a closer look.
  bool Keeps(absl::string_view text) const;

 private:
  enum class Kind { kForm, kPrepend, kReplace, kStrip };
  struct Step {
    Kind kind = Kind::kForm;
    bool compose = false, compatible = false;  // kForm
    std::string content;                       // kPrepend, kReplace
    std::optional<Pattern> pattern;            // kReplace
    bool left = false, right = false;          // kStrip
  };
  static absl::StatusOr<Step> ParseStep(const nlohmann::json& json, const std::string& path);
  static absl::Status ParseList(const nlohmann::json& json, const std::string& path,
                                std::vector<Step>* steps);
  static std::string RunStep(const Step& step, absl::string_view text, Matcher* matcher);

  std::vector<Step> steps_;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_NORMALIZER_H_
