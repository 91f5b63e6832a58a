#include "tensor/exec/disk/file_disk_tier.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/testing/faulty_file_system.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/disk/null_disk_tier.h"
#include "tensor/exec/disk/testing/changed_queue.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kBlock = 4096;

std::vector<char> RandomBytes(int64_t bytes, std::mt19937_64& random) {
  std::vector<char> values(static_cast<size_t>(bytes));
  for (char& value : values) value = static_cast<char>(random());
  return values;
}

// By io_uring and by threads.
class FileDiskTierTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/offload");
    options_.ring = GetParam();
    options_.piece_bytes = 4 * kBlock;
    const auto tier = NewFileDiskTier(folder_, options_);
    if (absl::IsInvalidArgument(tier.status())) GTEST_SKIP() << tier.status();
    ASSERT_OK(tier);
    if (GetParam() && (*tier)->method() != "io_uring") GTEST_SKIP() << "no io_uring here";
  }

  std::unique_ptr<FileDiskTier> Tier(int64_t bytes) {
    auto tier = NewFileDiskTier(folder_, options_);
    EXPECT_OK(tier);
    EXPECT_OK((*tier)->Reserve(bytes));
    return *std::move(tier);
  }

  std::string folder_;
  FileDiskTierOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Queues, FileDiskTierTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Ring" : "Threads"; });

// FIELD-CASES B3.
TEST_P(FileDiskTierTest, B3StagingBufferOfAThousandElements) {
  std::vector<int64_t> pieces;
  options_.piece_bytes = 4000;
  options_.pieces_in_flight = 1;
  options_.wrap_queue = ChangeOperations([&](DiskOperation& operation) {
    if (operation.write) pieces.push_back(operation.offset);
    EXPECT_EQ(operation.bytes % kBlock, 0);
    EXPECT_EQ(operation.offset % kBlock, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(operation.memory) % kBlock, 0u);
    return std::nullopt;
  });
  auto tier = Tier(10000);
  std::vector<float> values(2500), back(2500);
  std::iota(values.begin(), values.end(), 0.5f);
  ASSERT_OK(tier->Write(0, values.data(), 10000));
  // 1000, 1000 and 500 elements, a block each.
  EXPECT_THAT(pieces, ElementsAre(0, 4096, 8192));
  EXPECT_EQ(tier->traffic().written_bytes, 12288);
  ASSERT_OK(tier->Read(0, back.data(), 10000));
  EXPECT_EQ(std::memcmp(values.data(), back.data(), 10000), 0);
}

TEST_P(FileDiskTierTest, B3EightKibibytesFree) {
  FaultyFileSystem files(RealFileSystem(), {.disk_bytes = 8192});
  options_.piece_bytes = 4000;
  options_.files = &files;
  auto tier = NewFileDiskTier(folder_, options_);
  ASSERT_OK(tier);
  EXPECT_EQ((*tier)->capacity_bytes(), 8192);
  const absl::Status status = (*tier)->Reserve(10000);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_));
  EXPECT_THAT(std::string(status.message()), HasSubstr("12288 bytes of disk are wanted"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("8192 are free"));
  EXPECT_OK((*tier)->Reserve(8000));  // two pieces
}

TEST_P(FileDiskTierTest, RandomRangesAreThoseOfMemory) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t piece : {kBlock, 3 * kBlock, int64_t{5000}, int64_t{100}}) {
    SCOPED_TRACE(absl::StrCat("pieces of ", piece));
    options_.piece_bytes = piece;
    const int64_t size = 40 * piece + 77;
    auto tier = Tier(size);
    std::vector<char> expected = RandomBytes(size, random);
    ASSERT_OK(tier->Write(0, expected.data(), size));
    for (int trial = 0; trial < 60; ++trial) {
      const int64_t offset = static_cast<int64_t>(random() % static_cast<uint64_t>(size));
      const int64_t bytes =
          static_cast<int64_t>(random() % static_cast<uint64_t>(size - offset + 1));
      if (trial % 2 == 0) {
        const std::vector<char> values = RandomBytes(bytes, random);
        std::copy(values.begin(), values.end(), expected.begin() + offset);
        ASSERT_OK(tier->Write(offset, values.data(), bytes));
      }
      std::vector<char> back(static_cast<size_t>(bytes));
      ASSERT_OK(tier->Read(offset, back.data(), bytes));
      ASSERT_EQ(std::memcmp(back.data(), expected.data() + offset, back.size()), 0)
          << offset << " + " << bytes;
    }
  }
}

