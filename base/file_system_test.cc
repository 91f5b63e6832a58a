#include "base/file_system.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class FileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(fs_.RemoveTree(dir_));
    ASSERT_OK(fs_.MakeDirs(dir_));
  }
  void TearDown() override { EXPECT_OK(fs_.RemoveTree(dir_)); }

  std::string Path(const std::string& name) { return JoinPath(dir_, name); }
  void Write(const std::string& name, const std::string& data) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file, fs_.Create(Path(name)));
    ASSERT_OK(file->Append(data));
    ASSERT_OK(file->Close());
  }

  FileSystem& fs_ = RealFileSystem();
  const std::string dir_ = JoinPath(::testing::TempDir(), "file_system_test");
};

TEST_F(FileSystemTest, WritesAppendsAndReads) {
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<WritableFile> file, fs_.Create(Path("a")));
  EXPECT_OK(file->Append(std::string("one ")));
  EXPECT_OK(file->Append({}));
  EXPECT_OK(file->Append(std::string("two\0", 4)));
  EXPECT_OK(file->Sync());
  EXPECT_OK(file->Close());
  EXPECT_THAT(fs_.ReadFile(Path("a")), IsOkAndHolds(std::string("one two\0", 8)));
  EXPECT_THAT(fs_.FileSize(Path("a")), IsOkAndHolds(8));
  ASSERT_OK_AND_ASSIGN(file, fs_.OpenForAppend(Path("a")));
  EXPECT_OK(file->Append(std::string("!")));
  file.reset();
  EXPECT_THAT(fs_.ReadFile(Path("a")), IsOkAndHolds(std::string("one two\0!", 9)));
  ASSERT_OK_AND_ASSIGN(file, fs_.Create(Path("a")));
  EXPECT_THAT(fs_.FileSize(Path("a")), IsOkAndHolds(0)) << "Create empties";
}

TEST_F(FileSystemTest, AClosedFileRefusesFurtherUse) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> file, fs_.Create(Path("a")));
  ASSERT_OK(file->Close());
  const std::string data = "x";
  for (const absl::Status& status : {file->Append(data), file->Sync(), file->Close()}) {
    EXPECT_THAT(status, StatusIs(Code::kFailedPrecondition,
                                 AllOf(HasSubstr(Path("a")), HasSubstr("closed already"))));
  }
}

TEST_F(FileSystemTest, ReadsAndMapsFilesOfAllSizes) {
  for (const size_t size : {0, 1, 4094, 4095, 4096, 4097, 100000}) {
    std::string data(size, 'x');
    if (size > 0) data.back() = 'y';
    Write("a", data);
    EXPECT_THAT(fs_.ReadFile(Path("a")), IsOkAndHolds(data));
    ASSERT_OK_AND_ASSIGN(const MappedFile map, fs_.Map(Path("a")));
    EXPECT_EQ(map.size(), static_cast<int64_t>(size));
    EXPECT_EQ(std::string(map.bytes().begin(), map.bytes().end()), data);
  }
}

TEST_F(FileSystemTest, ReadsFilesThatHideTheirSize) {
  ASSERT_OK_AND_ASSIGN(const std::string status, fs_.ReadFile("/proc/self/status"));
  EXPECT_THAT(status, HasSubstr("Pid:"));
}

TEST_F(FileSystemTest, ReadFileGivesUpOnAnEndlessDevice) {
  EXPECT_THAT(fs_.ReadFile("/dev/zero"), StatusIs(Code::kFailedPrecondition, HasSubstr("bytes")));
}

TEST_F(FileSystemTest, MapDoesNotWaitForAPipe) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(fs_.Map(Path("pipe")), StatusIs(Code::kFailedPrecondition, HasSubstr("regular")));
}

TEST_F(FileSystemTest, KnowsSizesBeyondFourGiB) {
  Write("sparse", "x");
  constexpr int64_t kSize = (int64_t{5} << 30) + 3;
  ASSERT_EQ(truncate(Path("sparse").c_str(), kSize), 0);
  EXPECT_THAT(fs_.FileSize(Path("sparse")), IsOkAndHolds(kSize));
#if !defined(__SANITIZE_THREAD__)  // whose address space is laid out more tightly
  ASSERT_OK_AND_ASSIGN(const MappedFile map, fs_.Map(Path("sparse")));
  EXPECT_EQ(map.size(), kSize);
  EXPECT_EQ(map.bytes()[0], 'x');
  EXPECT_EQ(map.bytes()[kSize - 1], '\0');
#endif
}

