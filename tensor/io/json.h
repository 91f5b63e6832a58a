// JSON text to nlohmann::json, with what configuration and checkpoint headers need on top of the
// standard: a name given twice in one object is an error, nesting is limited, and every error is a
// Status that names the file and the line. No exception leaves these functions.
//
// Thread-safety: free functions without state. The result owns its memory and does not refer to
// the text.
//
//   ASSIGN_OR_RETURN(nlohmann::json config, ParseJson(text, "config.json"));
//   // config.json:7: the name rope_parameters.factor is given twice in one object
#ifndef COLOSSUS_TENSOR_IO_JSON_H_
#define COLOSSUS_TENSOR_IO_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "nlohmann/json.hpp"

namespace colossus {

// Objects and arrays inside each other that ParseJson accepts unless told otherwise. Files of the
// formats read here nest less than ten deep.
inline constexpr int kJsonMaxDepth = 64;

// Parses the whole of `text` (UTF-8, a byte order mark is skipped) as one JSON value.
// `file_name` only opens the messages. InvalidArgument for anything that is not JSON, for text
// after the value, for a name given twice in one object and for more than `max_depth` levels.
// Memory is proportional to the length of the text.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view file_name,
                                         int max_depth = kJsonMaxDepth);

// ParseJson over a file's contents; the messages name `path`.
absl::StatusOr<nlohmann::json> ReadJsonFile(FileSystem& files, const std::string& path);

// The value as text for messages, cut to about 60 bytes. Never throws: strings that are not UTF-8
// are shown with replacement characters.
std::string JsonExcerpt(const nlohmann::json& value);

// What a value is, for messages: "an object", "a string", "null" ...
absl::string_view JsonKind(const nlohmann::json& value);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_IO_JSON_H_
