#include "base/mapped_pages.h"

#include <unistd.h>

#include <span>
#include <string>

#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

// What is read after it is what the file holds.
TEST(MappedPagesTest, WholePagesGoAndComeBack) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const std::string path = JoinPath(::testing::TempDir(), "pages");
  std::string contents(4 * page, 'a');
  for (size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<char>('a' + i % 23);
  ASSERT_OK(RealFileSystem().WriteFileAtomically(path, contents));
  ASSERT_OK_AND_ASSIGN(const MappedFile mapped, RealFileSystem().Map(path));
  const std::span<const char> bytes = mapped.bytes();
  DropPages(bytes.subspan(1, 3 * page));  // two of them are whole
  DropPages(bytes.subspan(1, page / 2));  // none is
  DropPages({});
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), contents);
}

}  // namespace
}  // namespace colossus