TEST_F(FileSystemTest, MappingsMoveAndOutliveTheName) {
  Write("a", "first");
  Write("b", "second");
  ASSERT_OK_AND_ASSIGN(MappedFile a, fs_.Map(Path("a")));
  ASSERT_OK_AND_ASSIGN(MappedFile b, fs_.Map(Path("b")));
  ASSERT_OK(fs_.Remove(Path("b")));
  a = std::move(b);
  EXPECT_EQ(std::string(a.bytes().begin(), a.bytes().end()), "second");
  const MappedFile c = std::move(a);
  EXPECT_EQ(a.size(), 0);
  EXPECT_EQ(c.size(), 6);
}

TEST_F(FileSystemTest, ErrorsNameOperationPathAndReason) {
  Write("file", "x");
  ASSERT_OK(fs_.MakeDirs(Path("dir/inner")));
  const std::string missing = Path("missing");
  const auto no_such = [&](const char* operation) {
    return StatusIs(Code::kNotFound, AllOf(HasSubstr(operation), HasSubstr(missing),
                                           HasSubstr("No such file or directory")));
  };
  EXPECT_THAT(fs_.ReadFile(missing), no_such("open "));
  EXPECT_THAT(fs_.Map(missing), no_such("open "));
  EXPECT_THAT(fs_.Create(missing + "/x").status(), no_such("open "));
  EXPECT_THAT(fs_.Rename(missing, Path("b")), no_such("rename "));
  EXPECT_THAT(fs_.Remove(missing), no_such("remove "));
  EXPECT_THAT(fs_.List(missing), no_such("list "));
  EXPECT_THAT(fs_.FileSize(missing), no_such("stat "));
  EXPECT_THAT(fs_.SyncDir(missing), no_such("open "));
  EXPECT_THAT(fs_.FreeBytes(missing), no_such("free space of "));

  const auto refused = StatusIs(Code::kFailedPrecondition);
  EXPECT_THAT(fs_.ReadFile(Path("dir")), refused);
  EXPECT_THAT(fs_.Map(Path("dir")), refused);
  EXPECT_THAT(fs_.Map("/dev/null"), StatusIs(Code::kFailedPrecondition, HasSubstr("regular")));
  EXPECT_THAT(fs_.Create(Path("dir")).status(), refused);
  EXPECT_THAT(fs_.Remove(Path("dir")), refused) << "not empty";
  EXPECT_THAT(fs_.SyncDir(Path("file")), refused);
  EXPECT_THAT(fs_.MakeDirs(Path("file/x")), refused);
  EXPECT_THAT(fs_.MakeDirs(Path("file")), StatusIs(Code::kAlreadyExists));
}

TEST_F(FileSystemTest, AFullDiskIsResourceExhausted) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WritableFile> full, fs_.OpenForAppend("/dev/full"));
  EXPECT_THAT(full->Append(std::string("x")),
              StatusIs(Code::kResourceExhausted, "write /dev/full: No space left on device"));
}

TEST_F(FileSystemTest, FoldersAreMadeListedAndRemoved) {
  EXPECT_OK(fs_.MakeDirs(Path("d/e/f/")));
  EXPECT_OK(fs_.MakeDirs(Path("d/e")));
  Write("d/z", "");
  Write("d/e/y", "");
  Write("outside", "kept");
  ASSERT_EQ(symlink(Path("outside").c_str(), Path("d/e/link").c_str()), 0);
  ASSERT_EQ(symlink(dir_.c_str(), Path("d/up").c_str()), 0);
  EXPECT_THAT(fs_.List(Path("d")), IsOkAndHolds(ElementsAre("e", "up", "z")));
  EXPECT_TRUE(fs_.IsDirectory(Path("d")));
  EXPECT_FALSE(fs_.IsDirectory(Path("d/z")));
  EXPECT_TRUE(fs_.Exists(Path("d/z")));
  EXPECT_OK(fs_.SyncDir(Path("d")));
  EXPECT_OK(fs_.RemoveTree(Path("d")));
  EXPECT_FALSE(fs_.Exists(Path("d")));
  EXPECT_OK(fs_.RemoveTree(Path("d"))) << "no such folder: nothing to do";
  EXPECT_THAT(fs_.ReadFile(Path("outside")), IsOkAndHolds("kept")) << "links are not followed";
  EXPECT_OK(fs_.RemoveTree(Path("outside")));
  EXPECT_THAT(fs_.List(dir_), IsOkAndHolds(ElementsAre()));
}

