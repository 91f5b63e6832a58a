// Checkpoints: the input is the manifest, a line of its own, then the file of states. What opens
// can be read.
#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/fuzz_target.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/checkpoint/write.h"

namespace colossus {
namespace {

constexpr absl::string_view kBorder = "\n----\n";

// A folder of this process, in memory where there is such a place. Its name is never destroyed: it
// is needed at the very end, to remove the folder.
const std::string& Folder() {
  static const std::string& folder = *new std::string([] {
    const char* temporary = std::getenv("TEST_TMPDIR");
    std::string root = temporary != nullptr ? temporary : "/tmp";
    if (access("/dev/shm", W_OK) == 0) root = "/dev/shm";
    std::string name = absl::StrCat(root, "/checkpoint_fuzz_XXXXXX");
    CHECK(mkdtemp(name.data()) != nullptr) << name;
    std::atexit([] { (void)RealFileSystem().RemoveTree(Folder()); });
    return name;
  }());
  return folder;
}

std::string Whole() {
  const std::string folder = Folder() + "/seed";
  CheckpointRecord record;
  record.counters = {.attempted = 3, .applied = 2, .skipped = 1};
  record.data = {1, 5};
  record.data_rows = 40;
  record.config = "[run]\nsteps = 3\n";
  record.model = "{\"model_type\": \"gpt2\"}";
  record.states = {{"wte.weight", "parameter", {DType::kF32, {3, 2}}},
                   {"wte.weight.m", "optimizer", {DType::kBF16, {3, 2}}},
                   {"empty", "optimizer", {DType::kF32, {0}}}};
  CHECK_OK(WriteCheckpoint(RealFileSystem(), folder, record, WholePieces(record.states),
                           [](size_t, int64_t, void* dst, int64_t bytes) {
                             std::fill_n(static_cast<char*>(dst), bytes, '\x3e');
                             return absl::OkStatus();
                           }));
  const std::string step = CheckpointPath(folder, 3);
  absl::StatusOr<std::string> manifest = RealFileSystem().ReadFile(step + "/manifest.json");
  absl::StatusOr<std::string> states = RealFileSystem().ReadFile(step + "/states.safetensors");
  CHECK_OK(manifest);
  CHECK_OK(states);
  CHECK_OK(RealFileSystem().RemoveTree(folder));
  return absl::StrCat(*manifest, kBorder, *states);
}

std::vector<std::string> Seeds() { return {Whole()}; }

std::string HashOf(absl::string_view bytes) {
  return absl::StrFormat("%016x", XXH64(bytes.data(), bytes.size(), 0));
}

// Sizes and checksums as the contents want them.
void Repair(std::string& input) {
  const size_t border = input.find(std::string(kBorder));
  if (border == std::string::npos) return;
  const std::string states = input.substr(border + kBorder.size());
  nlohmann::json manifest = nlohmann::json::parse(input.substr(0, border), nullptr, false);
  if (!manifest.is_object()) return;
  manifest.erase("xxh64");
  const auto files = manifest.find("files");
  if (files != manifest.end() && files->is_array() && !files->empty() && (*files)[0].is_object()) {
    (*files)[0]["bytes"] = states.size();
    (*files)[0]["xxh64"] = HashOf(states);
  }
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  manifest["xxh64"] = HashOf(manifest.dump(-1, ' ', false, kReplace));
  input = absl::StrCat(manifest.dump(-1, ' ', false, kReplace), kBorder, states);
}

void Run(absl::string_view input) {
  FileSystem& files = RealFileSystem();
  const std::string path = Folder() + "/step-3";
  static const absl::Status made = files.MakeDirs(path);
  CHECK_OK(made);
  const size_t border = std::min(input.find(kBorder), input.size());
  const size_t states = std::min(border + kBorder.size(), input.size());
  for (const auto& [name, bytes] : {std::pair("/manifest.json", input.substr(0, border)),
                                    std::pair("/states.safetensors", input.substr(states))}) {
    absl::StatusOr<std::unique_ptr<WritableFile>> file = files.Create(path + name);
    CHECK_OK(file);
    CHECK_OK((*file)->Append({bytes.data(), bytes.size()}));
    CHECK_OK((*file)->Close());
  }
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(files, path);
  if (!checkpoint.ok()) return;
  for (const SavedState& state : checkpoint->record().states) {
    CHECK_OK(checkpoint->Read(state.name));
  }
}

}  // namespace

const FuzzTarget& Target() {
  static const FuzzTarget target = {
      .name = "checkpoint",
      .seeds = Seeds,
      .run = Run,
      .words = {"\"counters\"", "\"attempted\"", "\"files\"", "\"pieces\"", "\"first\"",
                "\"count\"", "\"global\"", "\"origin\"", "\"extent\"", "\"f32\"", "\"wte.weight\"",
                "\"F32\"", "[3, 2]", "[4294967296, 4294967296]"},
      .repair = Repair,
  };
  return target;
}

}  // namespace colossus
