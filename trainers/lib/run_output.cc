#include "trainers/lib/run_output.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/tokenizer/bytes.h"
#include "tensor/exec/non_finite.h"
#include "tensor/graph/state_piece.h"
#include "trainers/lib/checkpoint/write.h"
#include "trainers/lib/export_run.h"
#include "trainers/lib/run_lock.h"

namespace colossus {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

// Of the buffer that states are copied through: no larger than the largest of them.
int64_t StagingBytes(const std::vector<StateHome>& states) {
  int64_t largest = 0;
  for (const StateHome& home : states) largest = std::max(largest, home.type.bytes());
  return std::min(kPieceBytes, largest);
}

absl::Status CheckFinite(const StateHome& home, int64_t offset, const void* values,
                         int64_t bytes) {
  const int64_t size = SizeOf(home.type.dtype), elements = bytes / size;
  const BadElement bad = FindNonFinite(home.type.dtype, values, elements);
  if (bad.index == elements) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("state '", home.info.name, "' holds ", bad.kind,
                                          " at element ", offset / size + bad.index,
                                          ": nothing is saved; a smaller optimizer.learning_rate "
                                          "may help"));
}

// The most exact value the run has of a parameter.
absl::StatusOr<HostTensor> ReadMaster(Program& program, const StateInfo& info) {
  const std::string master = StateName(Role::kMaster, info.name);
  return program.ReadState(program.plan().FindState(master) != nullptr ? master : info.name);
}

// For a folder without a usable checkpoint: to begin again would end in removing what may still be
// repaired. An interrupted save leaves none behind that looks complete.
absl::Status CheckNoneLost(FileSystem& files, const std::string& folder) {
  if (!files.Exists(folder)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, "step-") || absl::EndsWith(name, ".tmp")) continue;
    return absl::DataLossError(absl::StrCat("no checkpoint in ", folder, " can be read, ", name,
                                            " among them; repair or ",
                                            "remove them, or give another --out"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunOutput> RunOutput::Open(FileSystem& files, const Options::Run& options,
                                          Log& log) {
  RunOutput output(files, options, log);
  if (!output.saves()) {
    log.Info("nothing is saved: --out=DIR would keep checkpoints and the trained model");
    return output;
  }
  if (options.device == "null") {
    output.out_.clear();
    log.Info("nothing is saved: the null device has no values");
    return output;
  }
  RETURN_IF_ERROR(CheckOutsideRuns(files, "--out", options.out));
  output.existed_ = files.IsDirectory(options.out);
  if (output.existed_) {
    ASSIGN_OR_RETURN(output.lock_, LockForRun(files, "--out", options.out, log));
    ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(options.out));
    if (options.resume == "never" && !names.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--out=", options.out, " is not empty and run.resume is never; give an ",
                       "empty folder, or leave --resume out to go on from its newest checkpoint"));
    }
  }
  const std::string folder = CheckpointFolder(options.out);
  ASSIGN_OR_RETURN(output.resumed_, FindNewest(files, folder, log));
  if (output.resumed_) {
    output.newest_ = output.resumed_->path();
    log.Info(absl::StrCat("resumes from ", output.newest_));
  } else {
    RETURN_IF_ERROR(CheckNoneLost(files, folder));
    log.Info(absl::StrCat("no checkpoint in ", folder, ": the run begins; it will save there"));
  }
  return output;
}

std::string RunOutput::newest() const { return newest_.empty() ? "none" : newest_; }

absl::Status RunOutput::CheckStates(const Session& session) const {
  for (const StateHome& home : session.training->states()) {
    const SavedState* saved = resumed_->Find(home.info.name);
    if (saved == nullptr || saved->type != home.type) {
      return absl::InvalidArgumentError(absl::StrCat(
          resumed_->path(), ": state '", home.info.name, "' is ",
          saved == nullptr ? "missing" : ToString(saved->type), "; this run needs ",
          ToString(home.type)));
    }
  }
  return absl::OkStatus();
}

// A run that made the folder since Open looked may even have ended again.
absl::Status RunOutput::LockNewFolder() {
  ASSIGN_OR_RETURN(lock_, LockForRun(*files_, "--out", out_, *log_));
  if (!files_->Exists(CheckpointFolder(out_))) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--out=", out_, " was made by another run just now; start this one again"));
}

