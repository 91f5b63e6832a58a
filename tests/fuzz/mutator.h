// Mutator: input number i of a seed, by random changes to valid inputs.
//
// Purpose: an input is a function of (seeds, words, seed, i), so two numbers repeat a failure.
// Changes are to bytes (flip, insert, remove, copy, lengths) and to tokens (numbers, strings, words
// and signs of a text format, which are swapped, repeated, removed or replaced).
// Thread-safe: const methods may run in parallel. Owns what it is given.
//
//   Mutator mutator(seeds, words);
//   std::string input = mutator.Make(/*seed=*/1, /*index=*/42);
#ifndef COLOSSUS_TESTS_FUZZ_MUTATOR_H_
#define COLOSSUS_TESTS_FUZZ_MUTATOR_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace colossus {

class Mutator {
 public:
  static constexpr size_t kMaxBytes = 1 << 16;  // of an input

  // REQUIRES: at least one seed.
  Mutator(std::vector<std::string> seeds, std::vector<std::string> words);

  // Whether the target's repair is to be run on this input; half are.
  static bool Repaired(uint64_t seed, uint64_t index);
  std::string Make(uint64_t seed, uint64_t index) const;

 private:
  void ChangeBytes(std::string& input, std::mt19937_64& random) const;
  void ChangeTokens(std::string& input, std::mt19937_64& random) const;

  std::vector<std::string> seeds_, words_;
};

// [begin, end) of each token: a number, a word, a string in quotes, or one sign.
std::vector<std::pair<size_t, size_t>> TokensOf(const std::string& text);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_FUZZ_MUTATOR_H_
