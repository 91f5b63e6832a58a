#include "tensor/io/safetensors_writer.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/faulty_file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/io/safetensors.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TestPath(const std::string& name) { return ::testing::TempDir() + "/" + name; }

std::span<const char> Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(SafetensorsWriter, WritesByTypeAndNameInPieces) {
  const std::string path = TestPath("written.safetensors");
  FileSystem& files = RealFileSystem();
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<SafetensorsWriter> writer,
                       SafetensorsWriter::Begin(files, path,
                                                {{"flag", DType::kBool, {1}},
                                                 {"b", DType::kF32, {2, 1}},
                                                 {"half", DType::kBF16, {1}},
                                                 {"a", DType::kF32, {}},
                                                 {"empty", DType::kF32, {3, 0}}}));
  std::vector<std::string> order;
  for (const SafetensorsTensor& tensor : writer->order()) order.push_back(tensor.name);
  EXPECT_THAT(order, ElementsAre("a", "b", "empty", "half", "flag"));
  const std::vector<float> values = {1, 2, 3};
  const std::span<const char> bytes = Bytes(values);
  ASSERT_OK(writer->Append("a", bytes.subspan(0, 4)));
  ASSERT_OK(writer->Append("b", bytes.subspan(4, 3)));
  ASSERT_OK(writer->Append("b", bytes.subspan(7, 5)));
  ASSERT_OK(writer->Append("half", std::string("\x80\x3f")));
  EXPECT_THAT(writer->Finish(), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("tensor flag lacks 1 of 1 bytes")));
  EXPECT_FALSE(files.Exists(path));
  ASSERT_OK(writer->Append("flag", std::string("\x01")));
  ASSERT_OK(writer->Finish());
  EXPECT_FALSE(files.Exists(path + ".tmp"));

  ASSERT_OK_AND_ASSIGN(std::string text, files.ReadFile(path));
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), 8);
  EXPECT_EQ(header_bytes % 8, 0);
  const std::string start =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)";
  EXPECT_EQ(text.substr(8, start.size()), start);
  ASSERT_OK_AND_ASSIGN(SafetensorsFile file, SafetensorsFile::Open(files, path));
  float b[2];
  ASSERT_OK(file.CopyTo("b", DType::kF32, b));
  EXPECT_THAT(b, ElementsAre(2, 3));
  float half;
  ASSERT_OK(file.CopyTo("half", DType::kF32, &half));
  EXPECT_EQ(half, 1);
  EXPECT_THAT(file.Find("empty")->dims, ElementsAre(3, 0));
}

TEST(SafetensorsWriter, RefusesBytesOutOfTurn) {
  const std::string path = TestPath("turn.safetensors");
  ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Begin(RealFileSystem(), path,
                               {{"a", DType::kF32, {1}}, {"b", DType::kF32, {1}}}));
  const std::string four(4, '\0');
  EXPECT_THAT(writer->Append("b", four),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("takes a next")));
  EXPECT_THAT(writer->Append("a", four + four),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("takes 4 more")));
  ASSERT_OK(writer->Append("a", four));
  EXPECT_THAT(writer->Append("a", four),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("takes b next")));
  writer.reset();
  EXPECT_FALSE(RealFileSystem().Exists(path));
  EXPECT_FALSE(RealFileSystem().Exists(path + ".tmp"));
}

// Writes one tensor of eight bytes in two pieces.
absl::Status WriteEight(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Begin(files, path, {{"a", DType::kF32, {2}}}));
  RETURN_IF_ERROR(writer->Append("a", std::string("1234")));
  RETURN_IF_ERROR(writer->Append("a", std::string("5678")));
  return writer->Finish();
}

TEST(SafetensorsWriter, AFailureAnywhereLeavesNoFile) {
  const std::string path = TestPath("faulty.safetensors");
  FaultyFileSystem counting(RealFileSystem());
  ASSERT_OK(WriteEight(counting, path));
  ASSERT_OK(RealFileSystem().Remove(path));
  // All operations but the last, which comes after the file has its name.
  for (int64_t k = 0; k + 1 < counting.operations(); ++k) {
    SCOPED_TRACE(k);
    FaultyFileSystem failing(RealFileSystem(), {.fail_operation = k});
    EXPECT_THAT(WriteEight(failing, path), StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_FALSE(RealFileSystem().Exists(path));
    EXPECT_FALSE(RealFileSystem().Exists(path + ".tmp"));
    FaultyFileSystem dying(RealFileSystem(), {.kill_operation = k, .lose_unsynced = true});
    EXPECT_FALSE(WriteEight(dying, path).ok());
    EXPECT_FALSE(RealFileSystem().Exists(path));
  }
  FaultyFileSystem full(RealFileSystem(), {.disk_bytes = counting.bytes() - 1});
  EXPECT_THAT(WriteEight(full, path), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_FALSE(RealFileSystem().Exists(path));
}

TEST(SafetensorsWriter, RefusesWhatNoFileHolds) {
  struct Case {
    std::vector<SafetensorsTensor> tensors;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {{{"a", DType::kF32, {1}}, {"a", DType::kBF16, {1}}}, "tensor a is to be written twice"},
           {{{"", DType::kF32, {1}}}, "cannot be called \"\""},
           {{{"__metadata__", DType::kF32, {1}}}, "cannot be called"},
           {{{"\xff", DType::kF32, {1}}}, "not UTF-8"},
           {{{"a", DType::kF32, {-1}}}, "impossible shape [-1]"},
           {{{"a", DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}}}, "impossible shape"},
       }) {
    EXPECT_THAT(SafetensorsWriter::Begin(RealFileSystem(), TestPath("no"), c.tensors),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace colossus
