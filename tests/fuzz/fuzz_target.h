// A fuzz target: a reader of outside input that must survive any bytes.
//
// Purpose: one target is one file NAME_target.cc that defines Target(). It is linked with driver.cc
// (seeded mutations; the test, and long runs by hand) and, under --config=fuzz, with libFuzzer.
// Thread-safety: one thread.
//
//   const FuzzTarget& Target() {
//     static const FuzzTarget target = {.name = "json", .seeds = Seeds, .run = Run};
//     return target;
//   }
#ifndef COLOSSUS_TESTS_FUZZ_FUZZ_TARGET_H_
#define COLOSSUS_TESTS_FUZZ_FUZZ_TARGET_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace colossus {

struct FuzzTarget {
  absl::string_view name;
  // Valid inputs, small: a few KB each.
  std::vector<std::string> (*seeds)() = nullptr;
  // Reads the input. Must return, whatever it is; CHECKs what must hold of what was accepted.
  void (*run)(absl::string_view input) = nullptr;
  // Tokens of the format, which mutations put in.
  std::vector<std::string> words = {};
  // Makes lengths and checksums right again, so that mutations get past them. nullptr: nothing to.
  void (*repair)(std::string& input) = nullptr;
};

// Defined once in a program.
const FuzzTarget& Target();

}  // namespace colossus

#endif  // COLOSSUS_TESTS_FUZZ_FUZZ_TARGET_H_
