#include "trainers/lib/checkpoint.h"

#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "tensor/io/json.h"
#include "tensor/io/safetensors_writer.h"

namespace colossus {
namespace {

constexpr int kVersion = 2;
constexpr char kFormat[] = "colossus checkpoint";
constexpr char kManifest[] = "manifest.json";
constexpr char kStates[] = "states.safetensors";
constexpr char kTemporary[] = ".tmp";
constexpr int64_t kPieceBytes = int64_t{4} << 20;

// The number of "step-20" or "step-20.tmp"; none for other names.
std::optional<int64_t> StepOf(absl::string_view name) {
  absl::ConsumeSuffix(&name, kTemporary);
  int64_t step;
  if (!absl::ConsumePrefix(&name, "step-") || !absl::SimpleAtoi(name, &step) || step < 0) {
    return std::nullopt;
  }
  return absl::StrCat(step) == name ? std::optional<int64_t>(step) : std::nullopt;
}

bool IsTemporary(absl::string_view name) { return absl::EndsWith(name, kTemporary); }

class Hash {
 public:
  Hash() : state_(XXH64_createState()) { XXH64_reset(state_, 0); }
  ~Hash() { XXH64_freeState(state_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void Add(std::span<const char> bytes) {
    XXH64_update(state_, bytes.data(), bytes.size());
    bytes_ += static_cast<int64_t>(bytes.size());
  }
  std::string Text() const { return absl::StrFormat("%016x", XXH64_digest(state_)); }
  int64_t bytes() const { return bytes_; }

 private:
  XXH64_state_t* state_;
  int64_t bytes_ = 0;
};

std::string TextHash(absl::string_view text) {
  Hash hash;
  hash.Add(std::span<const char>(text.data(), text.size()));
  return hash.Text();
}

// Gives the whole pages of a file mapping back, so that what was read once does not stay in
// memory. They are read from the file again when touched.
void DropPages(std::span<const char> bytes) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + bytes.size()) / page * page;
  if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

// ---- manifest

nlohmann::json LossScaleJson(const std::optional<LossScaleState>& state) {
  if (!state) return nullptr;
  return {{"value", state->value},
          {"applied", state->applied},
          {"overflows", state->overflows},
          {"in_a_row", state->in_a_row}};
}

std::optional<LossScaleState> LossScaleOf(const nlohmann::json& json) {
  if (json.is_null()) return std::nullopt;
  return LossScaleState{.value = json.at("value").get<double>(),
                        .applied = json.at("applied").get<int64_t>(),
                        .overflows = json.at("overflows").get<int64_t>(),
                        .in_a_row = json.at("in_a_row").get<int64_t>()};
}

nlohmann::json ManifestOf(const CheckpointRecord& record, const Hash& states) {
  nlohmann::json slices = nlohmann::json::array();
  for (const SavedState& state : record.states) {
    const std::vector<int64_t> dims(state.type.dims.begin(), state.type.dims.end());
    slices.push_back({{"state", state.name},
                      {"role", state.role},
                      {"dtype", std::string(Name(state.type.dtype))},
                      {"global", dims},
                      {"origin", std::vector<int64_t>(dims.size(), 0)},
                      {"extent", dims}});
  }
  nlohmann::json manifest = {
      {"format", kFormat},
      {"version", kVersion},
      {"counters",
       {{"attempted", record.counters.attempted},
        {"applied", record.counters.applied},
        {"skipped", record.counters.skipped},
        {"nonfinite_in_a_row", record.counters.nonfinite_in_a_row}}},
      {"loss_scale", LossScaleJson(record.loss_scale)},
      {"data",
       {{"epoch", record.data.epoch}, {"index", record.data.index}, {"rows", record.data_rows}}},
      {"config", record.config},
      {"model", record.model},
      {"files",
       {{{"name", kStates},
         {"bytes", states.bytes()},
         {"xxh64", states.Text()},
         {"slices", slices}}}}};
  manifest["xxh64"] = TextHash(manifest.dump());
  return manifest;
}

absl::StatusOr<SavedState> SavedStateOf(const nlohmann::json& slice) {
  SavedState state;
  state.name = slice.at("state").get<std::string>();
  state.role = slice.at("role").get<std::string>();
  ASSIGN_OR_RETURN(state.type.dtype, ParseDType(slice.at("dtype").get<std::string>()));
  const auto dims = slice.at("global").get<std::vector<int64_t>>();
  const std::vector<int64_t> zeros(dims.size(), 0);
  if (slice.at("extent") != slice.at("global") ||
      slice.at("origin").get<std::vector<int64_t>>() != zeros) {
    return absl::UnimplementedError(
        absl::StrCat("state '", state.name, "' is a part of a tensor; only whole ones are read"));
  }
  state.type.dims.assign(dims.begin(), dims.end());
  return state;
}

struct Manifest {
  CheckpointRecord record;
  int64_t bytes = 0;     // of the states' file
  std::string checksum;  // likewise
};

// The JSON library's exceptions end here.
absl::StatusOr<Manifest> ParseManifest(nlohmann::json json) {
  try {
    if (json.at("format") != kFormat) return absl::InvalidArgumentError("no checkpoint manifest");
    if (json.at("version") != kVersion) {
      return absl::InvalidArgumentError(
          absl::StrCat("version ", json.at("version").dump(), "; this program reads version ",
                       kVersion));
    }
    const std::string checksum = json.at("xxh64").get<std::string>();
    json.erase("xxh64");
    if (TextHash(json.dump()) != checksum) {
      return absl::InvalidArgumentError("its checksum does not match: damaged");
    }
    Manifest manifest;
    CheckpointRecord& record = manifest.record;
    record.counters = {json.at("counters").at("attempted").get<int64_t>(),
                       json.at("counters").at("applied").get<int64_t>(),
                       json.at("counters").at("skipped").get<int64_t>(),
                       json.at("counters").at("nonfinite_in_a_row").get<int64_t>()};
    record.loss_scale = LossScaleOf(json.at("loss_scale"));
    record.data = {json.at("data").at("epoch").get<int64_t>(),
                   json.at("data").at("index").get<int64_t>()};
    record.data_rows = json.at("data").at("rows").get<int64_t>();
    record.config = json.at("config").get<std::string>();
    record.model = json.at("model").get<std::string>();
    const nlohmann::json& files = json.at("files");
    if (files.size() != 1 || files.at(0).at("name") != kStates) {
      return absl::InvalidArgumentError(absl::StrCat("lists other files than ", kStates));
    }
    for (const nlohmann::json& slice : files.at(0).at("slices")) {
      ASSIGN_OR_RETURN(SavedState state, SavedStateOf(slice));
      record.states.push_back(std::move(state));
    }
    manifest.bytes = files.at(0).at("bytes").get<int64_t>();
    manifest.checksum = files.at(0).at("xxh64").get<std::string>();
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a manifest: ", error.what()));
  }
}

absl::StatusOr<Manifest> ReadManifest(FileSystem& files, const std::string& path) {
  const std::string name = JoinPath(path, kManifest);
  ASSIGN_OR_RETURN(nlohmann::json json, ReadJsonFile(files, name));
  absl::StatusOr<Manifest> manifest = ParseManifest(std::move(json));
  if (!manifest.ok()) return Annotate(manifest.status(), name);
  return manifest;
}

absl::Status CheckFileSize(FileSystem& files, const std::string& path, const Manifest& manifest) {
  const std::string name = JoinPath(path, kStates);
  ASSIGN_OR_RETURN(const int64_t bytes, files.FileSize(name));
  if (bytes == manifest.bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", bytes, " bytes; the manifest says ", manifest.bytes));
}

absl::Status CheckChecksum(FileSystem& files, const std::string& path, const Manifest& manifest) {
  const std::string name = JoinPath(path, kStates);
  ASSIGN_OR_RETURN(const MappedFile mapped, files.Map(name));
  Hash hash;
  for (int64_t at = 0; at < mapped.size(); at += kPieceBytes) {
    const auto piece = mapped.bytes().subspan(
        static_cast<size_t>(at), static_cast<size_t>(std::min(kPieceBytes, mapped.size() - at)));
    hash.Add(piece);
    DropPages(piece);
  }
  if (hash.Text() == manifest.checksum) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": its checksum does not match the manifest: damaged"));
}

absl::Status CheckSlices(const CheckpointRecord& record, const SafetensorsFile& file) {
  for (const SavedState& state : record.states) {
    const SafetensorsEntry* entry = file.Find(state.name);
    if (entry == nullptr || entry->dtype != state.type.dtype ||
        !std::equal(entry->dims.begin(), entry->dims.end(), state.type.dims.begin(),
                    state.type.dims.end())) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": state '", state.name, "' is not as the manifest says"));
    }
  }
  return absl::OkStatus();
}

