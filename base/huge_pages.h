// Huge pages: fewer and faster page faults and address look-ups for large memory.
//
// Purpose: arenas of gigabytes ask for pages of 2 MiB, where the system gives them to those that
// ask. Thread-safety: yes. Ownership: none; the memory stays the caller's.
//
//   void* memory = std::aligned_alloc(kHugePage, bytes);
//   AdviseHugePages(memory, bytes);
#ifndef COLOSSUS_BASE_HUGE_PAGES_H_
#define COLOSSUS_BASE_HUGE_PAGES_H_

#include <cstddef>

namespace colossus {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Asks for huge pages where whole ones lie inside [memory, memory + bytes), not touched yet. It is
// a wish, so nothing fails; a huge page takes memory as a whole once a byte of it is touched.
void AdviseHugePages(void* memory, size_t bytes);

}  // namespace colossus

#endif  // COLOSSUS_BASE_HUGE_PAGES_H_
