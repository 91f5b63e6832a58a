// Files to documents: whole texts, `%` files and JSON lines.
//
// Thread-safe: functions of their arguments. Files are mapped and given on in pieces of at most
// 64 KiB, so memory does not grow with a file or a line.
//
//   ASSIGN_OR_RETURN(std::vector<InputFile> inputs, FindInputs(files, "corpus/",
//   DocumentFormat::kAuto)); DocumentCounts counts; for (const InputFile& input : inputs) {
//     RETURN_IF_ERROR(ReadDocuments(files, input, JsonLinesMode::kStrict, sink, &counts));
//   }
#ifndef COLOSSUS_TRAINERS_LIB_DATA_DOCUMENTS_H_
#define COLOSSUS_TRAINERS_LIB_DATA_DOCUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace colossus {

enum class DocumentFormat {
  kAuto,       // by name, see FindInputs
  kText,       // the file is one document
  kFortune,    // documents end before a line that is a single %, or with the file
  kJsonLines,  // the field `text` of the object on each line
  kTokens,     // a token file (token_store.h): ids, not text
};
enum class JsonLinesMode {
  kStrict,   // a broken line or one without the field refuses the file
  kLenient,  // such lines are counted and passed over
};

// The names of data.format and data.jsonl_mode. REQUIRES: a name of the schema.
DocumentFormat ParseDocumentFormat(absl::string_view name);
JsonLinesMode ParseJsonLinesMode(absl::string_view name);

struct InputFile {
  std::string path;
  DocumentFormat format;  // never kAuto
};

// What was read, and what was passed over. Blank lines and empty documents are no error anywhere.
struct DocumentCounts {
  int64_t documents = 0;  // not empty
  int64_t bytes = 0;      // of their text
  int64_t blank = 0;
  int64_t empty = 0;
  int64_t missing_field = 0;
  int64_t broken = 0;

  // "blank 1, empty 1, missing field 1, broken 1".
  std::string PassedOver() const;
};

// Receives the documents that are not empty, in order.
class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  // A piece of the present document, cut anywhere but within an escape or character of JSON.
  virtual absl::Status Text(absl::string_view piece) = 0;
  virtual absl::Status EndDocument() = 0;
};

// `path` itself, or the files of the folder `path` in order of their names, without the indexes of
// `%` files (.dat) and the links beside them (.u8). kAuto becomes kJsonLines for .jsonl, kTokens
// for .tokens, kFortune where an index NAME.dat stands beside the file, else kText. NotFound names
// the path; a folder without files is InvalidArgument.
absl::StatusOr<std::vector<InputFile>> FindInputs(FileSystem& files, const std::string& path,
                                                  DocumentFormat format);

// Adds to `counts`. A `%` document keeps its last line break; a JSON text is what its escapes say.
// Strict mode refuses with "path:line: ...". REQUIRES: input.format is not kTokens.
absl::Status ReadDocuments(FileSystem& files, const InputFile& input, JsonLinesMode mode,
                           DocumentSink& sink, DocumentCounts* counts);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_DATA_DOCUMENTS_H_
