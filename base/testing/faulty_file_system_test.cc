#include "base/testing/faulty_file_system.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class FaultyFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override { Reset(); }
  void TearDown() override { EXPECT_OK(real_.RemoveTree(dir_)); }

  void Reset() {
    ASSERT_OK(real_.RemoveTree(dir_));
    ASSERT_OK(real_.MakeDirs(dir_));
  }
  std::string Path(const std::string& name) { return JoinPath(dir_, name); }

  FileSystem& real_ = RealFileSystem();
  const std::string dir_ = JoinPath(::testing::TempDir(), "faulty_file_system_test");
};

// Writes `data`, perhaps syncs it, and closes.
absl::Status Write(FileSystem& fs, const std::string& path, const std::string& data, bool sync) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, fs.Create(path));
  RETURN_IF_ERROR(file->Append(data));
  if (sync) RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

TEST_F(FaultyFileSystemTest, WithoutFaultsPassesEverythingOn) {
  FaultyFileSystem fs(real_);
  ASSERT_OK(fs.MakeDirs(Path("d/e")));
  ASSERT_OK(Write(fs, Path("d/a"), "hello", true));
  ASSERT_OK(fs.Rename(Path("d/a"), Path("d/e/b")));
  EXPECT_EQ(fs.operations(), 6);
  EXPECT_EQ(fs.bytes(), 5);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> more, fs.OpenForAppend(Path("d/e/b")));
  ASSERT_OK(more->Append(std::string("!")));
  EXPECT_THAT(fs.ReadFile(Path("d/e/b")), IsOkAndHolds("hello!"));
  EXPECT_THAT(fs.FileSize(Path("d/e/b")), IsOkAndHolds(6));
  EXPECT_THAT(fs.List(Path("d")), IsOkAndHolds(ElementsAre("e")));
  EXPECT_TRUE(fs.Exists(Path("d/e/b")));
  EXPECT_TRUE(fs.IsDirectory(Path("d/e")));
  EXPECT_OK(fs.Map(Path("d/e/b")).status());
  EXPECT_OK(fs.FreeBytes(dir_).status());
  EXPECT_OK(fs.SyncDir(dir_));
  EXPECT_OK(fs.Remove(Path("d/e/b")));
  EXPECT_OK(fs.RemoveTree(Path("d")));
  EXPECT_FALSE(fs.killed());
}

TEST_F(FaultyFileSystemTest, FailsTheChosenOperationAlone) {
  constexpr int kOperations = 4;  // create, write, sync, close
  for (int k = 0; k < kOperations; ++k) {
    FaultyFileSystem fs(real_, {.fail_operation = k, .failure = absl::DataLossError("bad sector")});
    EXPECT_THAT(Write(fs, Path("a"), "data", true),
                StatusIs(Code::kDataLoss, AllOf(HasSubstr(Path("a")), HasSubstr("bad sector"))));
    EXPECT_OK(Write(fs, Path("a"), "data", true)) << "later operations work";
  }
}

TEST_F(FaultyFileSystemTest, AFullDiskTakesWhatFits) {
  FaultyFileSystem fs(real_, {.disk_bytes = 10});
  ASSERT_OK(Write(fs, Path("a"), "1234567", false));
  EXPECT_THAT(fs.FreeBytes(dir_), IsOkAndHolds(3));
  EXPECT_THAT(Write(fs, Path("b"), "12345", false),
              StatusIs(Code::kResourceExhausted, HasSubstr("No space left on device")));
  EXPECT_THAT(real_.ReadFile(Path("b")), IsOkAndHolds("123")) << "a short write";
  EXPECT_THAT(Write(fs, Path("c"), "1", false), StatusIs(Code::kResourceExhausted));
  EXPECT_OK(Write(fs, Path("c"), "", false));
}

