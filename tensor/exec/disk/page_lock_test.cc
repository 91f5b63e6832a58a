// FIELD-CASES B2, as far as it is the system's answer.
#include "tensor/exec/disk/page_lock.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The privilege that lifts the limit is a thread's own.
void GiveUpLockingPrivilege() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  ASSERT_EQ(syscall(SYS_capget, &header, data), 0);
  data[0].effective &= ~(1u << CAP_IPC_LOCK);
  ASSERT_EQ(syscall(SYS_capset, &header, data), 0);
}

absl::Status LockWithLimit(rlim_t limit, int64_t bytes) {
  absl::Status locked;
  std::thread([&] {
    struct rlimit old;
    ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &old), 0);
    GiveUpLockingPrivilege();
    const struct rlimit wanted = {limit, old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &wanted), 0);
    void* memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    locked = LockPages(memory, bytes);
    static_cast<char*>(memory)[bytes - 1] = 1;  // it can be used either way
    munmap(memory, static_cast<size_t>(bytes));
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &old), 0);
  }).join();
  return locked;
}

TEST(PageLock, BeyondTheLimitTellsBothNumbersAndNoDevice) {
  const absl::Status locked = LockWithLimit(64 << 10, 16 * kMiB);
  EXPECT_EQ(locked.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(locked.message());
  EXPECT_THAT(message, testing::HasSubstr("16777216 bytes were asked for"));
  EXPECT_THAT(message, testing::HasSubstr("is 65536 bytes"));
  EXPECT_THAT(message, testing::HasSubstr("goes on with pageable memory"));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("device")));
}

TEST(PageLock, WithinTheLimitIsGranted) {
  EXPECT_EQ(LockWithLimit(64 << 10, 16 << 10), absl::OkStatus());
  EXPECT_EQ(LockPages(nullptr, 0), absl::OkStatus());
}

}  // namespace
}  // namespace colossus
