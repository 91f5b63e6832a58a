#include "base/testing/heap_counter.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace colossus {
namespace {

constinit std::atomic<int64_t> held{0}, peak{0};

}  // namespace

int64_t HeapBytes() { return held; }
int64_t HeapPeak() { return peak; }
void ResetHeapPeak() { peak = held.load(); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

bool HeapIsCounted() { return false; }

}  // namespace colossus

#else

bool HeapIsCounted() { return true; }

namespace {

void* Taken(void* p) {
  if (p == nullptr) return p;
  const auto bytes = static_cast<int64_t>(malloc_usable_size(p));
  const int64_t now = held += bytes;
  int64_t most = peak;
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return p;
}

void GivenBack(void* p) {
  if (p != nullptr) held -= static_cast<int64_t>(malloc_usable_size(p));
}

}  // namespace
}  // namespace colossus

// What glibc's own malloc is called where a program has another.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* p, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* p);

void* malloc(size_t bytes) noexcept { return colossus::Taken(__libc_malloc(bytes)); }

void* calloc(size_t count, size_t bytes) noexcept {
  return colossus::Taken(__libc_calloc(count, bytes));
}

void* realloc(void* p, size_t bytes) noexcept {
  const size_t before = p == nullptr ? 0 : malloc_usable_size(p);
  void* const moved = __libc_realloc(p, bytes);
  if (moved == nullptr && bytes > 0) return moved;  // `p` is as it was
  colossus::held -= static_cast<int64_t>(before);
  return colossus::Taken(moved);
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  return colossus::Taken(__libc_memalign(alignment, bytes));
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return colossus::Taken(__libc_memalign(alignment, bytes));
}

int posix_memalign(void** result, size_t alignment, size_t bytes) noexcept {
  void* const p = __libc_memalign(alignment, bytes);
  if (p == nullptr) return ENOMEM;
  *result = colossus::Taken(p);
  return 0;
}

void free(void* p) noexcept {
  colossus::GivenBack(p);
  __libc_free(p);
}
}  // extern "C"

#endif
