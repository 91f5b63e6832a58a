#include "collectives/wait_word.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace colossus {
namespace {

constexpr long kLookUpNanoseconds = 20'000'000;
// Without spinning there are more threads than cores: what is waited for often comes once others
// have had this core, and that costs less than to sleep and be woken.
constexpr int kYields = 4;

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void WaitWord::Wake() {
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool WaitWord::WaitFor(uint32_t target, int spins, absl::FunctionRef<bool()> stop) {
  for (int i = 0; i < spins; ++i) {
    if (Reached(target)) return true;
    if (i % 64 == 63 && stop()) return false;
    Pause();
  }
  for (int i = 0; i < kYields && spins == 0; ++i) {
    if (Reached(target)) return true;
    sched_yield();
  }
  if (Reached(target)) return true;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool reached = false;
  while (true) {
    const uint32_t seen = Load();
    reached = static_cast<int32_t>(seen - target) >= 0;
    if (reached || stop()) break;
    const timespec limit = {0, kLookUpNanoseconds};
    syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, seen, &limit, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return reached;
}

}  // namespace colossus
