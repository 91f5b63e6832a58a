#include "trainers/lib/data/documents.h"

#include <malloc.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps the documents as strings.
class Collector : public DocumentSink {
 public:
  absl::Status Text(absl::string_view piece) override {
    open_.append(piece.data(), piece.size());
    return absl::OkStatus();
  }
  absl::Status EndDocument() override {
    documents.push_back(open_);
    open_.clear();
    return absl::OkStatus();
  }
  std::vector<std::string> documents;

 private:
  std::string open_;
};

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = JoinPath(testing::TempDir(), name);
  std::filesystem::create_directories(DirName(path));
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

struct FormatCase {
  const char* name;
  DocumentFormat format;
  std::string text;
  std::vector<std::string> documents;
  int64_t empty;
};

TEST(DocumentsTest, TextAndPercentFiles) {
  const DocumentFormat fortune = DocumentFormat::kFortune;
  const std::string long_text(200000, 'x');
  const FormatCase cases[] = {
      {"text", DocumentFormat::kText, "a\n%\nb", {"a\n%\nb"}, 0},
      {"long text", DocumentFormat::kText, long_text, {long_text}, 0},
      {"empty text", DocumentFormat::kText, "", {}, 1},
      {"two", fortune, "a\nb\n%\nc\n", {"a\nb\n", "c\n"}, 0},
      {"last separator", fortune, "a\n%\nb\n%\n", {"a\n", "b\n"}, 0},
      {"no line break at the end", fortune, "a\n%\nb", {"a\n", "b"}, 0},
      {"separator without line break", fortune, "a\n%", {"a\n"}, 0},
      {"CR LF", fortune, "a\r\n%\r\nb\r\n", {"a\r\n", "b\r\n"}, 0},
      {"empty ones", fortune, "%\n%\na\n%\n%\n", {"a\n"}, 3},
      {"percent in a line", fortune, "5 %\n%%\n%\nb\n", {"5 %\n%%\n", "b\n"}, 0},
      {"nothing", fortune, "", {}, 0},
  };
  for (const FormatCase& c : cases) {
    SCOPED_TRACE(c.name);
    Collector sink;
    DocumentCounts counts;
    EXPECT_OK(ReadDocuments(RealFileSystem(), {WriteFile("case", c.text), c.format},
                            JsonLinesMode::kStrict, sink, &counts));
    EXPECT_EQ(sink.documents, c.documents);
    EXPECT_EQ(counts.empty, c.empty);
    EXPECT_EQ(counts.documents, static_cast<int64_t>(c.documents.size()));
    int64_t bytes = 0;
    for (const std::string& document : c.documents) bytes += static_cast<int64_t>(document.size());
    EXPECT_EQ(counts.bytes, bytes);
  }
}

// The seven lines of the case.
std::string IrregularLines() {
  return "{\"text\":\"ab\"}\n\n{\"text\":\"\"}\n{\"txt\":\"x\"}\n{\"text\":\"c\"\n"
         "{\"text\":\"d\\r\\n\"}\r\n{\"text\":\"e\"}";
}

TEST(DocumentsTest, F5IrregularJsonLines) {
  const std::string path = WriteFile("f5.jsonl", IrregularLines());
  const InputFile input = {path, DocumentFormat::kJsonLines};
  Collector strict;
  DocumentCounts counts;
  EXPECT_THAT(ReadDocuments(RealFileSystem(), input, JsonLinesMode::kStrict, strict, &counts),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(path + ":4: "), HasSubstr("'text'"))));

  Collector lenient;
  counts = {};
  EXPECT_OK(ReadDocuments(RealFileSystem(), input, JsonLinesMode::kLenient, lenient, &counts));
  EXPECT_THAT(lenient.documents, ElementsAre("ab", "d\r\n", "e"));
  EXPECT_EQ(counts.PassedOver(), "blank 1, empty 1, missing field 1, broken 1");
  EXPECT_EQ(counts.bytes, 6);
}

TEST(DocumentsTest, StrictModeTakesBlankLinesEmptyTextsAndAByteOrderMark) {
  const InputFile input = {
      WriteFile("blank.jsonl", "\xEF\xBB\xBF{\"text\":\"a\"}\n\n{\"text\":\"\"}\n"),
      DocumentFormat::kJsonLines};
  Collector sink;
  DocumentCounts counts;
  EXPECT_OK(ReadDocuments(RealFileSystem(), input, JsonLinesMode::kStrict, sink, &counts));
  EXPECT_THAT(sink.documents, ElementsAre("a"));
  EXPECT_EQ(counts.PassedOver(), "blank 1, empty 1, missing field 0, broken 0");
}

// Counts bytes only, so that what is measured is the reader alone.
class Counter : public DocumentSink {
 public:
  absl::Status Text(absl::string_view piece) override {
    bytes += static_cast<int64_t>(piece.size());
    heap = std::max(heap, static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd));
    return absl::OkStatus();
  }
  absl::Status EndDocument() override { return absl::OkStatus(); }
  int64_t bytes = 0;
  int64_t heap = 0;  // largest seen
};

TEST(DocumentsTest, F5ALineOf100MegabytesIsReadWithBoundedMemory) {
  const int64_t kBytes = 100000000;
  std::string path;
  {
    std::string line = "{\"text\":\"";
    line.append(static_cast<size_t>(kBytes), 'x');
    path = WriteFile("long.jsonl", line + "\"}\n");
  }
  malloc_trim(0);
  const int64_t before = static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd);
  Counter sink;
  DocumentCounts counts;
  EXPECT_OK(ReadDocuments(RealFileSystem(), {path, DocumentFormat::kJsonLines},
                          JsonLinesMode::kStrict, sink, &counts));
  EXPECT_EQ(sink.bytes, kBytes);
  EXPECT_LE(sink.heap - before, 1 << 20) << "heap grew with the line";
  std::filesystem::remove(path);
}

TEST(DocumentsTest, InputsOfAFolder) {
  for (const char* name : {"b", "b.dat", "a", "a.dat", "c.jsonl", "d.txt", "e.tokens", "sub/f"}) {
    WriteFile(std::string("folder/") + name, "x");
  }
  const std::string folder = JoinPath(testing::TempDir(), "folder");
  std::filesystem::remove(folder + "/a.u8");
  std::filesystem::create_symlink("a", folder + "/a.u8");
  ASSERT_OK_AND_ASSIGN(std::vector<InputFile> inputs,
                       FindInputs(RealFileSystem(), folder, DocumentFormat::kAuto));
  std::string all;
  for (const InputFile& input : inputs) {
    all += input.path.substr(folder.size() + 1) + " " +
           std::to_string(static_cast<int>(input.format)) + "; ";
  }
  EXPECT_EQ(all, "a 2; b 2; c.jsonl 3; d.txt 1; e.tokens 4; ");
  ASSERT_OK_AND_ASSIGN(inputs, FindInputs(RealFileSystem(), folder + "/a", DocumentFormat::kText));
  EXPECT_EQ(inputs.size(), 1u);
  EXPECT_THAT(FindInputs(RealFileSystem(), folder + "/none", DocumentFormat::kAuto),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none: no such file or folder")));
}

}  // namespace
}  // namespace colossus