// ---- writing

absl::Status WriteStates(FileSystem& files, const std::string& path, const CheckpointRecord& record,
                         const StateBytesReader& read, Hash& hash) {
  std::vector<SafetensorsTensor> tensors;
  for (const SavedState& state : record.states) {
    tensors.push_back(
        {state.name, state.type.dtype, {state.type.dims.begin(), state.type.dims.end()}});
  }
  ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Begin(files, path, std::move(tensors), {},
                                            [&](std::span<const char> bytes) { hash.Add(bytes); }));
  std::vector<char> piece(static_cast<size_t>(kPieceBytes));
  for (const SafetensorsTensor& tensor : writer->order()) {
    for (int64_t at = 0; at < tensor.bytes(); at += kPieceBytes) {
      const int64_t bytes = std::min(kPieceBytes, tensor.bytes() - at);
      RETURN_IF_ERROR(read(tensor.name, at, piece.data(), bytes));
      RETURN_IF_ERROR(writer->Append(tensor.name, {piece.data(), static_cast<size_t>(bytes)}));
    }
  }
  return writer->Finish();
}

// Of the states' values; headers and the manifest are small beside them.
int64_t WantedBytes(const CheckpointRecord& record) {
  int64_t bytes = 0;
  for (const SavedState& state : record.states) bytes += state.type.bytes();
  return bytes;
}

