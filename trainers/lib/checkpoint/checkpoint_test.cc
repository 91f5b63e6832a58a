#include "trainers/lib/checkpoint/checkpoint.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/faulty_file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/checkpoint/manifest.h"
#include "trainers/lib/checkpoint/write.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest()
      : log_([this](absl::string_view text) { absl::StrAppend(&said_, text); }, false) {
    out_ = JoinPath(::testing::TempDir(),
                    ::testing::UnitTest::GetInstance()->current_test_info()->name());
    EXPECT_OK(files_.RemoveTree(out_));
    folder_ = JoinPath(out_, "checkpoints");
  }

  // Two states whose values follow from the step.
  static HostTensor Values(const SavedState& state, int64_t step) {
    HostTensor values(state.type);
    for (int64_t i = 0; i < state.type.elements(); ++i) {
      values.Set(i, static_cast<double>((i * 7 + step) % 100));
    }
    return values;
  }

  static CheckpointRecord Record(int64_t step) {
    CheckpointRecord record;
    record.counters = {step, step - 1, 1, 1};
    record.loss_scale = LossScaleState{.value = 0.5, .applied = 3, .overflows = 2, .in_a_row = 1};
    record.data = {2, 4 * step};
    record.data_rows = 100;
    record.config = "[run]\nsteps = 30\n";
    record.model = "{\"model_type\": \"gpt2\"}";
    record.states = {{"w", "parameter", {DType::kBF16, {30, 70}}},
                     {"moment1/w", "moment1", {DType::kF32, {30, 70}}}};
    return record;
  }

  static absl::Status Save(FileSystem& files, const std::string& folder, int64_t step) {
    const CheckpointRecord record = Record(step);
    return WriteCheckpoint(files, folder, record, WholePieces(record.states),
                           [&](size_t i, int64_t offset, void* dst, int64_t bytes) {
                             const HostTensor values = Values(record.states[i], step);
                             std::memcpy(dst, static_cast<const char*>(values.raw()) + offset,
                                         static_cast<size_t>(bytes));
                             return absl::OkStatus();
                           });
  }

  // Every file below the folder of a step, byte for byte.
  std::map<std::string, std::string> Bytes(int64_t step) {
    const std::string path = JoinPath(folder_, absl::StrCat("step-", step));
    std::map<std::string, std::string> bytes;
    const auto names = files_.List(path);
    if (!names.ok()) return bytes;
    for (const std::string& name : *names) bytes[name] = *files_.ReadFile(JoinPath(path, name));
    return bytes;
  }

  int64_t NewestStep() {
    const auto newest = FindNewest(files_, folder_, log_);
    EXPECT_OK(newest);
    return newest.ok() && *newest ? (*newest)->record().counters.attempted : -1;
  }

  FileSystem& files_ = RealFileSystem();
  std::string out_, folder_, said_;
  Log log_;
};

