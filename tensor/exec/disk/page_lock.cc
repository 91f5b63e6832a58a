#include "tensor/exec/disk/page_lock.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace colossus {
namespace {

std::string LimitText() {
  struct rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return absl::StrCat(limit.rlim_cur, " bytes");
}

}  // namespace

absl::Status LockPages(void* memory, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (mlock2(memory, static_cast<size_t>(bytes), MLOCK_ONFAULT) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("host memory is not page-locked: ", bytes,
                   " bytes were asked for, the limit of this process "
                   "(ulimit -l) is ",
                   LimitText(), " (", std::system_category().message(errno),
                   "); the run goes on with pageable memory, with the same numbers"));
}

}  // namespace colossus
