// Disks that are full, fail or are none, and memory that is not page-locked: FIELD-CASES B2 and B3
// as the trainer meets them.
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_system.h"
#include "base/testing/faulty_file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/disk/file_disk_tier.h"
#include "tensor/exec/disk/testing/changed_queue.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Flags = std::vector<std::string>;

constexpr int64_t kBlock = 4096;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

int Count(const std::string& text, const std::string& part) {
  return static_cast<int>(std::vector<std::string>(absl::StrSplit(text, part)).size()) - 1;
}

class OffloadFaultsTest : public ::testing::Test {
 protected:
  OffloadFaultsTest() : run_("offload_faults") {
    run_.WriteText(20);
    run_.WriteModel({{"n_layer", 2}, {"n_embd", 64}});
  }

  void SetUp() override {
    const absl::Status status = NewFileDiskTier(Folder(), {}).status();
    if (absl::IsInvalidArgument(status)) GTEST_SKIP() << status;
    ASSERT_OK(status);
  }

  std::string Folder() const { return run_.Path("offload"); }

  // Most states lie on disk: host memory is that of the disk's buffers and little more.
  Flags OnDisk() const {
    return {"--precision=bf16", "--global_batch=2", "--data_order=sequential",
            "--schedule=constant", "--device=capped", "--device_memory=1GB", "--placement=cpu",
            absl::StrCat("--host_memory=", StagingBytes({}) + 1000000),
            "--offload_dir=" + Folder()};
  }
  // What a run does whose disk has no faults.
  TinyResult Whole(const Flags& more) {
    run_.set_offload({});
    return run_.Train(OnDisk() + more);
  }
  void Change(ChangedQueue::Change change) {
    FileDiskTierOptions offload;
    offload.wrap_queue = ChangeOperations(std::move(change));
    run_.set_offload(std::move(offload));
  }

  TinyRun run_;
};

TEST_F(OffloadFaultsTest, B3EightKibibytesFree) {
  FaultyFileSystem files(RealFileSystem(), {.disk_bytes = 8192});
  FileDiskTierOptions offload;
  offload.files = &files;
  run_.set_offload(offload);
  const TinyResult result = run_.Train(OnDisk() + Flags{"--steps=1"});
  EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kResourceExhausted,
                                      AllOf(HasSubstr("run.offload_dir=" + Folder()),
                                            HasSubstr("8192 bytes that are free"))));
  EXPECT_TRUE(result.states.empty());
  EXPECT_TRUE(std::filesystem::is_empty(Folder()));
}

// Every operation moves one block at most, and every third one nothing yet.
TEST_F(OffloadFaultsTest, B3ShortWritesGoOn) {
  const TinyResult whole = Whole({"--steps=2"});
  ASSERT_OK(whole.status);
  std::atomic<int> operations = 0;
  Change([&](DiskOperation& operation) -> std::optional<int64_t> {
    if (++operations % 3 == 0) return -EINTR;
    operation.bytes = std::min(operation.bytes, kBlock);
    return std::nullopt;
  });
  const TinyResult shortened = run_.Train(OnDisk() + Flags{"--steps=2"});
  ASSERT_OK(shortened.status);
  EXPECT_GT(operations, 100);
  EXPECT_EQ(StateDifference(shortened.states, whole.states), "");
}

// What a disk can answer to a write, and what the run then says.
struct Failure {
  int64_t result;
  absl::StatusCode code;
  const char* text;
};

// The disk fails in step 3, when two checkpoints are there: the run ends, and the same command goes
// on from the second one to the same end.
TEST_F(OffloadFaultsTest, B3AFailedWriteEndsTheRun) {
  const TinyResult whole = Whole({"--steps=4"});
  ASSERT_OK(whole.status);
  const Failure failures[] = {
      {-ENOSPC, absl::StatusCode::kResourceExhausted, "No space left on device"},
      {-EIO, absl::StatusCode::kUnavailable, "Input/output error"},
      {0, absl::StatusCode::kDataLoss, "0 of "},
  };
  for (const Failure& failure : failures) {
    SCOPED_TRACE(failure.text);
    const Flags job = OnDisk() + Flags{"--steps=4", "--save_every=1", "--out=" + run_.Path("out")};
    ASSERT_OK(RealFileSystem().RemoveTree(run_.Path("out")));
    std::atomic<bool> broken = false;
    Change([&](DiskOperation& operation) -> std::optional<int64_t> {
      if (!broken || !operation.write) return std::nullopt;
      return failure.result;
    });
    TrainHooks hooks;
    hooks.before_data = [&](int64_t step) {
      broken = step == 3;
      return absl::OkStatus();
    };
    const TinyResult failed = run_.Train(job, RealFileSystem(), hooks);
    EXPECT_THAT(failed.status,
                StatusIs(failure.code, AllOf(HasSubstr(Folder()), HasSubstr(failure.text),
                                             Not(HasSubstr("device memory")))));
    run_.set_offload({});
    const TinyResult again = run_.Train(job);
    ASSERT_OK(again.status);
    EXPECT_THAT(again.log, HasSubstr("goes on with step 3 of 4"));
    EXPECT_EQ(StateDifference(again.states, whole.states), "");
  }
}

