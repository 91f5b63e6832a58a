#include "trainers/lib/run/run_output.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "parallel/state_share.h"
#include "shardformer/tokenizer/bytes.h"
#include "tensor/exec/non_finite.h"
#include "tensor/graph/state_piece.h"
#include "trainers/lib/checkpoint/run_lock.h"
#include "trainers/lib/checkpoint/write.h"
#include "trainers/lib/ranks/keep_alive.h"

namespace colossus {
namespace {

// `first`: the element of the saved piece that `values` begin with.
absl::Status CheckFinite(const StateShare& share, int64_t first, const void* values,
                         int64_t elements) {
  const BadElement bad = FindNonFinite(share.dtype, values, elements);
  if (bad.index == elements) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("state '", share.info.name, "' holds ", bad.kind,
                                          " at element ", first + bad.index,
                                          ": nothing is saved; a smaller optimizer.learning_rate "
                                          "may help"));
}

// The most exact value the run has of a parameter.
absl::StatusOr<HostTensor> ReadMaster(Program& program, const StateInfo& info) {
  const std::string master = StateName(Role::kMaster, info.name);
  return program.ReadState(program.plan().FindState(master) != nullptr ? master : info.name);
}

// Where the values of a state are in `saved`: those of an f32 parameter, as norms have, that was
// narrow when it was saved are its master's.
std::string SavedName(const Checkpoint& saved, const StateInfo& info, DType dtype) {
  const SavedState* own = saved.Find(info.name);
  const std::string master = StateName(Role::kMaster, info.name);
  const SavedState* wide = saved.Find(master);
  const bool narrow = info.role == Role::kParameter && own != nullptr && own->type.dtype != dtype;
  return narrow && wide != nullptr && wide->type.dtype == dtype ? master : info.name;
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
                                          Log& log, RankGroup group) {
  RunOutput output(files, options, log, group);
  if (!output.saves()) {
    log.Info("nothing is saved: --out=DIR would keep checkpoints and the trained model");
    return output;
  }
  if (options.device == "null") {
    output.out_.clear();
    log.Info("nothing is saved: the null device has no values");
    return output;
  }
  RETURN_IF_ERROR(group.AgreeOnFirst(
      group.first() ? output.LockFolder(options) : absl::OkStatus(), "lock"));
  const std::string folder = CheckpointFolder(options.out);
  {
    const KeepAlive alive(group);  // checksums of large files take their time
    ASSIGN_OR_RETURN(output.resumed_, FindNewest(files, folder, log, group));
  }
  if (output.resumed_) {
    output.newest_ = output.resumed_->path();
    log.Info(absl::StrCat("resumes from ", output.newest_));
  } else {
    RETURN_IF_ERROR(group.AgreeOnFirst(
        group.first() ? CheckNoneLost(files, folder) : absl::OkStatus(), "none lost"));
    log.Info(absl::StrCat("no checkpoint in ", folder, ": the run begins; it will save there"));
  }
  return output;
}

absl::Status RunOutput::LockFolder(const Options::Run& options) {
  RETURN_IF_ERROR(CheckOutsideRuns(*files_, "--out", out_));
  existed_ = files_->IsDirectory(out_);
  if (!existed_) return absl::OkStatus();
  ASSIGN_OR_RETURN(lock_, LockForRun(*files_, "--out", out_, *log_));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->List(out_));
  if (options.resume != "never" || names.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--out=", out_, " is not empty and run.resume is never; give an ",
                   "empty folder, or leave --resume out to go on from its newest checkpoint"));
}

std::string RunOutput::newest() const { return newest_.empty() ? "none" : newest_; }