std::string RoomText(const CheckpointRecord& record, int64_t free) {
  return absl::StrCat("wants ", WantedBytes(record), " bytes for the values alone, ", free,
                      " are free; make room, or keep fewer checkpoints (run.keep)");
}

// A checkpoint that cannot fit is not begun.
absl::Status CheckRoom(FileSystem& files, const std::string& folder,
                       const CheckpointRecord& record) {
  RETURN_IF_ERROR(files.MakeDirs(folder));
  const absl::StatusOr<int64_t> free = files.FreeBytes(folder);
  if (!free.ok() || WantedBytes(record) <= *free) return absl::OkStatus();  // the write will tell
  return absl::ResourceExhaustedError(absl::StrCat(
      CheckpointPath(folder, record.counters.attempted), ": ", RoomText(record, *free)));
}

// `status` of a write that failed, with what there is.
absl::Status WithRoom(FileSystem& files, const std::string& folder,
                      const CheckpointRecord& record, const absl::Status& status) {
  const absl::StatusOr<int64_t> free = files.FreeBytes(folder);
  if (!free.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; the checkpoint ", RoomText(record, *free)));
}

absl::Status WriteFolder(FileSystem& files, const std::string& folder,
                         const CheckpointRecord& record, const StateBytesReader& read) {
  const std::string path = CheckpointPath(folder, record.counters.attempted);
  const std::string temporary = path + kTemporary;
  RETURN_IF_ERROR(files.RemoveTree(temporary));
  RETURN_IF_ERROR(files.MakeDirs(temporary));
  Hash hash;
  RETURN_IF_ERROR(WriteStates(files, JoinPath(temporary, kStates), record, read, hash));
  // The manifest comes last: with it the folder would be complete but for its name.
  RETURN_IF_ERROR(files.WriteFileAtomically(JoinPath(temporary, kManifest),
                                            ManifestOf(record, hash).dump(1) + "\n"));
  // Only a damaged one can be in the way: a run never saves a step that it resumed from.
  RETURN_IF_ERROR(files.RemoveTree(path));
  RETURN_IF_ERROR(files.Rename(temporary, path));
  RETURN_IF_ERROR(files.SyncDir(folder));
  return files.SyncDir(DirName(folder));
}

}  // namespace

std::string CheckpointFolder(const std::string& out) { return JoinPath(out, "checkpoints"); }

std::string CheckpointPath(const std::string& folder, int64_t step) {
  return JoinPath(folder, absl::StrCat("step-", step));
}

absl::Status WriteCheckpoint(FileSystem& files, const std::string& folder,
                             const CheckpointRecord& record, const StateBytesReader& read) {
  RETURN_IF_ERROR(CheckRoom(files, folder, record));
  absl::Status status = WriteFolder(files, folder, record, read);
  if (status.ok()) return status;
  if (absl::IsResourceExhausted(status)) status = WithRoom(files, folder, record, status);
  // The first error is what the caller must know; a leftover does not look complete.
  (void)files.RemoveTree(CheckpointPath(folder, record.counters.attempted) + kTemporary);
  return status;
}

