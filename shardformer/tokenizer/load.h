// The tokenizer of a model directory or of a file.
//
// Purpose: reads tokenizer.json and finds the token that ends a text, which that file does not
// tell. What cannot be read is refused with its name, never read as something near it.
// Thread-safety: plain functions. Ownership: the tokenizer is the caller's.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(files, "path/to/model"));
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_LOAD_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_LOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/tokenizer.h"

namespace colossus {

// Whether a tokenizer without an end token is refused.
enum class EndToken { kNeeded, kAny };

struct LoadTokenizerOptions {
  EndToken end = EndToken::kNeeded;
  // What the config of the tokenizer's own model says; empty where there is none.
  std::vector<int64_t> model_end_ids;
};

// Reads `path`, or path/tokenizer.json where that is a folder. The end token is the first of these
// that is there: the first of model_end_ids if it is a special token, eos_token of
// tokenizer_config.json beside the file, a special token with one of the usual names. A file that
// gives the ids of BytesTokenizer gives a BytesTokenizer. Error: NotFound without that file;
// InvalidArgument for one that is wrong; Unimplemented for one that cannot be read; both name the
// file, the member and what stands there.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(FileSystem& files,
                                                         const std::string& path,
                                                         const LoadTokenizerOptions& options = {});

// Whether the contents of a tokenizer.json give the ids of BytesTokenizer for every text.
// `file_name` opens the message. Error: Unimplemented with the first difference.
absl::Status CheckBytesTokenizer(const nlohmann::json& json, absl::string_view file_name);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_LOAD_H_