TEST_F(CheckpointTest, KeepsRecordAndValues) {
  ASSERT_OK(Save(files_, folder_, 10));
  ASSERT_OK_AND_ASSIGN(Checkpoint checkpoint,
                       Checkpoint::Open(files_, JoinPath(folder_, "step-10")));
  const CheckpointRecord expected = Record(10);
  EXPECT_EQ(checkpoint.record().counters, expected.counters);
  EXPECT_EQ(checkpoint.record().loss_scale, expected.loss_scale);
  EXPECT_EQ(checkpoint.record().data, expected.data);
  EXPECT_EQ(checkpoint.record().data_rows, 100);
  EXPECT_EQ(checkpoint.record().config, expected.config);
  EXPECT_EQ(checkpoint.record().model, expected.model);
  for (const SavedState& state : expected.states) {
    ASSERT_OK_AND_ASSIGN(HostTensor values, checkpoint.Read(state.name));
    EXPECT_EQ(values, Values(state, 10)) << state.name;
    EXPECT_EQ(checkpoint.Find(state.name)->role, state.role);
  }
  EXPECT_THAT(checkpoint.Read("other"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'other'")));
}

// Version 2 had one file, whose slices stood for the states.
TEST_F(CheckpointTest, ReadsTheOlderVersion) {
  ASSERT_OK(Save(files_, folder_, 10));
  const std::string path = JoinPath(folder_, "step-10/manifest.json");
  ASSERT_OK_AND_ASSIGN(const std::string text, files_.ReadFile(path));
  nlohmann::json manifest = nlohmann::json::parse(text);
  manifest["version"] = 2;
  nlohmann::json& file = manifest["files"][0];
  file.erase("pieces");
  for (const nlohmann::json& state : manifest["states"]) {
    file["slices"].push_back({{"state", state["name"]},
                              {"role", state["role"]},
                              {"dtype", state["dtype"]},
                              {"global", state["global"]},
                              {"origin", {0, 0}},
                              {"extent", state["global"]}});
  }
  manifest.erase("states");
  manifest.erase("xxh64");
  ContentHash hash;
  const std::string body = manifest.dump();
  hash.Add({body.data(), body.size()});
  manifest["xxh64"] = hash.Text();
  ASSERT_OK(files_.WriteFileAtomically(path, manifest.dump(1)));
  ASSERT_OK_AND_ASSIGN(Checkpoint checkpoint,
                       Checkpoint::Open(files_, JoinPath(folder_, "step-10")));
  ASSERT_EQ(checkpoint.record().states.size(), 2u);
  for (const SavedState& state : Record(10).states) {
    ASSERT_OK_AND_ASSIGN(HostTensor values, checkpoint.Read(state.name));
    EXPECT_EQ(values, Values(state, 10)) << state.name;
    EXPECT_EQ(checkpoint.Find(state.name)->role, state.role);
  }
}

TEST_F(CheckpointTest, NoFolderIsNoCheckpoint) {
  EXPECT_EQ(NewestStep(), -1);
  EXPECT_EQ(said_, "");
}

// C3: a save that dies at any operation or after any number of bytes, with or without the loss of
// what was not synced, leaves the old checkpoint as it was and nothing that looks complete.
TEST_F(CheckpointTest, C3_InterruptedSave) {
  ASSERT_OK(Save(files_, folder_, 10));
  const auto old = Bytes(10);
  FaultyFileSystem counting(files_);
  ASSERT_OK(Save(counting, folder_, 20));
  ASSERT_OK(files_.RemoveTree(JoinPath(folder_, "step-20")));

  std::vector<Faults> deaths;
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4096}, counting.bytes() - 1}) {
    deaths.push_back({.kill_after_bytes = bytes});
  }
  for (int64_t k = 0; k < counting.operations(); ++k) {
    for (const bool lose : {false, true}) {
      deaths.push_back({.kill_operation = k, .lose_unsynced = lose});
    }
  }
  for (size_t i = 0; i < deaths.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("death ", i));
    FaultyFileSystem dying(files_, deaths[i]);
    EXPECT_FALSE(Save(dying, folder_, 20).ok());
    EXPECT_EQ(Bytes(10), old);
    said_.clear();
    const int64_t newest = NewestStep();
    // The rename is the moment of completion; only what comes after it may still be missing.
    if (newest == 10) {
      const bool began = files_.Exists(JoinPath(folder_, "step-20.tmp"));
      if (began) {
        EXPECT_THAT(said_, HasSubstr("step-20.tmp is passed over: its save was interrupted"));
      }
    } else {
      EXPECT_EQ(newest, 20);
      EXPECT_TRUE(files_.Exists(JoinPath(folder_, "step-20")));
    }
    ASSERT_OK(files_.RemoveTree(JoinPath(folder_, "step-20")));
    ASSERT_OK(files_.RemoveTree(JoinPath(folder_, "step-20.tmp")));
  }
}

TEST_F(CheckpointTest, C3_FullDisk) {
  ASSERT_OK(Save(files_, folder_, 10));
  const auto old = Bytes(10);
  FaultyFileSystem counting(files_);
  ASSERT_OK(Save(counting, folder_, 20));
  ASSERT_OK(files_.RemoveTree(JoinPath(folder_, "step-20")));
  for (const int64_t room : {int64_t{0}, int64_t{1}, int64_t{4096}, counting.bytes() - 1}) {
    FaultyFileSystem full(files_, {.disk_bytes = room});
    EXPECT_THAT(Save(full, folder_, 20),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("step-20")));
    EXPECT_THAT(*files_.List(folder_), ElementsAre("step-10")) << room;
    EXPECT_EQ(Bytes(10), old);
    EXPECT_EQ(NewestStep(), 10);
  }
  EXPECT_EQ(said_, "");
  ASSERT_OK(Save(files_, folder_, 20));
  EXPECT_EQ(NewestStep(), 20);
}