TEST_F(FaultyFileSystemTest, DeathEndsEverything) {
  FaultyFileSystem fs(real_, {.kill_after_bytes = 6});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file, fs.Create(Path("a")));
  ASSERT_OK(file->Append(std::string("1234")));
  EXPECT_THAT(file->Append(std::string("5678")), StatusIs(Code::kAborted, HasSubstr("killed")));
  EXPECT_TRUE(fs.killed());
  const std::vector<absl::Status> later = {
      file->Append(std::string("x")), file->Sync(), file->Close(), fs.ReadFile(Path("a")).status(),
      fs.Map(Path("a")).status(), fs.Create(Path("b")).status(),
      fs.OpenForAppend(Path("a")).status(), fs.Rename(Path("a"), Path("b")), fs.Remove(Path("a")),
      fs.RemoveTree(Path("a")), fs.MakeDirs(Path("d")), fs.List(dir_).status(), fs.SyncDir(dir_),
      fs.FileSize(Path("a")).status(), fs.FreeBytes(dir_).status()};
  for (const absl::Status& status : later) EXPECT_THAT(status, StatusIs(Code::kAborted));
  EXPECT_FALSE(fs.Exists(Path("a")));
  EXPECT_FALSE(fs.IsDirectory(dir_));
  EXPECT_THAT(real_.ReadFile(Path("a")), IsOkAndHolds("123456")) << "a torn write";
  EXPECT_THAT(real_.List(dir_), IsOkAndHolds(ElementsAre("a")));
}

TEST_F(FaultyFileSystemTest, DeathAtAnAppendLeavesHalfOfIt) {
  FaultyFileSystem fs(real_, {.kill_operation = 1});
  EXPECT_THAT(Write(fs, Path("a"), "123456", false), StatusIs(Code::kAborted));
  EXPECT_THAT(real_.ReadFile(Path("a")), IsOkAndHolds("123"));
}

// What a crash leaves of each sequence of operations: "name=data" of all files and folders below.
struct CrashCase {
  const char* name;
  std::function<absl::Status(FileSystem&, const std::string& dir)> run;
  std::string left;
};

std::string Tree(FileSystem& fs, const std::string& dir, const std::string& prefix = "") {
  std::string text;
  const std::vector<std::string> names = fs.List(dir).value();
  for (const std::string& name : names) {
    const std::string path = JoinPath(dir, name);
    if (fs.IsDirectory(path)) {
      text += prefix + name + "/ " + Tree(fs, path, prefix + name + "/");
    } else {
      text += prefix + name + "=" + *fs.ReadFile(path) + " ";
    }
  }
  return text;
}

std::vector<CrashCase> CrashCases() {
  const auto synced = [](FileSystem& fs, const std::string& d) -> absl::Status {
    RETURN_IF_ERROR(Write(fs, d + "/tmp", "new", true));
    return fs.Rename(d + "/tmp", d + "/old");
  };
  const auto folder = [](FileSystem& fs, const std::string& d) -> absl::Status {
    RETURN_IF_ERROR(fs.MakeDirs(d + "/tmp/in"));
    RETURN_IF_ERROR(Write(fs, d + "/tmp/in/x", "new", true));
    return fs.SyncDir(d + "/tmp");
  };
  return {
      {"a new name is lost without SyncDir",
       [](FileSystem& fs, const std::string& d) { return Write(fs, d + "/a", "new", true); },
       "old=1 "},
      {"data is lost without Sync",
       [](FileSystem& fs, const std::string& d) -> absl::Status {
         RETURN_IF_ERROR(Write(fs, d + "/a", "new", false));
         return fs.SyncDir(d);
       }, "a= old=1 "},
      {"both synced: kept",
       [](FileSystem& fs, const std::string& d) -> absl::Status {
         RETURN_IF_ERROR(Write(fs, d + "/a", "new", true));
         return fs.SyncDir(d + "/");
       }, "a=new old=1 "},
      {"appended data is lost down to the last Sync",
       [](FileSystem& fs, const std::string& d) -> absl::Status {
         ASSIGN_OR_RETURN(const auto file, fs.OpenForAppend(d + "/old"));
         RETURN_IF_ERROR(file->Append(std::string("23")));
         RETURN_IF_ERROR(file->Sync());
         return file->Append(std::string("45"));
       }, "old=123 "},
      {"emptied by Create", [](FileSystem& fs, const std::string& d) -> absl::Status {
         return Write(fs, d + "/old", "new", false);
       }, "old= "},
      {"a rename is undone", synced, "old=1 "},
      {"a rename is kept after SyncDir",
       [synced](FileSystem& fs, const std::string& d) -> absl::Status {
         RETURN_IF_ERROR(synced(fs, d));
         return fs.SyncDir(d);
       }, "old=new "},
      {"a rename of data not synced leaves an empty file",
       [](FileSystem& fs, const std::string& d) -> absl::Status {
         RETURN_IF_ERROR(Write(fs, d + "/tmp", "new", false));
         RETURN_IF_ERROR(fs.Rename(d + "/tmp", d + "/old"));
         return fs.SyncDir(d);
       }, "old= "},
      {"a removal stays",
       [](FileSystem& fs, const std::string& d) { return fs.Remove(d + "/old"); }, ""},
      {"folders are lost without a SyncDir above", folder, "old=1 "},
      {"a folder is kept, without the names in an inner one",
       [folder](FileSystem& fs, const std::string& d) -> absl::Status {
         RETURN_IF_ERROR(folder(fs, d));
         return fs.SyncDir(d);
       }, "old=1 tmp/ tmp/in/ "},
      {"a renamed folder without the names synced before or after",
       [folder](FileSystem& fs, const std::string& d) -> absl::Status {
         RETURN_IF_ERROR(folder(fs, d));
         RETURN_IF_ERROR(fs.Rename(d + "/tmp", d + "/final"));
         return fs.SyncDir(d);
       }, "final/ final/in/ old=1 "},
      {"a renamed folder, the names synced under the new path",
       [folder](FileSystem& fs, const std::string& d) -> absl::Status {
         RETURN_IF_ERROR(folder(fs, d));
         RETURN_IF_ERROR(fs.Rename(d + "/tmp", d + "/final"));
         RETURN_IF_ERROR(fs.SyncDir(d + "/final/in"));
         return fs.SyncDir(d);
       }, "final/ final/in/ final/in/x=new old=1 "},
  };
}

