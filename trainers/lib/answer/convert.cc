#include "trainers/lib/answer/convert.h"

#include <cstdio>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/tokenizer/bytes.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/checkpoint/export_run.h"
#include "trainers/lib/checkpoint/model_source.h"
#include "trainers/lib/checkpoint/run_lock.h"
#include "trainers/lib/data/data.h"

namespace colossus {
namespace {

// What lies beside the weights and is not ours to change.
constexpr const char* kBeside[] = {"tokenizer.json",          "tokenizer_config.json",
                                   "special_tokens_map.json", "added_tokens.json",
                                   "vocab.json",              "merges.txt",
                                   "tokenizer.model",         "chat_template.jinja",
                                   "generation_config.json"};

// What is there is neither written over nor hidden: where a folder has a config.json, that model is
// read, whatever checkpoints lie below it.
absl::Status CheckFree(FileSystem& files, const std::string& to) {
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    if (!files.Exists(JoinPath(to, name))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--out=", to, " already holds a model (", name, "); give another folder"));
  }
  if (!files.IsDirectory(CheckpointFolder(to))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--out=", to, " is the folder of a run, whose checkpoints a model beside them ",
                   "would hide; give another folder, as --out=", JoinPath(to, "converted")));
}

absl::Status CopyBeside(FileSystem& files, const std::string& from, const std::string& to) {
  for (const char* name : kBeside) {
    if (!files.Exists(JoinPath(from, name))) continue;
    ASSIGN_OR_RETURN(const std::string bytes, files.ReadFile(JoinPath(from, name)));
    RETURN_IF_ERROR(files.WriteFileAtomically(JoinPath(to, name), bytes));
  }
  return absl::OkStatus();
}

// The tokenizer of the run that made the checkpoint: what it kept, or bytes, for which a vocabulary
// of their size was made; null where it had none.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(FileSystem& files, const Options& options,
                                                       const ModelSource& model) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      FindTokenizer(files, options, model.config().eos_ids);
  if (!absl::IsNotFound(tokenizer.status())) return tokenizer;
  auto bytes = std::make_unique<BytesTokenizer>();
  const bool own = model.config().vocabulary == bytes->vocabulary_size() ||
                   model.config().eos_ids == std::vector<int64_t>{bytes->end_id()};
  return own ? std::unique_ptr<Tokenizer>(std::move(bytes)) : nullptr;
}

}  // namespace

absl::Status Convert(FileSystem& files, JobContext& context) {
  const Options& options = context.config.options;
  const std::string &from = options.model.directory, &to = options.run.out;
  RETURN_IF_ERROR(CheckFree(files, to));
  RETURN_IF_ERROR(CheckOutsideRuns(files, "--out", to));
  std::unique_ptr<FileLock> lock;  // no run begins there meanwhile
  if (files.IsDirectory(to)) {
    ASSIGN_OR_RETURN(lock, LockForRun(files, "--out", to, context.log));
  }
  ASSIGN_OR_RETURN(const ModelSource model,
                   ModelSource::Open(files, from, options.model.require_tied, context.log));
  context.log.Info(absl::StrCat("converts ", model.what()));
  if (const absl::Status made = files.MakeDirs(to); !made.ok()) {
    return absl::Status(made.code(), absl::StrCat("--out=", to, " cannot be written: ",
                                                  made.message(),
                                                  "; give a folder that can be written"));
  }
  context.begun = true;
  std::unique_ptr<Tokenizer> tokenizer;
  if (model.checkpoint() != nullptr) {
    ASSIGN_OR_RETURN(tokenizer, TokenizerOf(files, options, model));
  }
  RETURN_IF_ERROR(ExportRun(
      files, to, model.config(), model.parameters(), tokenizer.get(),
      [&](const StateInfo& info) { return model.Read(info, DType::kF32); }));
  return model.checkpoint() != nullptr ? absl::OkStatus() : CopyBeside(files, from, to);
}

absl::StatusOr<int> RunConvert(JobContext& context) {
  RETURN_IF_ERROR(Convert(RealFileSystem(), context));
  std::printf("model: %s\n", context.config.options.run.out.c_str());
  return 0;
}

}  // namespace colossus