// Any one operation of a save and of the removal after it fails, for whatever reason: there is
// always a complete checkpoint, the message says where, and the next save succeeds.
TEST_F(CheckpointTest, C3_EveryOperationFailsOnce) {
  const auto save = [&](FileSystem& files) -> absl::Status {
    const absl::Status saved = Save(files, folder_, 20);
    return saved.ok() ? KeepNewest(files, folder_, 20, /*keep=*/1) : saved;
  };
  ASSERT_OK(Save(files_, folder_, 10));
  const auto old = Bytes(10);
  FaultyFileSystem counting(files_);
  ASSERT_OK(save(counting));
  const auto expected = Bytes(20);
  int failed = 0;
  for (const absl::Status& failure : {absl::UnavailableError("input/output error"),
                                      absl::ResourceExhaustedError("no space left on device")}) {
    for (int64_t k = 0; k < counting.operations(); ++k) {
      SCOPED_TRACE(absl::StrCat("operation ", k, ": ", failure.message()));
      ASSERT_OK(files_.RemoveTree(folder_));
      ASSERT_OK(Save(files_, folder_, 10));
      FaultyFileSystem failing(files_, {.fail_operation = k, .failure = failure});
      const absl::Status status = save(failing);
      failed += !status.ok();
      if (!status.ok()) {
        EXPECT_THAT(std::string(status.message()), HasSubstr(out_));
        const bool written = Bytes(20) == expected;
        if (!written) {
          EXPECT_EQ(Bytes(10), old);
        }
        // Before operation 0 there is no folder to ask for its room.
        if (!written && k > 0 && absl::IsResourceExhausted(status)) {
          EXPECT_THAT(std::string(status.message()),
                      AllOf(HasSubstr("wants 12600 bytes"), HasSubstr("are free")));
        }
      }
      const int64_t newest = NewestStep();
      EXPECT_EQ(Bytes(newest), newest == 20 ? expected : old);
      EXPECT_OK(save(files_));
      EXPECT_THAT(*files_.List(folder_), ElementsAre("step-20"));
    }
  }
  EXPECT_GT(failed, counting.operations());  // of twice as many
}

// A newest checkpoint that cannot be read back is no reason to remove the others.
TEST_F(CheckpointTest, NeverRemovesTheLastCompleteOne) {
  ASSERT_OK(Save(files_, folder_, 10));
  ASSERT_OK(Save(files_, folder_, 20));
  ASSERT_OK(files_.Remove(JoinPath(folder_, "step-20/manifest.json")));
  EXPECT_THAT(KeepNewest(files_, folder_, 20, /*keep=*/1),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("step-20")));
  EXPECT_EQ(NewestStep(), 10);
}

// Each kind of damage is noticed, named, and the older checkpoint taken.
TEST_F(CheckpointTest, PassesOverDamage) {
  struct Damage {
    const char* file;
    const char* reason;
    void (*apply)(std::string& bytes);
  };
  const Damage kTable[] = {
      {"states.safetensors", "checksum", [](std::string& b) { b[b.size() - 5] ^= 1; }},
      {"states.safetensors", "checksum", [](std::string& b) { b[20] ^= 1; }},
      {"states.safetensors", "the manifest says", [](std::string& b) { b.pop_back(); }},
      {"manifest.json", "manifest.json", [](std::string& b) { b.resize(b.size() / 2); }},
      {"manifest.json", "manifest.json", [](std::string& b) { b.clear(); }},
      {"manifest.json", "checksum", [](std::string& b) { b[b.find("30")] = '4'; }},
      {"manifest.json", "version",
       [](std::string& b) { b.replace(b.find("\"version\": 3"), 12, "\"version\": 9"); }},
  };
  for (const Damage& damage : kTable) {
    ASSERT_OK(Save(files_, folder_, 10));
    ASSERT_OK(Save(files_, folder_, 20));
    const std::string path = JoinPath(JoinPath(folder_, "step-20"), damage.file);
    ASSERT_OK_AND_ASSIGN(std::string bytes, files_.ReadFile(path));
    damage.apply(bytes);
    ASSERT_OK(files_.WriteFileAtomically(path, bytes));
    said_.clear();
    EXPECT_EQ(NewestStep(), 10) << damage.file;
    EXPECT_THAT(said_, AllOf(HasSubstr("step-20 is passed over"), HasSubstr(damage.reason)));
    // The next save of that step takes its place.
    ASSERT_OK(Save(files_, folder_, 20));
    EXPECT_EQ(NewestStep(), 20);
  }
  for (const char* name : {"states.safetensors", "manifest.json"}) {
    ASSERT_OK(Save(files_, folder_, 20));
    ASSERT_OK(files_.Remove(JoinPath(JoinPath(folder_, "step-20"), name)));
    said_.clear();
    EXPECT_EQ(NewestStep(), 10) << name;
    EXPECT_THAT(said_, HasSubstr(name));
  }
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  for (const int64_t step : {9, 10, 20, 100}) ASSERT_OK(Save(files_, folder_, step));
  ASSERT_OK(files_.MakeDirs(JoinPath(folder_, "step-30")));      // no manifest
  ASSERT_OK(files_.MakeDirs(JoinPath(folder_, "step-90.tmp")));  // interrupted
  ASSERT_OK(files_.MakeDirs(JoinPath(folder_, "step-x")));       // not ours
  ASSERT_OK(Save(files_, folder_, 120));                         // passed over when resuming
  ASSERT_OK(KeepNewest(files_, folder_, /*newest=*/100, /*keep=*/2));
  EXPECT_THAT(*files_.List(folder_), ElementsAre("step-100", "step-20", "step-x"));
  ASSERT_OK(KeepNewest(files_, folder_, /*newest=*/100, /*keep=*/1));
  EXPECT_THAT(*files_.List(folder_), ElementsAre("step-100", "step-x"));
}

}  // namespace
}  // namespace colossus
