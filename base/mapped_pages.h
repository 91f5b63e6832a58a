// Pages of file mappings.
//
// Thread-safe: functions of their arguments. Ownership: none.
//
//   Copy(mapped.bytes().subspan(at, n), dst);
//   DropPages(mapped.bytes().subspan(at, n));
#ifndef COLOSSUS_BASE_MAPPED_PAGES_H_
#define COLOSSUS_BASE_MAPPED_PAGES_H_

#include <span>

namespace colossus {

// Gives the whole pages of a file mapping back: what was copied would else stay in memory beside
// the copy. They are read from the file again when touched.
void DropPages(std::span<const char> bytes);

}  // namespace colossus

#endif  // COLOSSUS_BASE_MAPPED_PAGES_H_
