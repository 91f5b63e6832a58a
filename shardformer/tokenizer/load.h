// The tokenizer of a model directory.
//
// Purpose: recognises what tokenizer.json describes. The bytes tokenizer is what can be read;
// anything else is refused with what stands in the way, never read as something near it.
// Thread-safety: plain functions. Ownership: the tokenizer is the caller's.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(files, "path/to/model"));
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_LOAD_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_LOAD_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/tokenizer.h"

namespace colossus {

// Reads directory/tokenizer.json. Error: NotFound without that file; InvalidArgument for one that
// is no JSON; Unimplemented for another tokenizer.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(FileSystem& files,
                                                         const std::string& directory);

// Whether the contents of a tokenizer.json give the ids of BytesTokenizer for every text.
// `file_name` opens the message. Error: Unimplemented with the first difference.
absl::Status CheckBytesTokenizer(const nlohmann::json& json, absl::string_view file_name);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_LOAD_H_
