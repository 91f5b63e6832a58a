#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace colossus::internal {

CheckFailure::CheckFailure(const char* file, int line, const std::string& what) {
  stream_ << file << ":" << line << ": CHECK failed: " << what << " ";
}

CheckFailure::~CheckFailure() {
  // One write, so that the reports of ranks that fail together do not interleave.
  const std::string text = stream_.str() + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace colossus::internal
