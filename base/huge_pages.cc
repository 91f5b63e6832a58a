#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace colossus {

void AdviseHugePages(void* memory, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = (begin + bytes) / kHugePage * kHugePage;
  if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace colossus
