#include "base/testing/seed.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "base/check.h"

namespace colossus {

uint64_t TestSeed() {
  uint64_t seed = 20250117;
  if (const char* text = std::getenv("COLOSSUS_TEST_SEED"); text != nullptr) {
    CHECK(absl::SimpleAtoi(text, &seed)) << "COLOSSUS_TEST_SEED=" << text << " is no number";
  }
  std::printf("COLOSSUS_TEST_SEED=%" PRIu64 "\n", seed);
  std::fflush(stdout);
  return seed;
}

}  // namespace colossus
