#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/check.h"

namespace colossus {
namespace {

// Numbers at which readers break: ends of types, sizes that overflow, no numbers.
const char* const kNumbers[] = {"0",
                                "-1",
                                "1",
                                "2",
                                "127",
                                "128",
                                "255",
                                "256",
                                "65535",
                                "1e9",
                                "2147483647",
                                "2147483648",
                                "1e300",
                                "-0",
                                "4294967295",
                                "0.5",
                                "1e-300",
                                "1e999",
                                "nan",
                                "null",
                                "true",
                                "[]",
                                "{}",
                                "\"\"",
                                "9223372036854775807",
                                "-9223372036854775808",
                                "18446744073709551615",
                                "99999999999999999999",
                                "\"x\"",
                                "false"};
const uint64_t kLengths[] = {0,       1,          2,          7,         8,          255,
                             1 << 16, 0x7fffffff, 0xffffffff, ~0ull - 7, 1ull << 62, ~0ull >> 1};

size_t Below(std::mt19937_64& random, size_t n) { return n == 0 ? 0 : random() % n; }

// Each (seed, index) has a generator of its own.
std::mt19937_64 Generator(uint64_t seed, uint64_t index) {
  std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                      static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)};
  return std::mt19937_64(words);
}

bool IsWordByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '+' ||
         c == '-';
}

}  // namespace

std::vector<std::pair<size_t, size_t>> TokensOf(const std::string& text) {
  std::vector<std::pair<size_t, size_t>> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (IsWordByte(text[at])) {
      while (end < text.size() && IsWordByte(text[end])) ++end;
    }
    if (!std::isspace(static_cast<unsigned char>(text[at]))) tokens.push_back({at, end});
    at = end;
  }
  return tokens;
}

Mutator::Mutator(std::vector<std::string> seeds, std::vector<std::string> words)
    : seeds_(std::move(seeds)), words_(std::move(words)) {
  CHECK(!seeds_.empty());
}

bool Mutator::Repaired(uint64_t seed, uint64_t index) { return (seed + index) % 2 == 0; }

std::string Mutator::Make(uint64_t seed, uint64_t index) const {
  std::mt19937_64 random = Generator(seed, index);
  std::string input = seeds_[Below(random, seeds_.size())];
  const size_t changes = 1 + Below(random, 6);
  for (size_t i = 0; i < changes; ++i) {
    random() % 2 == 0 ? ChangeBytes(input, random) : ChangeTokens(input, random);
    if (input.size() > kMaxBytes) input.resize(kMaxBytes);
  }
  return input;
}

void Mutator::ChangeBytes(std::string& input, std::mt19937_64& random) const {
  const size_t at = Below(random, input.size());
  const size_t n = 1 + Below(random, random() % 4 == 0 ? 256 : 8);
  switch (random() % 8) {
    case 0:
      if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << random() % 8));
      break;
    case 1:
      if (!input.empty()) input[at] = static_cast<char>(random());
      break;
    case 2: {
      std::string bytes(n, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      input.insert(at, bytes);
      break;
    }
    case 3:
      input.erase(at, n);
      break;
    case 4:
      input.insert(Below(random, input.size() + 1), input.substr(at, n));
      break;
    case 5:
      input.resize(at);
      break;
    case 6: {  // a length, as binary formats have them
      const uint64_t length = kLengths[Below(random, std::size(kLengths))];
      const size_t place = random() % 2 == 0 ? 0 : at;
      if (place + 8 <= input.size()) std::memcpy(input.data() + place, &length, 8);
      break;
    }
    default: {  // the rest of another seed
      const std::string& other = seeds_[Below(random, seeds_.size())];
      input = input.substr(0, at) + other.substr(Below(random, other.size()));
    }
  }
}

void Mutator::ChangeTokens(std::string& input, std::mt19937_64& random) const {
  const std::vector<std::pair<size_t, size_t>> tokens = TokensOf(input);
  if (tokens.empty()) return;
  const auto [begin, end] = tokens[Below(random, tokens.size())];
  const auto [from, to] = tokens[Below(random, tokens.size())];
  const std::string other = input.substr(from, to - from);
  switch (random() % 7) {
    case 0:
    case 1:
      input.replace(begin, end - begin, kNumbers[Below(random, std::size(kNumbers))]);
      break;
    case 2:
      if (!words_.empty()) input.replace(begin, end - begin, words_[Below(random, words_.size())]);
      break;
    case 3:
      input.replace(begin, end - begin, other);
      break;
    case 4:
      input.insert(begin, other + " ");
      break;
    case 5:
      input.erase(begin, end - begin);
      break;
    default: {  // a run of tokens again, up to a thousand times: depth and length
      const size_t stop =
          tokens[std::min(tokens.size() - 1, Below(random, tokens.size()) + 3)].second;
      const std::string run =
          input.substr(begin, std::min<size_t>(stop > begin ? stop - begin : 1, 64));
      std::string repeated;
      for (size_t i = Below(random, random() % 8 == 0 ? 1000 : 4) + 1; i > 0; --i) repeated += run;
      input.insert(begin, repeated);
    }
  }
}

}  // namespace colossus
