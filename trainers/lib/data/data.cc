#include "trainers/lib/data/data.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file_system.h"
#include "base/status.h"
#include "shardformer/tokenizer/bytes.h"
#include "shardformer/tokenizer/load.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/data/documents.h"
#include "trainers/lib/data/token_store.h"

namespace colossus {
namespace {

// `status` with the file's name, if it has none.
absl::Status InFile(const absl::Status& status, const std::string& path) {
  return absl::StrContains(status.message(), path) ? status : Annotate(status, path);
}

struct Corpus {
  std::shared_ptr<const TokenStore> store;
  std::string text;   // for the summary
  int64_t bytes = 0;  // of the documents; 0: not known
};

absl::StatusOr<Corpus> MapCorpus(FileSystem& files, const std::string& path,
                                 const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(TokenStore store, MapTokenFile(files, path));
  if (store.vocabulary() != tokenizer.vocabulary_size() || store.end_id() != tokenizer.end_id()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": made for a vocabulary of ", store.vocabulary(), " with end id ", store.end_id(),
        ", but the tokenizer has ", tokenizer.vocabulary_size(), " and ", tokenizer.end_id(),
        "; give the --tokenizer that made it"));
  }
  Corpus corpus;
  corpus.text =
      absl::StrCat(path, ": ", store.documents(), " documents, ", store.size(), " tokens");
  corpus.store = std::make_shared<const TokenStore>(std::move(store));
  return corpus;
}

absl::StatusOr<Corpus> ReadCorpus(FileSystem& files, const std::string& path,
                                  const Options::Data& options, const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(const std::vector<InputFile> inputs,
                   FindInputs(files, path, ParseDocumentFormat(options.format)));
  TokenStoreBuilder builder(tokenizer);
  DocumentCounts counts;
  for (const InputFile& input : inputs) {
    if (input.format == DocumentFormat::kTokens) {
      if (inputs.size() == 1) return MapCorpus(files, input.path, tokenizer);
      return absl::InvalidArgumentError(absl::StrCat(
          input.path, ": a token file is read alone; give it as data.file, not its folder"));
    }
    const absl::Status status =
        ReadDocuments(files, input, ParseJsonLinesMode(options.jsonl_mode), builder, &counts);
    if (!status.ok()) return InFile(status, input.path);
  }
  TokenStore store = std::move(builder).Finish();
  Corpus corpus;
  corpus.bytes = counts.bytes;
  corpus.text = absl::StrCat(path, ": ", counts.documents, " documents, ", counts.bytes, " bytes, ",
                             store.size(), " tokens; passed over: ", counts.PassedOver());
  corpus.store = std::make_shared<const TokenStore>(std::move(store));
  return corpus;
}

// Where the tokenizer of model.directory lies: beside the checkpoints of a run, or in it.
std::string TokenizerFolder(FileSystem& files, const std::string& directory) {
  if (IsCheckpoint(files, directory)) {
    const std::string path(absl::StripSuffix(directory, "/"));
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
  }
  const std::string checkpoints = CheckpointFolder(directory);
  const bool run = !files.Exists(JoinPath(directory, "config.json")) && files.Exists(checkpoints);
  return run ? checkpoints : directory;
}

// Rows of `ranges`, or a refusal where they hold no target.
absl::StatusOr<std::unique_ptr<RowSource>> MakeRows(const Corpus& corpus,
                                                    std::vector<TokenRange> ranges,
                                                    const Options::Data& options,
                                                    const DataShape& shape, const char* purpose) {
  const Packing packing = options.packing == "join" ? Packing::kJoin : Packing::kBorders;
  auto rows =
      std::make_unique<WindowRows>(corpus.store, std::move(ranges), shape.sequence_length, packing);
  if (rows->rows() > 0) return rows;
  return absl::InvalidArgumentError(
      absl::StrCat(corpus.text, ": nothing is left for ", purpose, "; it needs two tokens"));
}

