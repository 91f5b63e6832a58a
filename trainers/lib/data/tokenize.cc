#include "trainers/lib/data/tokenize.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/load.h"
#include "shardformer/tokenizer/unicode.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/data/data.h"
#include "trainers/lib/data/documents.h"
#include "trainers/lib/data/json_lines.h"
#include "trainers/lib/data/token_store.h"
#include "trainers/lib/report/output_file.h"

namespace colossus {
namespace {

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Before anything is read: all ids are in memory by the time the file is written.
absl::Status CheckOut(FileSystem& files, const std::string& out) {
  if (!absl::EndsWith(out, ".tokens")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--out=", out, " must end in .tokens: by that --data knows a token file from a text"));
  }
  return TryOutputFile(files, "--out", out, kTokenFileMagic);
}

// Documents to lines.
class LineSink final : public DocumentSink {
 public:
  LineSink(const Tokenizer& tokenizer, const LineFunction& print)
      : tokenizer_(tokenizer), print_(print) {}
  absl::Status Text(absl::string_view piece) override {
    absl::StrAppend(&text_, piece);
    return absl::OkStatus();
  }
  absl::Status EndDocument() override {
    ASSIGN_OR_RETURN(const std::string line, TokenizedLine(tokenizer_, text_));
    text_.clear();
    return print_(line);
  }

 private:
  const Tokenizer& tokenizer_;
  const LineFunction& print_;
  std::string text_;
};

// Gives the lines of `in` without '\n'.
absl::Status EachLine(std::FILE* in, absl::FunctionRef<absl::Status(absl::string_view)> give) {
  struct Buffer {
    char* data = nullptr;
    size_t capacity = 0;
    ~Buffer() { std::free(data); }
  } buffer;
  for (;;) {
    const ssize_t size = getline(&buffer.data, &buffer.capacity, in);
    if (size < 0) break;
    absl::string_view line(buffer.data, static_cast<size_t>(size));
    if (absl::EndsWith(line, "\n")) line.remove_suffix(1);
    RETURN_IF_ERROR(give(line));
  }
  return std::ferror(in) ? absl::DataLossError("standard input cannot be read") : absl::OkStatus();
}

// Each line is a document, also an empty one: lines out are as many as lines in.
absl::Status ReadLines(std::FILE* in, DocumentSink& sink, bool keep_empty) {
  int64_t number = 0;
  return EachLine(in, [&](absl::string_view line) {
    if (number == 0) line = absl::StripPrefix(line, kByteOrderMark);
    const std::string place = absl::StrCat("standard input:", ++number);
    const JsonLine scanned = ScanJsonLine(line, "text");
    if (scanned.kind == JsonLineKind::kEmpty && !keep_empty) return absl::OkStatus();
    if (scanned.kind == JsonLineKind::kMissingField) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": the object has no text in its field 'text'"));
    }
    if (scanned.kind == JsonLineKind::kBroken || scanned.kind == JsonLineKind::kBlank) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": not one JSON object such as {\"text\": \"...\"}"));
    }
    absl::Status status =
        DecodeJsonString(scanned.raw, [&](absl::string_view piece) { return sink.Text(piece); });
    if (status.ok()) status = sink.EndDocument();
    return status.ok() ? status : Annotate(status, place);
  });
}

absl::Status ReadFiles(FileSystem& files, const Options::Data& options, DocumentSink& sink,
                       DocumentCounts* counts) {
  ASSIGN_OR_RETURN(const std::vector<InputFile> inputs,
                   FindInputs(files, options.file, ParseDocumentFormat(options.format)));
  for (const InputFile& input : inputs) {
    if (input.format == DocumentFormat::kTokens) {
      return absl::InvalidArgumentError(
          absl::StrCat(input.path, ": a token file, which has ids already"));
    }
    const absl::Status status =
        ReadDocuments(files, input, ParseJsonLinesMode(options.jsonl_mode), sink, counts);
    if (status.ok()) continue;
    return absl::StrContains(status.message(), input.path) ? status : Annotate(status, input.path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> TokenizedLine(const Tokenizer& tokenizer, absl::string_view text) {
  std::vector<int32_t> ids = tokenizer.frame().before;
  ASSIGN_OR_RETURN(const std::vector<int32_t> own, tokenizer.Encode(text));
  ids.insert(ids.end(), own.begin(), own.end());
  ids.insert(ids.end(), tokenizer.frame().after.begin(), tokenizer.frame().after.end());
  const std::string decoded = LossyUtf8(tokenizer.Decode(ids, SpecialTokens::kSkip));
  std::string line = "{\"ids\":[";
  for (size_t i = 0; i < ids.size(); ++i) absl::StrAppend(&line, i == 0 ? "" : ",", ids[i]);
  absl::StrAppend(&line, "],\"decoded\":",
                  nlohmann::json(decoded).dump(-1, ' ', /*ensure_ascii=*/true), "}\n");
  return line;
}

absl::Status Tokenize(FileSystem& files, JobContext& context, std::FILE* in,
                      const LineFunction& print) {
  const Options& options = context.config.options;
  const bool saves = !options.run.out.empty();
  if (saves) RETURN_IF_ERROR(CheckOut(files, options.run.out));
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   NamedTokenizer(files, options.data.tokenizer,
                                  saves ? EndToken::kNeeded : EndToken::kAny));
  TokenStoreBuilder builder(*tokenizer);
  LineSink lines(*tokenizer, print);
  DocumentSink& sink = saves ? static_cast<DocumentSink&>(builder) : lines;
  DocumentCounts counts;
  if (options.data.file.empty()) {
    RETURN_IF_ERROR(ReadLines(in, sink, /*keep_empty=*/!saves));
  } else {
    RETURN_IF_ERROR(ReadFiles(files, options.data, sink, &counts));
    context.log.Info(absl::StrCat(options.data.file, ": ", counts.documents, " documents, ",
                                  counts.bytes, " bytes; passed over: ", counts.PassedOver()));
  }
  if (!saves) return absl::OkStatus();
  const TokenStore store = std::move(builder).Finish();
  if (store.documents() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.data.file.empty() ? "standard input" : options.data.file,
                     " has no document with text; nothing is written to --out=", options.run.out));
  }
  context.begun = true;
  RETURN_IF_ERROR(WriteTokenFile(files, options.run.out, store));
  context.log.Info(absl::StrCat(options.run.out, ": ", store.documents(), " documents, ",
                                store.size(), " tokens, vocabulary ", store.vocabulary(),
                                ", end id ", store.end_id()));
  return absl::OkStatus();
}

absl::StatusOr<int> RunTokenize(JobContext& context) {
  const LineFunction print = [&](absl::string_view line) -> absl::Status {
    if (std::fwrite(line.data(), 1, line.size(), stdout) == line.size()) return absl::OkStatus();
    context.begun = true;
    return absl::UnavailableError(
        absl::StrCat("the results could not be written to standard output: ",
                     std::strerror(errno)));
  };
  RETURN_IF_ERROR(Tokenize(RealFileSystem(), context, stdin, print));
  return 0;
}

}  // namespace colossus
