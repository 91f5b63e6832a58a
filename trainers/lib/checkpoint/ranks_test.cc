// A checkpoint written by several ranks at once.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/faulty_file_system.h"
#include "base/testing/status_matchers.h"
#include "collectives/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/host_tensor.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/checkpoint/write.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRanks = 4;

class RanksTest : public ::testing::Test {
 protected:
  RanksTest() : log_([this](absl::string_view text) { absl::StrAppend(&said_, text); }, false) {
    folder_ = JoinPath(JoinPath(::testing::TempDir(), "ranks"),
                       ::testing::UnitTest::GetInstance()->current_test_info()->name());
    EXPECT_OK(files_.RemoveTree(folder_));
  }

  static CheckpointRecord Record(int64_t step) {
    CheckpointRecord record;
    record.counters.attempted = step;
    record.config = "[run]\n";
    record.model = "{}";
    record.states = {{"w", "parameter", {DType::kF32, {8, 1031}}},
                     {"moment1/w", "moment1", {DType::kF32, {8, 1031}}}};
    return record;
  }

  static HostTensor Values(size_t state, int64_t step) {
    HostTensor values(Record(step).states[state].type);
    for (int64_t i = 0; i < values.type().elements(); ++i) {
      values.Set(i, static_cast<double>(i * 3 + step + static_cast<int64_t>(state)));
    }
    return values;
  }

  // The parameter by columns, the moment by elements: each rank a part of both, the last none of
  // the parameter.
  static std::vector<SavedPiece> PiecesOf(int rank) {
    const StatePiece whole = WholePiece({8, 1031});
    const int64_t share = whole.count / kRanks, begin = rank * share;
    std::vector<SavedPiece> pieces = {
        {"moment1/w", PartOf(whole, begin, rank == 3 ? whole.count - begin : share)}};
    const int64_t columns[] = {0, 400, 800, 1031};
    if (rank < 3) {
      const int64_t width = columns[rank + 1] - columns[rank];
      pieces.push_back({"w", {{0, columns[rank]}, {8, width}, 0, 8 * width}});
    }
    return pieces;
  }

  static absl::Status Save(FileSystem& files, const std::string& folder, int64_t step,
                           RankGroup group) {
    const std::vector<SavedPiece> pieces = PiecesOf(group.rank());
    return WriteCheckpoint(
        files, folder, Record(step), pieces,
        [&](size_t piece, int64_t offset, void* dst, int64_t bytes) {
          const SavedPiece& saved = pieces[piece];
          const HostTensor all = Values(saved.state == "w" ? 0 : 1, step);
          std::vector<float> values(static_cast<size_t>(saved.piece.count));
          ForEachRun(saved.piece, WholePiece(all.type().dims),
                     [&](int64_t to, int64_t from, int64_t count) {
                       std::copy_n(all.data<float>().begin() + from, count, values.begin() + to);
                     });
          std::memcpy(dst, reinterpret_cast<const char*>(values.data()) + offset,
                      static_cast<size_t>(bytes));
          return absl::OkStatus();
        },
        group);
  }

  // All ranks save on their own view of the file system; what each was told.
  std::vector<absl::Status> SaveAll(int64_t step, const std::vector<FileSystem*>& views) {
    std::vector<absl::Status> told(kRanks);
    EXPECT_OK(RunRanks({.ranks = kRanks}, [&](Communicator& world) {
      const auto rank = static_cast<size_t>(world.rank());
      told[rank] = Save(*views[rank], folder_, step, RankGroup(&world));
      return absl::OkStatus();
    }));
    return told;
  }

  void ExpectWhole(const Checkpoint& checkpoint, int64_t step) {
    EXPECT_EQ(checkpoint.record().counters.attempted, step);
    for (size_t s = 0; s < 2; ++s) {
      ASSERT_OK_AND_ASSIGN(const HostTensor values,
                           checkpoint.Read(checkpoint.record().states[s].name));
      EXPECT_EQ(values, Values(s, step)) << s;
    }
  }

  FileSystem& files_ = RealFileSystem();
  std::string folder_, said_;
  Log log_;
};

TEST_F(RanksTest, EachRankWritesItsFile) {
  for (const absl::Status& told : SaveAll(10, std::vector<FileSystem*>(kRanks, &files_))) {
    EXPECT_OK(told);
  }
  EXPECT_THAT(*files_.List(CheckpointPath(folder_, 10)),
              ElementsAre("manifest.json", "states-1.safetensors", "states-2.safetensors",
                          "states-3.safetensors", "states.safetensors"));
  // One rank reads it, and so do three, each of which verifies its share.
  ASSERT_OK_AND_ASSIGN(const auto alone, FindNewest(files_, folder_, log_));
  ASSERT_TRUE(alone);
  ExpectWhole(*alone, 10);
  EXPECT_OK(RunRanks({.ranks = 3}, [&](Communicator& world) -> absl::Status {
    ASSIGN_OR_RETURN(const auto newest, FindNewest(files_, folder_, log_, RankGroup(&world)));
    EXPECT_TRUE(newest);
    if (newest) ExpectWhole(*newest, 10);
    return absl::OkStatus();
  }));
  EXPECT_EQ(said_, "");
}

