#include "trainers/lib/checkpoint/manifest.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/dtype.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "tensor/io/json.h"

namespace colossus {
namespace {

constexpr int kVersion = 3;
// One file; its pieces are whole states and stand for them.
constexpr int kWholeStatesVersion = 2;
constexpr char kFormat[] = "colossus checkpoint";

std::string TextHash(absl::string_view text) {
  ContentHash hash;
  hash.Add(std::span<const char>(text.data(), text.size()));
  return hash.Text();
}

// ---- to JSON

nlohmann::json LossScaleJson(const std::optional<LossScaleState>& state) {
  if (!state) return nullptr;
  return {{"value", state->value},
          {"applied", state->applied},
          {"overflows", state->overflows},
          {"in_a_row", state->in_a_row}};
}

nlohmann::json DimsJson(const Dims& dims) { return std::vector<int64_t>(dims.begin(), dims.end()); }

nlohmann::json FileJson(const PiecesFile& file) {
  nlohmann::json pieces = nlohmann::json::array();
  for (const StoredPiece& stored : file.pieces) {
    const StatePiece& piece = stored.saved.piece;
    pieces.push_back({{"tensor", stored.tensor},
                      {"state", stored.saved.state},
                      {"origin", DimsJson(piece.origin)},
                      {"extent", DimsJson(piece.extent)},
                      {"first", piece.first},
                      {"count", piece.count}});
  }
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh64", file.checksum}, {"pieces", pieces}};
}

nlohmann::json StatesJson(const std::vector<SavedState>& states) {
  nlohmann::json json = nlohmann::json::array();
  for (const SavedState& state : states) {
    json.push_back({{"name", state.name},
                    {"role", state.role},
                    {"dtype", std::string(Name(state.type.dtype))},
                    {"global", DimsJson(state.type.dims)}});
  }
  return json;
}

// ---- from JSON; the JSON library's exceptions end in ParseManifest and ParsePiecesFile

std::optional<LossScaleState> LossScaleOf(const nlohmann::json& json) {
  if (json.is_null()) return std::nullopt;
  return LossScaleState{.value = json.at("value").get<double>(),
                        .applied = json.at("applied").get<int64_t>(),
                        .overflows = json.at("overflows").get<int64_t>(),
                        .in_a_row = json.at("in_a_row").get<int64_t>()};
}

Dims DimsOf(const nlohmann::json& json) {
  const auto dims = json.get<std::vector<int64_t>>();
  return Dims(dims.begin(), dims.end());
}

CheckpointRecord RecordOf(const nlohmann::json& json) {
  CheckpointRecord record;
  const nlohmann::json& counters = json.at("counters");
  record.counters = {counters.at("attempted").get<int64_t>(), counters.at("applied").get<int64_t>(),
                     counters.at("skipped").get<int64_t>(),
                     counters.at("nonfinite_in_a_row").get<int64_t>()};
  record.loss_scale = LossScaleOf(json.at("loss_scale"));
  record.data = {json.at("data").at("epoch").get<int64_t>(),
                 json.at("data").at("index").get<int64_t>()};
  record.data_rows = json.at("data").at("rows").get<int64_t>();
  record.config = json.at("config").get<std::string>();
  record.model = json.at("model").get<std::string>();
  return record;
}

absl::StatusOr<SavedState> StateOf(const nlohmann::json& json, const char* name_key) {
  SavedState state;
  state.name = json.at(name_key).get<std::string>();
  state.role = json.at("role").get<std::string>();
  ASSIGN_OR_RETURN(state.type.dtype, ParseDType(json.at("dtype").get<std::string>()));
  state.type.dims = DimsOf(json.at("global"));
  int64_t elements;
  if (CountElements(state.type.dims, &elements)) return state;
  return absl::InvalidArgumentError(
      absl::StrCat("state '", state.name, "' has the dims ", DimsToString(state.type.dims)));
}

PiecesFile FileOf(const nlohmann::json& json) {
  PiecesFile file;
  file.name = json.at("name").get<std::string>();
  file.bytes = json.at("bytes").get<int64_t>();
  file.checksum = json.at("xxh64").get<std::string>();
  for (const nlohmann::json& piece : json.at("pieces")) {
    file.pieces.push_back({piece.at("tensor").get<std::string>(),
                           {piece.at("state").get<std::string>(),
                            {DimsOf(piece.at("origin")), DimsOf(piece.at("extent")),
                             piece.at("first").get<int64_t>(), piece.at("count").get<int64_t>()}}});
  }
  return file;
}

// The older version: a slice names its state and is all of it.
absl::Status AddWholeStates(const nlohmann::json& files, Manifest* manifest) {
  for (const nlohmann::json& json : files) {
    PiecesFile file;
    file.name = json.at("name").get<std::string>();
    file.bytes = json.at("bytes").get<int64_t>();
    file.checksum = json.at("xxh64").get<std::string>();
    for (const nlohmann::json& slice : json.at("slices")) {
      ASSIGN_OR_RETURN(SavedState state, StateOf(slice, "state"));
      const Dims origin = DimsOf(slice.at("origin")), extent = DimsOf(slice.at("extent"));
      int64_t elements = -1;
      (void)CountElements(extent, &elements);
      file.pieces.push_back({state.name, {state.name, {origin, extent, 0, elements}}});
      manifest->record.states.push_back(std::move(state));
    }
    manifest->files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

// Names that leave the folder, or one name twice, are no file of a checkpoint.
absl::Status CheckNames(const Manifest& manifest) {
  std::set<std::string> names;
  for (const PiecesFile& file : manifest.files) {
    const bool plain = !file.name.empty() && file.name[0] != '.' &&
                       file.name.find('/') == std::string::npos &&
                       file.name.find('\0') == std::string::npos && file.name != kManifestName;
    if (!plain || !names.insert(file.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("lists the file '", file.name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPieces(const Manifest& manifest) {
  RETURN_IF_ERROR(CheckNames(manifest));
  std::map<std::string, std::vector<StatePiece>> pieces;
  for (const SavedState& state : manifest.record.states) {
    if (pieces.count(state.name) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("lists the state '", state.name, "' twice"));
    }
    pieces[state.name];
  }
  for (const PiecesFile& file : manifest.files) {
    for (const StoredPiece& stored : file.pieces) {
      const auto found = pieces.find(stored.saved.state);
      if (found == pieces.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("has a piece of '", stored.saved.state, "', which it does not list"));
      }
      found->second.push_back(stored.saved.piece);
    }
  }
  for (const SavedState& state : manifest.record.states) {
    absl::Status status;
    for (const StatePiece& piece : pieces[state.name]) {
      status.Update(CheckPiece(piece, state.type.dims));
    }
    if (status.ok()) status = CheckCover(pieces[state.name], state.type.dims);
    if (!status.ok()) return Annotate(status, absl::StrCat("state '", state.name, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> ParseManifest(nlohmann::json json) {
  try {
    if (json.at("format") != kFormat) return absl::InvalidArgumentError("no checkpoint manifest");
    const nlohmann::json version = json.at("version");
    if (version != kVersion && version != kWholeStatesVersion) {
      return absl::InvalidArgumentError(absl::StrCat("version ", version.dump(),
                                                     "; this program reads versions ",
                                                     kWholeStatesVersion, " and ", kVersion));
    }
    const std::string checksum = json.at("xxh64").get<std::string>();
    json.erase("xxh64");
    if (TextHash(json.dump()) != checksum) {
      return absl::InvalidArgumentError("its checksum does not match: damaged");
    }
    Manifest manifest;
    manifest.record = RecordOf(json);
    if (version == kWholeStatesVersion) {
      RETURN_IF_ERROR(AddWholeStates(json.at("files"), &manifest));
    } else {
      for (const nlohmann::json& state : json.at("states")) {
        ASSIGN_OR_RETURN(SavedState saved, StateOf(state, "name"));
        manifest.record.states.push_back(std::move(saved));
      }
      for (const nlohmann::json& file : json.at("files")) manifest.files.push_back(FileOf(file));
    }
    RETURN_IF_ERROR(CheckPieces(manifest));
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a manifest: ", error.what()));
  }
}

}  // namespace

ContentHash::ContentHash() : state_(XXH64_createState()) { XXH64_reset(state_, 0); }

ContentHash::~ContentHash() { XXH64_freeState(state_); }

void ContentHash::Add(std::span<const char> bytes) {
  XXH64_update(state_, bytes.data(), bytes.size());
  bytes_ += static_cast<int64_t>(bytes.size());
}

std::string ContentHash::Text() const { return absl::StrFormat("%016x", XXH64_digest(state_)); }

std::string ToText(const Manifest& manifest) {
  const CheckpointRecord& record = manifest.record;
  nlohmann::json files = nlohmann::json::array();
  for (const PiecesFile& file : manifest.files) files.push_back(FileJson(file));
  nlohmann::json json = {
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
      {"states", StatesJson(record.states)},
      {"files", files}};
  json["xxh64"] = TextHash(json.dump());
  return json.dump(1) + "\n";
}

absl::StatusOr<Manifest> ReadManifest(FileSystem& files, const std::string& folder) {
  const std::string name = JoinPath(folder, kManifestName);
  ASSIGN_OR_RETURN(nlohmann::json json, ReadJsonFile(files, name));
  absl::StatusOr<Manifest> manifest = ParseManifest(std::move(json));
  if (!manifest.ok()) return Annotate(manifest.status(), name);
  return manifest;
}

std::string ToText(const PiecesFile& file) { return FileJson(file).dump(); }

absl::StatusOr<PiecesFile> ParsePiecesFile(absl::string_view text) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(std::string(text), "pieces"));
  try {
    return FileOf(json);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("no list of pieces: ", error.what()));
  }
}

absl::Status CheckSizes(FileSystem& files, const std::string& folder, const Manifest& manifest) {
  for (const PiecesFile& file : manifest.files) {
    const std::string name = JoinPath(folder, file.name);
    ASSIGN_OR_RETURN(const int64_t bytes, files.FileSize(name));
    if (bytes == file.bytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", bytes, " bytes; the manifest says ", file.bytes));
  }
  return absl::OkStatus();
}

}  // namespace colossus
