#include "tensor/io/safetensors_set.h"

#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/io/safetensors_writer.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A fresh directory of its own.
std::string Directory(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  EXPECT_OK(RealFileSystem().MakeDirs(path));
  return path;
}

void WriteText(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// A file of scalars; the value of each is `first`, `first` + 1 ...
void WriteShard(const std::string& path, const std::vector<std::string>& names, float first) {
  std::vector<SafetensorsTensor> tensors;
  for (const std::string& name : names) tensors.push_back({name, DType::kF32, {}});
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<SafetensorsWriter> writer,
                       SafetensorsWriter::Begin(RealFileSystem(), path, tensors));
  for (const SafetensorsTensor& tensor : writer->order()) {
    ASSERT_OK(writer->Append(tensor.name, {reinterpret_cast<const char*>(&first), sizeof(first)}));
    first += 1;
  }
  ASSERT_OK(writer->Finish());
}

float Value(const SafetensorsSet& set, const std::string& name) {
  float value = 0;
  EXPECT_OK(set.CopyTo(name, DType::kF32, &value));
  return value;
}

TEST(SafetensorsSet, OneFile) {
  const std::string directory = Directory("one");
  WriteShard(directory + "/model.safetensors", {"a", "b"}, 1);
  for (const std::string& path : {directory, directory + "/", directory + "/model.safetensors"}) {
    SCOPED_TRACE(path);
    ASSERT_OK_AND_ASSIGN(SafetensorsSet set, SafetensorsSet::Open(RealFileSystem(), path));
    EXPECT_THAT(set.names(), ElementsAre("a", "b"));
    EXPECT_EQ(Value(set, "b"), 2);
    EXPECT_EQ(set.Find("c"), nullptr);
    EXPECT_THAT(set.data("c"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no tensor c")));
  }
}

TEST(SafetensorsSet, ShardsByTheirIndex) {
  const std::string directory = Directory("shards");
  ASSERT_OK(RealFileSystem().MakeDirs(directory + "/sub"));
  WriteShard(directory + "/x.safetensors", {"a", "unlisted"}, 1);
  WriteShard(directory + "/sub/y.safetensors", {"a", "b"}, 5);
  WriteText(directory + "/model.safetensors.index.json",
            R"({"metadata": {"total_size": 8},
                "weight_map": {"b": "sub/y.safetensors", "a": "x.safetensors"}})");
  ASSERT_OK_AND_ASSIGN(SafetensorsSet set, SafetensorsSet::Open(RealFileSystem(), directory));
  EXPECT_THAT(set.names(), ElementsAre("a", "b"));
  EXPECT_EQ(Value(set, "a"), 1);
  EXPECT_EQ(Value(set, "b"), 6);
  EXPECT_EQ(set.Find("unlisted"), nullptr);
  EXPECT_EQ(set.files().size(), 2);
  EXPECT_THAT(set.FileOf("b")->path(), HasSubstr("sub/y.safetensors"));
}

TEST(SafetensorsSet, RefusesBrokenIndexes) {
  const std::string directory = Directory("broken");
  WriteShard(directory + "/x.safetensors", {"a"}, 1);
  WriteText(directory + "/bad.safetensors", "junk");
  struct Case {
    std::string index;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {R"({"weight_map": {"a": "gone.safetensors"}})",
            "the file gone.safetensors, which holds tensor a, is missing"},
           {R"({"weight_map": {"b": "x.safetensors"}})", "tensor b is not in x.safetensors"},
           {R"({"weight_map": {"a": "x.safetensors", "a": "x.safetensors"}})",
            "the name weight_map.a is given twice"},
           {R"({"weight_map": {"a": "../broken/x.safetensors"}})", "inside the directory"},
           {R"({"weight_map": {"a": "sub/../../x.safetensors"}})", "inside the directory"},
           {R"({"weight_map": {"a": "/etc/passwd"}})", "inside the directory"},
           {R"({"weight_map": {"a": "..\\x.safetensors"}})", "inside the directory"},
           {R"({"weight_map": {"a": "x.safetensors\u0000"}})", "inside the directory"},
           {R"({"weight_map": {"a": ""}})", "inside the directory"},
           {R"({"weight_map": {"a": 1}})", "inside the directory"},
           {R"({"weight_map": {"a": "bad.safetensors"}})", "bad.safetensors: the file has 4 bytes"},
           {R"({"weight_map": []})", "has no object weight_map"},
           {"[]", "has no object weight_map"},
           {"{", "model.safetensors.index.json:1: syntax error"},
       }) {
    SCOPED_TRACE(c.index);
    WriteText(directory + "/model.safetensors.index.json", c.index);
    const auto set = SafetensorsSet::Open(RealFileSystem(), directory);
    ASSERT_FALSE(set.ok());
    EXPECT_THAT(std::string(set.status().message()),
                AllOf(HasSubstr(directory), HasSubstr(c.message)));
  }
}

TEST(SafetensorsSet, NamesOtherFormats) {
  const std::string directory = Directory("pickle");
  EXPECT_THAT(SafetensorsSet::Open(RealFileSystem(), directory),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("holds neither")));
  WriteText(directory + "/pytorch_model.bin", "x");
  EXPECT_THAT(SafetensorsSet::Open(RealFileSystem(), directory),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("save the model again in the safetensors format")));
  EXPECT_THAT(SafetensorsSet::Open(RealFileSystem(), directory + "/nowhere"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("does not exist")));
}

}  // namespace
}  // namespace colossus