TEST_P(FileDiskTierTest, WholeBlocksOfAlignedMemoryMoveAsTheyAre) {
  std::vector<const void*> addresses;
  options_.wrap_queue = ChangeOperations([&](DiskOperation& operation) {
    addresses.push_back(operation.memory);
    return std::nullopt;
  });
  const int64_t bytes = 10 * kBlock;
  auto tier = Tier(bytes);
  std::vector<char> room(static_cast<size_t>(bytes + kBlock));
  void* start = room.data();
  size_t space = room.size();
  ASSERT_NE(std::align(kBlock, static_cast<size_t>(bytes), start, space), nullptr);
  char* aligned = static_cast<char*>(start);
  ASSERT_OK(tier->Write(0, aligned, bytes));
  EXPECT_THAT(addresses, ElementsAre(aligned, aligned + 4 * kBlock, aligned + 8 * kBlock));
  EXPECT_EQ(tier->traffic().written_bytes, bytes);
  EXPECT_EQ(tier->traffic().read_bytes, 0);
}

TEST_P(FileDiskTierTest, WhatMovesShortGoesOn) {
  int calls = 0;
  options_.wrap_queue = ChangeOperations([&](DiskOperation& operation) -> std::optional<int64_t> {
    if (++calls % 3 == 0) return calls % 2 == 0 ? -EINTR : -EAGAIN;
    operation.bytes = std::min<int64_t>(operation.bytes, kBlock);
    return std::nullopt;
  });
  std::mt19937_64 random(TestSeed());
  const std::vector<char> values = RandomBytes(9 * kBlock + 5, random);
  const int64_t bytes = static_cast<int64_t>(values.size());
  auto tier = Tier(bytes);
  ASSERT_OK(tier->Write(0, values.data(), bytes));
  std::vector<char> back(values.size());
  ASSERT_OK(tier->Read(0, back.data(), bytes));
  EXPECT_EQ(back, values);
}

struct Failure {
  bool write;
  int64_t result;
  absl::StatusCode code;
  const char* text;
};

TEST_P(FileDiskTierTest, FailuresNameOperationFolderAndReason) {
  const Failure failures[] = {
      {true, -ENOSPC, absl::StatusCode::kResourceExhausted, "No space left on device"},
      {true, -EIO, absl::StatusCode::kUnavailable, "Input/output error"},
      {true, 0, absl::StatusCode::kDataLoss, "0 of 16384 bytes at 16384 moved"},
      {true, 100, absl::StatusCode::kDataLoss, "100 of 16384 bytes at 16384 moved"},
      {false, -EIO, absl::StatusCode::kUnavailable, "Input/output error"},
      {false, 0, absl::StatusCode::kDataLoss, "0 of 16384 bytes at 16384 moved"},
  };
  for (const Failure& failure : failures) {
    SCOPED_TRACE(absl::StrCat(failure.write ? "write " : "read ", failure.result));
    bool armed = true;
    options_.wrap_queue = ChangeOperations([&](DiskOperation& operation) -> std::optional<int64_t> {
      const bool here = armed && operation.write == failure.write && operation.offset == 16384;
      return here ? std::optional<int64_t>(failure.result) : std::nullopt;
    });
    const int64_t bytes = 20 * kBlock;
    auto tier = Tier(bytes);
    std::vector<char> values(static_cast<size_t>(bytes), 'v');
    const auto move = [&] {
      return failure.write ? tier->Write(0, values.data(), bytes)
                           : tier->Read(0, values.data(), bytes);
    };
    const absl::Status status = move();
    EXPECT_EQ(status.code(), failure.code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(failure.write ? "write" : "read"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder_));
    EXPECT_THAT(std::string(status.message()), HasSubstr(failure.text));
    armed = false;
    EXPECT_OK(move());  // nothing of it is left under way
  }
}

// Opens the tier's file, which has no name, again.
int OpenAgain(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!error && target.find(std::filesystem::weakly_canonical(folder).string()) == 0) {
      return open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    }
  }
  return -1;
}

