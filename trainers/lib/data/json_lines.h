// One line of a JSON-lines file, looked at in place: no copy of the line or of its text is made, so
// a line of any length takes no memory of its own.
//
// Thread-safe: functions of their arguments. Results point into the line.
//
//   JsonLine line = ScanJsonLine(R"({"text":"a\nb"})", "text");
//   if (line.kind == JsonLineKind::kText) DecodeJsonString(line.raw, [&](auto piece) { ... });
#ifndef COLOSSUS_TRAINERS_LIB_DATA_JSON_LINES_H_
#define COLOSSUS_TRAINERS_LIB_DATA_JSON_LINES_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace colossus {

enum class JsonLineKind {
  kText,          // an object with the field, a string that is not empty
  kBlank,         // nothing but spaces
  kEmpty,         // the field is ""
  kMissingField,  // an object without the field, or with something that is no string in it
  kBroken,        // not one JSON object, or the field is given twice
};

struct JsonLine {
  JsonLineKind kind;
  absl::string_view raw;  // kText: what stands between the quotes, escapes and all
};

// `line` without its '\n'; a '\r' before it is white space. The whole line is checked, UTF-8 and
// escapes included, so that DecodeJsonString cannot fail on `raw`.
JsonLine ScanJsonLine(absl::string_view line, absl::string_view field);

// Gives the text of `raw` to `sink` in pieces of at most 64 KiB, in order; a character is never
// split, and bytes of pieces add up to the text. Stops at the first error of `sink` and returns it.
// REQUIRES: `raw` from ScanJsonLine.
absl::Status DecodeJsonString(absl::string_view raw,
                              absl::FunctionRef<absl::Status(absl::string_view)> sink);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_DATA_JSON_LINES_H_