TEST_F(FaultyFileSystemTest, ACrashLosesWhatWasNotSynced) {
  for (const CrashCase& c : CrashCases()) {
    Reset();
    ASSERT_OK(Write(real_, Path("old"), "1", true));
    FaultyFileSystem fs(real_, {.lose_unsynced = true});
    ASSERT_OK(c.run(fs, dir_)) << c.name;
    fs.Kill();
    EXPECT_EQ(Tree(real_, dir_), c.left) << c.name;
  }
}

TEST_F(FaultyFileSystemTest, WriteFileAtomicallySurvivesDeathAtEveryOperation) {
  for (const bool lose_unsynced : {false, true}) {
    bool finished = false;
    for (int64_t k = 0; !finished; ++k) {
      ASSERT_LT(k, 20);
      Reset();
      ASSERT_OK(Write(real_, Path("a"), "old", true));
      FaultyFileSystem fs(real_, {.kill_operation = k, .lose_unsynced = lose_unsynced});
      finished = fs.WriteFileAtomically(Path("a"), "new data").ok();
      EXPECT_EQ(finished, !fs.killed());
      fs.Kill();
      if (finished) {
        EXPECT_THAT(real_.ReadFile(Path("a")), IsOkAndHolds("new data"));
        EXPECT_EQ(k, 6) << "create, write, sync, close, rename, sync folder";
      } else {
        EXPECT_THAT(real_.ReadFile(Path("a")), IsOkAndHolds(AnyOf("old", "new data"))) << k;
      }
    }
  }
}

TEST_F(FaultyFileSystemTest, WriteFileAtomicallyCleansUpAfterErrors) {
  ASSERT_OK(Write(real_, Path("a"), "old", true));
  FaultyFileSystem full(real_, {.disk_bytes = 3});
  EXPECT_THAT(full.WriteFileAtomically(Path("a"), "new data"), StatusIs(Code::kResourceExhausted));
  EXPECT_EQ(Tree(real_, dir_), "a=old ");
  for (int64_t k = 0; k < 5; ++k) {
    FaultyFileSystem fs(real_, {.fail_operation = k});
    EXPECT_THAT(fs.WriteFileAtomically(Path("a"), "new data"), StatusIs(Code::kUnavailable));
    EXPECT_EQ(Tree(real_, dir_), "a=old ") << k;
  }
}

}  // namespace
}  // namespace colossus
