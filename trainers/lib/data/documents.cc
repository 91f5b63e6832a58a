#include "trainers/lib/data/documents.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/file_system.h"
#include "base/status.h"
#include "trainers/lib/data/json_lines.h"

namespace colossus {
namespace {

constexpr size_t kPiece = 64 << 10;  // bytes
constexpr char kField[] = "text";

DocumentFormat FormatOf(FileSystem& files, const std::string& path) {
  if (absl::EndsWith(path, ".jsonl") || absl::EndsWith(path, ".ndjson")) {
    return DocumentFormat::kJsonLines;
  }
  if (absl::EndsWith(path, ".tokens")) return DocumentFormat::kTokens;
  return files.Exists(path + ".dat") ? DocumentFormat::kFortune : DocumentFormat::kText;
}

// The line at the start of `text` with its line break, if it has one.
absl::string_view FirstLine(absl::string_view text) {
  const void* end = memchr(text.data(), '\n', text.size());
  if (end == nullptr) return text;
  return text.substr(0, static_cast<size_t>(static_cast<const char*>(end) - text.data()) + 1);
}

absl::Status GiveDocument(absl::string_view text, DocumentSink& sink, DocumentCounts* counts) {
  if (text.empty()) {
    ++counts->empty;
    return absl::OkStatus();
  }
  ++counts->documents;
  counts->bytes += static_cast<int64_t>(text.size());
  for (; !text.empty(); text.remove_prefix(std::min(kPiece, text.size()))) {
    RETURN_IF_ERROR(sink.Text(text.substr(0, kPiece)));
  }
  return sink.EndDocument();
}

absl::Status ReadFortunes(absl::string_view text, DocumentSink& sink, DocumentCounts* counts) {
  absl::string_view document = text.substr(0, 0);
  while (!text.empty()) {
    const absl::string_view line = FirstLine(text);
    text.remove_prefix(line.size());
    if (line == "%" || line == "%\n" || line == "%\r\n") {
      RETURN_IF_ERROR(GiveDocument(document, sink, counts));
      document = text.substr(0, 0);
    } else {
      document = absl::string_view(document.data(), document.size() + line.size());
    }
  }
  // Nothing after the last separator is no document, not an empty one.
  return document.empty() ? absl::OkStatus() : GiveDocument(document, sink, counts);
}

absl::Status GiveJsonText(absl::string_view raw, DocumentSink& sink, DocumentCounts* counts) {
  ++counts->documents;
  RETURN_IF_ERROR(DecodeJsonString(raw, [&](absl::string_view piece) {
    counts->bytes += static_cast<int64_t>(piece.size());
    return sink.Text(piece);
  }));
  return sink.EndDocument();
}

absl::Status ReadJsonLines(absl::string_view path, absl::string_view text, JsonLinesMode mode,
                           DocumentSink& sink, DocumentCounts* counts) {
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) text.remove_prefix(3);  // byte order mark
  const bool strict = mode == JsonLinesMode::kStrict;
  for (int64_t number = 1; !text.empty(); ++number) {
    absl::string_view line = FirstLine(text);
    text.remove_prefix(line.size());
    if (absl::EndsWith(line, "\n")) line.remove_suffix(1);
    const JsonLine scanned = ScanJsonLine(line, kField);
    const std::string place = absl::StrCat(path, ":", number, ": ");
    switch (scanned.kind) {
      case JsonLineKind::kText:
        RETURN_IF_ERROR(GiveJsonText(scanned.raw, sink, counts));
        break;
      case JsonLineKind::kBlank:
        ++counts->blank;
        break;
      case JsonLineKind::kEmpty:
        ++counts->empty;
        break;
      case JsonLineKind::kMissingField:
        if (strict) {
          return absl::InvalidArgumentError(
              absl::StrCat(place, "the object has no text in its field '", kField,
                           "'; --jsonl_mode=lenient passes over such lines"));
        }
        ++counts->missing_field;
        break;
      case JsonLineKind::kBroken:
        if (strict) {
          return absl::InvalidArgumentError(absl::StrCat(
              place, "not one JSON object; --jsonl_mode=lenient passes over such lines"));
        }
        ++counts->broken;
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

DocumentFormat ParseDocumentFormat(absl::string_view name) {
  if (name == "auto") return DocumentFormat::kAuto;
  if (name == "text") return DocumentFormat::kText;
  if (name == "fortune") return DocumentFormat::kFortune;
  if (name == "jsonl") return DocumentFormat::kJsonLines;
  CHECK(name == "tokens") << std::string(name);
  return DocumentFormat::kTokens;
}

JsonLinesMode ParseJsonLinesMode(absl::string_view name) {
  CHECK(name == "strict" || name == "lenient") << std::string(name);
  return name == "strict" ? JsonLinesMode::kStrict : JsonLinesMode::kLenient;
}

std::string DocumentCounts::PassedOver() const {
  return absl::StrCat("blank ", blank, ", empty ", empty, ", missing field ", missing_field,
                      ", broken ", broken);
}

absl::StatusOr<std::vector<InputFile>> FindInputs(FileSystem& files, const std::string& path,
                                                  DocumentFormat format) {
  if (!files.Exists(path)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file or folder"));
  }
  std::vector<std::string> paths = {path};
  if (files.IsDirectory(path)) {
    paths.clear();
    ASSIGN_OR_RETURN(std::vector<std::string> names, files.List(path));
    for (const std::string& name : names) {
      const bool beside = absl::EndsWith(name, ".dat") || absl::EndsWith(name, ".u8");
      const std::string full = JoinPath(path, name);
      if (!beside && !files.IsDirectory(full)) paths.push_back(full);
    }
    if (paths.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": a folder without files to read; its subfolders are not searched"));
    }
  }
  std::vector<InputFile> inputs;
  for (const std::string& file : paths) {
    inputs.push_back({file, format == DocumentFormat::kAuto ? FormatOf(files, file) : format});
  }
  return inputs;
}

absl::Status ReadDocuments(FileSystem& files, const InputFile& input, JsonLinesMode mode,
                           DocumentSink& sink, DocumentCounts* counts) {
  ASSIGN_OR_RETURN(const MappedFile file, files.Map(input.path));
  const absl::string_view text(file.data(), static_cast<size_t>(file.size()));
  switch (input.format) {
    case DocumentFormat::kText:
      return GiveDocument(text, sink, counts);
    case DocumentFormat::kFortune:
      return ReadFortunes(text, sink, counts);
    case DocumentFormat::kJsonLines:
      return ReadJsonLines(input.path, text, mode, sink, counts);
    case DocumentFormat::kAuto:
    case DocumentFormat::kTokens:
      break;
  }
  CHECK(false) << input.path << " is no file of documents";
  return absl::OkStatus();
}

}  // namespace colossus