TEST_P(FileDiskTierTest, AFileThatWasCutIsFoundWhenItIsWrittenOrRead) {
  const int64_t bytes = 8 * kBlock;
  auto tier = Tier(bytes);
  std::vector<char> values(static_cast<size_t>(bytes), 'v');
  ASSERT_OK(tier->Write(0, values.data(), bytes));
  const int file = OpenAgain(folder_);
  ASSERT_GE(file, 0);
  for (const int64_t left : {5 * kBlock, int64_t{0}}) {
    ASSERT_EQ(ftruncate(file, left), 0);
    for (const absl::Status& status :
         {tier->Write(0, values.data(), bytes), tier->Read(0, values.data(), bytes)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("has ", left, " bytes where 32768 were reserved")));
    }
  }
  close(file);
}

TEST_P(FileDiskTierTest, ReadsAndWritesGoBesideEachOther) {
  const int64_t half = 100 * kBlock;
  auto tier = Tier(2 * half);
  std::mt19937_64 random(TestSeed());
  const std::vector<char> first = RandomBytes(half, random), second = RandomBytes(half, random);
  ASSERT_OK(tier->Write(0, first.data(), half));
  std::thread writer([&] {
    for (int n = 0; n < 5; ++n) EXPECT_OK(tier->Write(half, second.data(), half));
  });
  std::vector<char> back(static_cast<size_t>(half));
  for (int n = 0; n < 5; ++n) {
    EXPECT_OK(tier->Read(0, back.data(), half));
    EXPECT_EQ(back, first);
  }
  writer.join();
  EXPECT_OK(tier->Read(half, back.data(), half));
  EXPECT_EQ(back, second);
}

TEST_P(FileDiskTierTest, LeavesNoNameAndGivesItsDiskBack) {
  {
    auto tier = Tier(64 * kBlock);
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// As by ulimit -f, with SIGXFSZ ignored: the disk is not what is too small.
TEST_P(FileDiskTierTest, AFileThatMayNotBeSoLarge) {
  struct rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto tier = NewFileDiskTier(folder_, options_);
  ASSERT_OK(tier);
  const auto before = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {8 * kBlock, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = (*tier)->Reserve(64 * kBlock);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, before);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("in one file, which may not be so large"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit -f"));
}

TEST_P(FileDiskTierTest, NothingIsReservedForNothing) {
  auto tier = Tier(0);
  EXPECT_OK(tier->Write(0, nullptr, 0));
  EXPECT_OK(tier->Read(0, nullptr, 0));
}

TEST(FileDiskTier, FoldersThatCannotBeUsedAreRefused) {
  const std::string file = absl::StrCat(testing::TempDir(), "/a_file");
  ASSERT_OK(RealFileSystem().WriteFileAtomically(file, "x"));
  for (const std::string& folder : {file, file + "/inside"}) {
    const absl::Status status = NewFileDiskTier(folder, {}).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(file));
    EXPECT_THAT(std::string(status.message()), HasSubstr("give as --offload_dir a folder"));
  }
}

TEST(FileDiskTier, MemoryIsNoDisk) {
  struct statfs info;
  if (statfs("/dev/shm", &info) != 0 || info.f_type != 0x01021994) GTEST_SKIP() << "no tmpfs here";
  const absl::Status status = NewFileDiskTier("/dev/shm", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/shm"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("in memory (tmpfs or the like)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--offload_dir"));
}

// Protects: what is planned with a disk is what runs with one.
TEST(FileDiskTier, TheNullTierOffersAndTakesTheSame) {
  const auto tier = NewFileDiskTier(absl::StrCat(testing::TempDir(), "/null"), {});
  if (absl::IsInvalidArgument(tier.status())) GTEST_SKIP() << tier.status();
  ASSERT_OK(tier);
  const std::unique_ptr<DiskTier> null = NewNullDiskTier(8192);
  EXPECT_EQ(null->staging_bytes(), (*tier)->staging_bytes());
  EXPECT_EQ(null->alignment_bytes(), (*tier)->alignment_bytes());
  EXPECT_EQ(null->capacity_bytes(), 8192);
  EXPECT_OK(null->Reserve(8192));
  EXPECT_EQ(null->Reserve(8193).code(), absl::StatusCode::kResourceExhausted);
  const std::unique_ptr<DiskTier> same = NewNullDiskTier(**tier);
  EXPECT_EQ(same->capacity_bytes(), (*tier)->capacity_bytes());
  EXPECT_EQ(same->staging_bytes(), (*tier)->staging_bytes());
}

}  // namespace
}  // namespace colossus
