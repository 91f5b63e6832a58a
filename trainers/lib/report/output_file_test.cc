#include "trainers/lib/report/output_file.h"

#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = JoinPath(testing::TempDir(), name);
  EXPECT_OK(RealFileSystem().WriteFileAtomically(path, text));
  return path;
}

// Protects: what a flag names by mistake is neither emptied nor replaced, and that is said first.
TEST(OutputFileTest, Refuses) {
  FileSystem& files = RealFileSystem();
  const std::string text = Write("text", "dear diary");
  // As /dev/stdout is, with a file behind it.
  const std::string link = JoinPath(testing::TempDir(), "link");
  ASSERT_EQ(symlink("/proc/self/exe", link.c_str()), 0);
  const struct {
    std::string path;
    const char* message;
  } cases[] = {
      {text, "is another file"},
      {testing::TempDir(), "a folder"},
      {"/dev/null", "a device or pipe"},
      {link, "a device or pipe"},
      {JoinPath(testing::TempDir(), "no/such/file"), "No such file"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(TryOutputFile(files, "--flag", c.path, "{"),
                StatusIs(::testing::_, AllOf(HasSubstr("--flag=" + c.path), HasSubstr(c.message))));
  }
  ASSERT_OK_AND_ASSIGN(const std::string kept, files.ReadFile(text));
  EXPECT_EQ(kept, "dear diary");
}

TEST(OutputFileTest, KeepsWhatIsThereAndLeavesNothing) {
  FileSystem& files = RealFileSystem();
  const std::string old = Write("old.json", "{}"), empty = Write("empty.json", "");
  const std::string fresh = JoinPath(testing::TempDir(), "fresh.json");
  for (const std::string& path : {old, empty, fresh}) {
    EXPECT_OK(TryOutputFile(files, "--flag", path, "{"));
    EXPECT_FALSE(files.Exists(path + ".trial.tmp"));
  }
  EXPECT_FALSE(files.Exists(fresh));
  ASSERT_OK_AND_ASSIGN(const std::string kept, files.ReadFile(old));
  EXPECT_EQ(kept, "{}");
}

TEST(OutputFileTest, TwoFlagsNeedTwoFiles) {
  const std::string a = Write("a.json", ""), same = JoinPath(testing::TempDir(), "./a.json");
  for (const std::string& other : {a, same}) {
    EXPECT_THAT(CheckOtherFile("--one", a, "--two", other),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--one=" + a + " is the file of --two")));
  }
  EXPECT_OK(CheckOtherFile("--one", a, "--two", Write("b.json", "")));
  EXPECT_OK(CheckOtherFile("--one", a, "--two", ""));
  EXPECT_OK(CheckOtherFile("--one", a, "--two", JoinPath(testing::TempDir(), "nothing")));
}

TEST(OutputFileTest, AStreamHasNoOpening) {
  EXPECT_OK(CheckOpening(RealFileSystem(), "--flag", "/dev/null", "{"));
}

}  // namespace
}  // namespace colossus