absl::StatusOr<Checkpoint> Checkpoint::Open(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(files, path));
  RETURN_IF_ERROR(CheckFileSize(files, path, manifest));
  RETURN_IF_ERROR(CheckChecksum(files, path, manifest));
  ASSIGN_OR_RETURN(SafetensorsFile states, SafetensorsFile::Open(files, JoinPath(path, kStates)));
  RETURN_IF_ERROR(CheckSlices(manifest.record, states));
  return Checkpoint(path, std::move(manifest.record), std::move(states));
}

const SavedState* Checkpoint::Find(absl::string_view name) const {
  for (const SavedState& state : record_.states) {
    if (state.name == name) return &state;
  }
  return nullptr;
}

absl::Status Checkpoint::ReadBytes(absl::string_view name, int64_t offset, void* dst,
                                   int64_t bytes) const {
  ASSIGN_OR_RETURN(const std::span<const char> data, states_.data(name));
  CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= static_cast<int64_t>(data.size())) << path_;
  const auto part = data.subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes));
  if (bytes > 0) std::memcpy(dst, part.data(), part.size());
  DropPages(part);
  return absl::OkStatus();
}

absl::StatusOr<HostTensor> Checkpoint::Read(absl::string_view name) const {
  const SavedState* state = Find(name);
  if (state == nullptr) {
    return absl::NotFoundError(absl::StrCat(path_, ": no state '", name, "'"));
  }
  HostTensor values(state->type);
  RETURN_IF_ERROR(ReadBytes(name, 0, values.raw(), state->type.bytes()));
  return values;
}

bool IsCheckpoint(FileSystem& files, const std::string& path) {
  return files.Exists(JoinPath(path, kManifest));
}

absl::StatusOr<std::optional<Checkpoint>> FindNewest(FileSystem& files, const std::string& folder,
                                                     Log& log) {
  if (!files.Exists(folder)) return std::nullopt;
  ASSIGN_OR_RETURN(std::vector<std::string> names, files.List(folder));
  std::erase_if(names, [](const std::string& name) { return !StepOf(name).has_value(); });
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::make_pair(*StepOf(a), !IsTemporary(a)) >
           std::make_pair(*StepOf(b), !IsTemporary(b));
  });
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    absl::StatusOr<Checkpoint> checkpoint =
        IsTemporary(name) ? absl::InvalidArgumentError("its save was interrupted")
                          : Checkpoint::Open(files, path);
    if (checkpoint.ok()) return std::optional<Checkpoint>(*std::move(checkpoint));
    log.Warning(absl::StrCat("checkpoint ", path, " is passed over: ",
                             checkpoint.status().message()));
  }
  return std::nullopt;
}

absl::Status KeepNewest(FileSystem& files, const std::string& folder, int64_t newest,
                        int64_t keep) {
  CHECK_GE(keep, 1);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  std::vector<int64_t> complete;
  for (const std::string& name : names) {
    if (!StepOf(name).has_value() || IsTemporary(name) || *StepOf(name) > newest) continue;
    const std::string path = JoinPath(folder, name);
    const absl::StatusOr<Manifest> manifest = ReadManifest(files, path);
    const absl::Status status =
        manifest.ok() ? CheckFileSize(files, path, *manifest) : manifest.status();
    if (status.ok()) complete.push_back(*StepOf(name));
    // What cannot be read now may be complete all the same.
    if (!status.ok() && !absl::IsInvalidArgument(status) && !absl::IsNotFound(status)) {
      return status;
    }
  }
  std::sort(complete.rbegin(), complete.rend());
  if (complete.empty() || complete[0] != newest) {
    return absl::DataLossError(absl::StrCat(CheckpointPath(folder, newest),
                                            " cannot be read back; older checkpoints are kept"));
  }
  if (complete.size() > static_cast<size_t>(keep)) complete.resize(static_cast<size_t>(keep));
  for (const std::string& name : names) {
    if (!StepOf(name).has_value()) continue;
    const bool kept = !IsTemporary(name) && std::find(complete.begin(), complete.end(),
                                                      *StepOf(name)) != complete.end();
    if (!kept) RETURN_IF_ERROR(files.RemoveTree(JoinPath(folder, name)));
  }
  return absl::OkStatus();
}

}  // namespace colossus