// The file has no name; the system lists it among those that this process has open.
void CutOffloadFile(const std::string& folder) {
  const std::string path = std::filesystem::weakly_canonical(folder).string();
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (error || target.find(path) != 0) continue;
    const int file = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    ASSERT_EQ(ftruncate(file, 0), 0);
    close(file);
    return;
  }
  FAIL() << "no offload file in " << path;
}

TEST_F(OffloadFaultsTest, B3AFileOfNoLengthIsFoundWhenItIsUsed) {
  run_.set_offload({});
  TrainHooks hooks;
  hooks.before_data = [&](int64_t step) {
    if (step == 2) CutOffloadFile(Folder());
    return absl::OkStatus();
  };
  const TinyResult result =
      run_.Train(OnDisk() + Flags{"--steps=3"}, RealFileSystem(), hooks);
  EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kDataLoss,
                                      AllOf(HasSubstr(Folder()), HasSubstr("has 0 bytes where"))));
}

TEST_F(OffloadFaultsTest, MemoryIsNoDisk) {
  const TinyResult result = run_.Train(
      Flags{"--steps=1", "--device=capped", "--device_memory=1GB", "--offload_dir=/dev/shm"});
  if (result.status.ok()) GTEST_SKIP() << "/dev/shm is a disk here";
  EXPECT_THAT(result.status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--offload_dir: /dev/shm"),
                             HasSubstr("in memory (tmpfs or the like)"))));
}

TEST_F(OffloadFaultsTest, HostMemoryBelowTheDisksBuffersIsRefused) {
  const TinyResult result =
      run_.Train(Flags{"--steps=1", "--device=capped", "--device_memory=1GB",
                       "--host_memory=1MB", "--offload_dir=" + Folder()});
  EXPECT_THAT(result.status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("run.host_memory"),
                             HasSubstr("give at least --host_memory=33554432"))));
}

int64_t NumberAfter(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + words.size());
}

// What the refusal says would do counts the disk's buffers, and does.
TEST_F(OffloadFaultsTest, HostMemoryThatTheRefusalNamesIsEnough) {
  run_.set_offload({});
  Flags job = {"--steps=1", "--precision=bf16", "--device=capped", "--device_memory=1GB",
               "--placement=cpu", "--offload_dir=" + Folder()};
  const int64_t given = StagingBytes({}) + 100000;
  const TinyResult refused = run_.Train(job + Flags{absl::StrCat("--host_memory=", given)});
  const std::string message(refused.status.message());
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted) << refused.status;
  EXPECT_THAT(message, HasSubstr(absl::StrCat("the host has ", given, " bytes")));
  const int64_t enough = NumberAfter(message, "It would fit with a host memory of ");
  EXPECT_GT(enough, given);
  ASSERT_OK(run_.Train(job + Flags{absl::StrCat("--host_memory=", enough)}).status);
}

TEST_F(OffloadFaultsTest, HostMemoryWithoutADiskSaysWhatOneTakes) {
  const TinyResult refused =
      run_.Train(Flags{"--steps=1", "--device=capped", "--device_memory=1GB", "--placement=cpu",
                       "--host_memory=1000"});
  EXPECT_THAT(std::string(refused.status.message()),
              AllOf(HasSubstr("or with a disk to offload to"),
                    HasSubstr("its buffers take 33554432 bytes of host memory")));
}

void GiveUpLockingPrivilege() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  ASSERT_EQ(syscall(SYS_capget, &header, data), 0);
  data[0].effective &= ~(1u << CAP_IPC_LOCK);
  ASSERT_EQ(syscall(SYS_capset, &header, data), 0);
}

TEST_F(OffloadFaultsTest, B2PageLockThatIsNotGrantedIsOneWarning) {
  const Flags job = {"--steps=2", "--precision=bf16", "--device=capped", "--device_memory=1GB",
                     "--placement=cpu"};
  const TinyResult locked = run_.Train(job);
  ASSERT_OK(locked.status);
  struct rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &old), 0);
  const struct rlimit small = {64 << 10, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &small), 0);
  GiveUpLockingPrivilege();
  const TinyResult pageable = run_.Train(job);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &old), 0);
  ASSERT_OK(pageable.status);
  EXPECT_EQ(Count(pageable.log, "not page-locked"), 1) << pageable.log;
  EXPECT_THAT(pageable.log, HasSubstr(" bytes were asked for, the limit of this process"));
  EXPECT_THAT(pageable.log, HasSubstr("is 65536 bytes"));
  EXPECT_THAT(pageable.log, Not(HasSubstr("device memory")));
  EXPECT_EQ(StateDifference(pageable.states, locked.states), "");
}

}  // namespace
}  // namespace colossus