absl::StatusOr<DataSet> Generated(const DataShape& shape) {
  DataSet data;
  data.train = std::make_unique<SyntheticRows>(shape.seed, shape.vocabulary, shape.sequence_length);
  data.summary = absl::StrCat("data: generated rows of ", shape.sequence_length, " tokens");
  return data;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> NamedTokenizer(FileSystem& files,
                                                          const std::string& name, EndToken end) {
  if (name == "bytes") return std::make_unique<BytesTokenizer>();
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      LoadTokenizer(files, name, {.end = end, .model_end_ids = {}});
  if (!absl::IsNotFound(tokenizer.status())) return tokenizer;
  return absl::InvalidArgumentError(
      absl::StrCat("data.tokenizer is \"", name, "\": ", tokenizer.status().message(),
                   "; give bytes, a tokenizer.json or its folder"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> FindTokenizer(
    FileSystem& files, const Options& options, const std::vector<int64_t>& model_end_ids) {
  if (!options.data.tokenizer.empty()) return NamedTokenizer(files, options.data.tokenizer);
  const std::string& directory = options.model.directory;
  const std::string folder = TokenizerFolder(files, directory);
  if (directory.empty() || !files.Exists(JoinPath(folder, "tokenizer.json"))) {
    return absl::NotFoundError(absl::StrCat(directory, " has no tokenizer.json"));
  }
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      LoadTokenizer(files, folder, {.model_end_ids = model_end_ids});
  if (tokenizer.ok()) return tokenizer;
  return absl::Status(tokenizer.status().code(),
                      absl::StrCat(tokenizer.status().message(),
                                   "; --tokenizer=FILE reads text with another one"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> FindTextTokenizer(
    FileSystem& files, const Options& options, const std::vector<int64_t>& model_end_ids) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      FindTokenizer(files, options, model_end_ids);
  if (absl::IsNotFound(tokenizer.status())) return std::make_unique<BytesTokenizer>();
  return tokenizer;
}

absl::StatusOr<DataSet> LoadData(FileSystem& files, const Options::Data& options,
                                 const DataShape& shape) {
  if (options.file == "synthetic") return Generated(shape);
  const Tokenizer& tokenizer = *shape.tokenizer;
  if (tokenizer.vocabulary_size() > shape.vocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer of the data has ids up to ", tokenizer.vocabulary_size() - 1,
                     " but the model's vocabulary is ", shape.vocabulary,
                     "; give the model's own tokenizer as --tokenizer"));
  }
  ASSIGN_OR_RETURN(const Corpus corpus, ReadCorpus(files, options.file, options, tokenizer));
  DataSplit split = HoldOut(*corpus.store, options.validation_share);
  DataSet data;
  data.token_bytes = TokenBytes(tokenizer);
  data.text_bytes = corpus.bytes;
  data.summary = absl::StrCat("data: ", corpus.text);
  const bool bytes = dynamic_cast<const BytesTokenizer*>(&tokenizer) != nullptr;
  if (bytes && options.tokenizer.empty() && shape.vocabulary != tokenizer.vocabulary_size()) {
    absl::StrAppend(&data.summary, "; read byte by byte, while the model's vocabulary is ",
                    shape.vocabulary, ": if that is of another tokenizer, give it as --tokenizer");
  }
  if (options.validation_share > 0) {
    ASSIGN_OR_RETURN(data.validation,
                     MakeRows(corpus, std::move(split.validation), options, shape, "validation"));
  }
  ASSIGN_OR_RETURN(data.train,
                   MakeRows(corpus, std::move(split.train), options, shape, "training"));
  if (!options.validation_file.empty()) {
    ASSIGN_OR_RETURN(const Corpus held,
                     ReadCorpus(files, options.validation_file, options, tokenizer));
    ASSIGN_OR_RETURN(data.validation,
                     MakeRows(held, HoldOut(*held.store, 0).train, options, shape, "validation"));
    absl::StrAppend(&data.summary, "; validation: ", held.text);
  }
  absl::StrAppend(&data.summary, "; rows of ", shape.sequence_length, ": ", data.train->rows());
  if (data.validation) {
    absl::StrAppend(&data.summary, ", for validation: ", data.validation->rows());
  }
  return data;
}

}  // namespace colossus