absl::Status RunOutput::TryToWrite() {
  if (!saves()) return absl::OkStatus();
  const std::string folder = CheckpointFolder(out_);
  absl::Status status = files_->MakeDirs(out_);
  if (status.ok() && !existed_) RETURN_IF_ERROR(LockNewFolder());
  if (status.ok()) status = files_->MakeDirs(folder);
  const std::string trial = JoinPath(folder, "trial.tmp");
  if (status.ok()) status = files_->Create(trial).status();
  if (status.ok()) status = files_->Remove(trial);
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("nothing can be saved in --out=", out_, ": ", status.message(),
                                   "; give a folder that can be written"));
}

absl::Status RunOutput::Restore(Session& session) const {
  std::vector<char> buffer(static_cast<size_t>(StagingBytes(session.training->states())));
  Program& program = session.training->program();
  for (const StateHome& home : session.training->states()) {
    const StatePiece whole = WholePiece(home.type.dims);
    const int64_t size = SizeOf(home.type.dtype);
    const int64_t most = static_cast<int64_t>(buffer.size()) / size;  // elements
    for (int64_t at = 0; at < whole.count; at += most) {
      const int64_t count = std::min(most, whole.count - at);
      RETURN_IF_ERROR(
          resumed_->ReadPiece(home.info.name, PartOf(whole, at, count), buffer.data()));
      RETURN_IF_ERROR(
          program.WriteStateBytes(home.info.name, at * size, buffer.data(), count * size));
    }
  }
  return absl::OkStatus();
}

// Beside the checkpoints, so that each of them can be used with it.
absl::Status RunOutput::KeepTokenizer(const Session& session) const {
  if (session.tokenizer == nullptr) return absl::OkStatus();
  for (const TokenizerFile& file : session.tokenizer->Files(session.model.max_positions)) {
    const std::string path = JoinPath(CheckpointFolder(out_), file.name);
    const absl::StatusOr<std::string> kept = files_->ReadFile(path);
    if (kept.ok() && *kept == file.contents) continue;
    RETURN_IF_ERROR(files_->WriteFileAtomically(path, file.contents));
  }
  return absl::OkStatus();
}

absl::Status RunOutput::CheckTokenizer(const Session& session) const {
  const std::string path = JoinPath(CheckpointFolder(out_), "tokenizer.json");
  if (session.tokenizer == nullptr || !files_->Exists(path)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string kept, files_->ReadFile(path));
  for (const TokenizerFile& file : session.tokenizer->Files(session.model.max_positions)) {
    if (file.name != "tokenizer.json" || file.contents == kept) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the run was trained with another tokenizer; give it as --tokenizer=",
                     path, ", or another --out"));
  }
  return absl::OkStatus();
}

absl::Status RunOutput::Save(Session& session, CheckpointRecord record) {
  Program& program = session.training->program();
  record.states.clear();
  for (const StateHome& home : session.training->states()) {
    record.states.push_back({home.info.name, std::string(Name(home.info.role)), home.type});
  }
  const std::string folder = CheckpointFolder(out_);
  RETURN_IF_ERROR(KeepTokenizer(session));
  const std::vector<StateHome>& homes = session.training->states();
  RETURN_IF_ERROR(WriteCheckpoint(
      *files_, folder, record, WholePieces(record.states),
      [&](size_t piece, int64_t offset, void* dst, int64_t bytes) {
        RETURN_IF_ERROR(program.ReadStateBytes(homes[piece].info.name, offset, dst, bytes));
        return CheckFinite(homes[piece], offset, dst, bytes);
      }));
  newest_ = CheckpointPath(folder, record.counters.attempted);
  log_->Info(absl::StrCat("saved ", newest_));
  const absl::Status kept = KeepNewest(*files_, folder, record.counters.attempted, keep_);
  if (!kept.ok()) {
    log_->Warning(absl::StrCat("older checkpoints are not removed: ", kept.message()));
  }
  return absl::OkStatus();
}

absl::Status RunOutput::Export(Session& session) {
  Program& program = session.training->program();
  const BytesTokenizer bytes;  // a vocabulary of its size was made for it
  const Tokenizer* tokenizer = session.tokenizer.get();
  if (tokenizer == nullptr && session.model.vocabulary == bytes.vocabulary_size()) {
    tokenizer = &bytes;
  }
  return ExportRun(*files_, model_folder(), session.model, session.training->parameters(),
                   tokenizer, [&](const StateInfo& info) { return ReadMaster(program, info); });
}

}  // namespace colossus