// C3: no space left on rank 1 only, after any number of bytes, and any one operation of one rank
// that fails: all ranks are told, naming rank 1, and the checkpoint of step 10 stays as it was.
TEST_F(RanksTest, C3_FullDiskOnOneRank) {
  const std::vector<FileSystem*> real(kRanks, &files_);
  for (const absl::Status& told : SaveAll(10, real)) EXPECT_OK(told);
  FaultyFileSystem counting(files_);
  std::vector<FileSystem*> views = real;
  views[1] = &counting;
  for (const absl::Status& told : SaveAll(20, views)) EXPECT_OK(told);
  ASSERT_OK(files_.RemoveTree(CheckpointPath(folder_, 20)));

  std::vector<std::unique_ptr<FaultyFileSystem>> faulty;
  for (const int64_t room : {int64_t{0}, int64_t{1}, int64_t{4096}, counting.bytes() - 1}) {
    faulty.push_back(std::make_unique<FaultyFileSystem>(files_, Faults{.disk_bytes = room}));
  }
  const absl::Status full = absl::ResourceExhaustedError("no space left on device: states-1");
  for (int64_t k = 0; k < counting.operations(); ++k) {
    faulty.push_back(
        std::make_unique<FaultyFileSystem>(files_, Faults{.fail_operation = k, .failure = full}));
  }
  for (const auto& view : faulty) {
    views[1] = view.get();
    for (const absl::Status& told : SaveAll(20, views)) {
      EXPECT_THAT(told, StatusIs(absl::StatusCode::kResourceExhausted,
                                 AllOf(HasSubstr("rank 1: "), HasSubstr("states-1"),
                                       HasSubstr("wants 65984 bytes"), HasSubstr("are free"))));
    }
    EXPECT_THAT(*files_.List(folder_), ElementsAre("step-10"));
    ASSERT_OK_AND_ASSIGN(const auto newest, FindNewest(files_, folder_, log_));
    ASSERT_TRUE(newest);
    ExpectWhole(*newest, 10);
  }
  EXPECT_EQ(said_, "");
}

// C3: a rank that is gone in the middle of its file: the others are told, and what is left behind
// is passed over.
TEST_F(RanksTest, C3_ARankDiesWhileSaving) {
  for (const absl::Status& told : SaveAll(10, std::vector<FileSystem*>(kRanks, &files_))) {
    EXPECT_OK(told);
  }
  FaultyFileSystem dying(files_, {.kill_after_bytes = 5000});
  const absl::Status status = RunRanks({.ranks = kRanks}, [&](Communicator& world) {
    RankGroup group(&world);
    if (group.rank() != 2) return Save(files_, folder_, 20, group);
    // It fails alone, as a rank does that never reaches the agreement.
    RETURN_IF_ERROR(group.Sum(0, "save/wanted bytes").status());
    RETURN_IF_ERROR(group.AgreeOnFirst(absl::OkStatus(), "save/begin"));
    const absl::StatusOr<PiecesFile> file =
        WritePieces(dying, CheckpointPath(folder_, 20) + kTemporarySuffix, 2, Record(20),
                    PiecesOf(2), [](size_t, int64_t, void* dst, int64_t bytes) {
                      std::memset(dst, 0, static_cast<size_t>(bytes));
                      return absl::OkStatus();
                    });
    EXPECT_FALSE(file.ok());
    return file.status();
  });
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2"));
  ASSERT_OK_AND_ASSIGN(const auto newest, FindNewest(files_, folder_, log_));
  ASSERT_TRUE(newest);
  ExpectWhole(*newest, 10);
}

// Damage in the file of one rank is found by whichever rank verifies it, and all take the older.
TEST_F(RanksTest, AllRanksPassOverDamage) {
  const std::vector<FileSystem*> real(kRanks, &files_);
  for (const int64_t step : {10, 20}) {
    for (const absl::Status& told : SaveAll(step, real)) EXPECT_OK(told);
  }
  const std::string damaged = JoinPath(CheckpointPath(folder_, 20), "states-3.safetensors");
  ASSERT_OK_AND_ASSIGN(std::string bytes, files_.ReadFile(damaged));
  bytes[bytes.size() - 5] ^= 1;
  ASSERT_OK(files_.WriteFileAtomically(damaged, bytes));
  EXPECT_OK(RunRanks({.ranks = 2}, [&](Communicator& world) -> absl::Status {
    Log quiet(nullptr, false);
    ASSIGN_OR_RETURN(
        const auto newest,
        FindNewest(files_, folder_, world.rank() == 0 ? log_ : quiet, RankGroup(&world)));
    EXPECT_TRUE(newest);
    if (newest) ExpectWhole(*newest, 10);
    return absl::OkStatus();
  }));
  EXPECT_THAT(said_, AllOf(HasSubstr("step-20 is passed over"), HasSubstr("states-3.safetensors"),
                           HasSubstr("checksum")));
}

}  // namespace
}  // namespace colossus
