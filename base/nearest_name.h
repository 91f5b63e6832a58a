// Guessing what a misspelt name was meant to be, for messages that refuse it.
//
// Thread-safe: pure functions.
//
//   absl::StrCat("unknown key ", key, NearestNameHint(key, keys));
//   // unknown key learing_rate (did you mean learning_rate?)
#ifndef COLOSSUS_BASE_NEAREST_NAME_H_
#define COLOSSUS_BASE_NEAREST_NAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace colossus {

// The fewest insertions, deletions and replacements of a character, and swaps of two neighbours,
// that turn `a` into `b`. Takes time in proportion to the product of their lengths.
size_t EditDistance(absl::string_view a, absl::string_view b);

// The one of `names` with the smallest EditDistance from `wanted`; the first among equals. Empty if
// even that is more than a third of the longer name (one change is always allowed).
std::string NearestName(absl::string_view wanted, const std::vector<std::string>& names);

// " (did you mean NAME?)", or empty where NearestName is.
std::string NearestNameHint(absl::string_view wanted, const std::vector<std::string>& names);

}  // namespace colossus

#endif  // COLOSSUS_BASE_NEAREST_NAME_H_