TEST_F(FileSystemTest, WriteFileAtomicallyReplacesAndCleansUp) {
  EXPECT_OK(fs_.WriteFileAtomically(Path("a"), "old"));
  EXPECT_OK(fs_.WriteFileAtomically(Path("a"), "new"));
  EXPECT_THAT(fs_.ReadFile(Path("a")), IsOkAndHolds("new"));
  ASSERT_OK(fs_.MakeDirs(Path("dir")));
  EXPECT_FALSE(fs_.WriteFileAtomically(Path("dir"), "x").ok());
  EXPECT_THAT(fs_.List(dir_), IsOkAndHolds(ElementsAre("a", "dir")));
}

TEST_F(FileSystemTest, DevicesAndPipesAreNotReplaced) {
  Write("file", "x");
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(fs_.Rename(Path("file"), Path("fifo")),
              StatusIs(Code::kFailedPrecondition, HasSubstr("device or pipe")));
  EXPECT_THAT(fs_.WriteFileAtomically(Path("fifo"), "x"), StatusIs(Code::kFailedPrecondition));
  // As /dev/stdout is, whatever file stands behind it.
  ASSERT_EQ(symlink("/proc/self/exe", Path("link").c_str()), 0);
  EXPECT_THAT(fs_.WriteFileAtomically(Path("link"), "x"), StatusIs(Code::kFailedPrecondition));
}

TEST_F(FileSystemTest, FreeBytesIsPositive) {
  ASSERT_OK_AND_ASSIGN(const int64_t free, fs_.FreeBytes(dir_));
  EXPECT_GT(free, 0);
}

TEST(Paths, JoinAndDirName) {
  EXPECT_EQ(JoinPath("a/b", "c"), "a/b/c");
  EXPECT_EQ(JoinPath("a/", "c"), "a/c");
  EXPECT_EQ(JoinPath("", "c"), "c");
  EXPECT_EQ(JoinPath("a", "/c"), "/c");
  const std::pair<const char*, const char*> cases[] = {
      {"a/b/c", "a/b"}, {"a/b/c/", "a/b"}, {"c", "."}, {"/c", "/"}, {"/", "/"}, {"a//b", "a"},
      {"", "."}};
  for (const auto& [path, dir] : cases) EXPECT_EQ(DirName(path), dir) << path;
}

TEST_F(FileSystemTest, LockHasOneHolder) {
  Write("a", "x");
  for (const std::string& path : {Path("a"), dir_}) {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<FileLock> lock, fs_.Lock(path));
    ASSERT_NE(lock, nullptr);
    EXPECT_THAT(fs_.Lock(path), IsOkAndHolds(::testing::IsNull()));
    lock.reset();
    EXPECT_THAT(fs_.Lock(path), IsOkAndHolds(::testing::NotNull()));
  }
  EXPECT_THAT(fs_.Lock(Path("none")), StatusIs(Code::kNotFound, HasSubstr("none")));
  EXPECT_THAT(fs_.List(dir_), IsOkAndHolds(ElementsAre("a")));
}

// A process that holds a lock is killed: the lock is free.
TEST_F(FileSystemTest, LockEndsWithItsProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = fs_.Lock(dir_);
    const char held = lock.ok() && *lock != nullptr ? 'y' : 'n';
    if (write(ready[1], &held, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char held = 'n';
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_THAT(fs_.Lock(dir_), IsOkAndHolds(::testing::IsNull()));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_THAT(fs_.Lock(dir_), IsOkAndHolds(::testing::NotNull()));
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace colossus