absl::Status RunOutput::CheckStates(const Session& session) const {
  for (const JobState& state : session.training->job_states()) {
    const SavedState* saved = resumed_->Find(SavedName(*resumed_, state.info, state.dtype));
    const Type type = {state.dtype, state.info.global_dims};
    if (saved == nullptr || saved->type != type) {
      return absl::InvalidArgumentError(absl::StrCat(
          resumed_->path(), ": state '", state.info.name, "' is ",
          saved == nullptr ? "missing" : ToString(saved->type), "; this run needs ",
          ToString(type)));
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
  return group_.AgreeOnFirst(group_.first() ? MakeFolder() : absl::OkStatus(), "make folder");
}

absl::Status RunOutput::MakeFolder() {
  const std::string folder = CheckpointFolder(out_);
  absl::Status status = files_->MakeDirs(out_);
  if (status.ok() && !existed_) RETURN_IF_ERROR(LockNewFolder());
  if (status.ok()) status = files_->MakeDirs(folder);
  const std::string trial = JoinPath(folder, "trial.tmp");
  if (status.ok()) status = files_->Create(trial).status();
  if (status.ok()) status = files_->Remove(trial);
  if (status.ok() && files_->Exists(model_folder()) && !files_->IsDirectory(model_folder())) {
    status = absl::FailedPreconditionError(
        absl::StrCat(model_folder(), ", where the trained model goes, is no folder"));
  }
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("nothing can be saved in --out=", out_, ": ", status.message(),
                                   "; give a folder that can be written"));
}

absl::Status RunOutput::Restore(Session& session) const {
  const std::vector<StateShare>& shares = session.training->shares();
  std::vector<char> buffer(
      static_cast<size_t>(StagingBytes(resumed_->record().states, group_.size())));
  Program& program = session.training->program();
  for (const StateShare& share : shares) {
    const StatePiece held = InsideOf(share.piece, share.info.global_dims);
    const std::string name = SavedName(*resumed_, share.info, share.dtype);
    const int64_t most = static_cast<int64_t>(buffer.size()) / SizeOf(share.dtype);  // elements
    for (int64_t at = 0; at < held.count; at += most) {
      const StatePiece piece = PartOf(held, at, std::min(most, held.count - at));
      group_.Beat();
      RETURN_IF_ERROR(resumed_->ReadPiece(name, piece, buffer.data()));
      RETURN_IF_ERROR(WriteStateShare(program, share, piece, buffer.data()));
    }
  }
  return absl::OkStatus();
}

// Beside the checkpoints, so that each of them can be used with it.
absl::Status RunOutput::KeepTokenizer(const Session& session) const {
  if (session.input->tokenizer == nullptr) return absl::OkStatus();
  for (const TokenizerFile& file : session.input->tokenizer->Files(session.model.max_positions)) {
    const std::string path = JoinPath(CheckpointFolder(out_), file.name);
    const absl::StatusOr<std::string> kept = files_->ReadFile(path);
    if (kept.ok() && *kept == file.contents) continue;
    RETURN_IF_ERROR(files_->WriteFileAtomically(path, file.contents));
  }
  return absl::OkStatus();
}

absl::Status RunOutput::CheckTokenizer(const Session& session) const {
  const std::string path = JoinPath(CheckpointFolder(out_), "tokenizer.json");
  if (session.input->tokenizer == nullptr || !files_->Exists(path)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string kept, files_->ReadFile(path));
  for (const TokenizerFile& file : session.input->tokenizer->Files(session.model.max_positions)) {
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
  for (const JobState& state : session.training->job_states()) {
    record.states.push_back({state.info.name, std::string(Name(state.info.role)),
                             {state.dtype, state.info.global_dims}});
  }
  std::vector<const StateShare*> own;
  std::vector<SavedPiece> pieces;
  for (const StateShare& share : session.training->shares()) {
    if (!share.owner) continue;
    own.push_back(&share);
    pieces.push_back({share.info.name, InsideOf(share.piece, share.info.global_dims)});
  }
  const std::string folder = CheckpointFolder(out_);
  const KeepAlive alive(group_);  // a disk may take long to have it all, and to remove what is old
  RETURN_IF_ERROR(group_.AgreeOnFirst(
      group_.first() ? KeepTokenizer(session) : absl::OkStatus(), "save/tokenizer"));
  RETURN_IF_ERROR(WriteCheckpoint(
      *files_, folder, record, pieces,
      [&](size_t p, int64_t offset, void* dst, int64_t bytes) {
        const int64_t size = SizeOf(own[p]->dtype), first = offset / size, count = bytes / size;
        RETURN_IF_ERROR(
            ReadStateShare(program, *own[p], PartOf(pieces[p].piece, first, count), dst));
        return CheckFinite(*own[p], first, dst, count);
      },
      group_));
  newest_ = CheckpointPath(folder, record.counters.attempted);
  log_->Info(absl::StrCat("saved ", newest_));
  if (!group_.first()) return absl::OkStatus();
  const absl::Status kept = KeepNewest(*files_, folder, record.counters.attempted, keep_);
  if (!kept.ok()) {
    log_->Warning(absl::StrCat("older checkpoints are not removed: ", kept.message()));
  }
  return absl::OkStatus();
}

absl::Status RunOutput::ExportFrom(const Session& session, const ParameterReader& read) const {
  const BytesTokenizer bytes;  // a vocabulary of its size was made for it
  const Tokenizer* tokenizer = session.input->tokenizer.get();
  if (tokenizer == nullptr && session.model.vocabulary == bytes.vocabulary_size()) {
    tokenizer = &bytes;
  }
  return ExportRun(*files_, model_folder(), session.model, session.training->parameters(),
                   tokenizer, read);
}

absl::Status RunOutput::Export(Session& session) {
  if (group_.size() == 1) {
    Program& program = session.training->program();
    return ExportFrom(session, [&](const StateInfo& info) { return ReadMaster(program, info); });
  }
  absl::Status exported;
  if (group_.first()) {
    const KeepAlive alive(group_);
    // Written or verified by this run.
    const absl::StatusOr<Checkpoint> newest =
        Checkpoint::Open(*files_, newest_, /*rank=*/0, /*ranks=*/0);
    exported = newest.status();
    if (exported.ok()) {
      exported = ExportFrom(session, [&](const StateInfo& info) {
        const std::string master = StateName(Role::kMaster, info.name);
        return newest->Read(newest->Find(master) != nullptr ? master : info.name);
      });
    }
  }
  return group_.AgreeOnFirst(exported, "export");
}

}  // namespace colossus
