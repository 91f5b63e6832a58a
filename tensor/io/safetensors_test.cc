#include "tensor/io/safetensors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/io/safetensors_format.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

const std::string kOneTwo = Bytes<float>({1, 2});

// A file of a header text and data; `length` in place of the header's own.
std::string File(const std::string& header, const std::string& data,
                 std::optional<uint64_t> length = std::nullopt) {
  const uint64_t bytes = length.value_or(header.size());
  std::string file(8, '\0');
  std::memcpy(file.data(), &bytes, 8);
  return file + header + data;
}

std::string Entry(const char* name, const char* dtype, const char* shape, int begin, int end,
                  const char* more = "") {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                      ",\"data_offsets\":[", begin, ",", end, "]", more, "}");
}

const std::string kA = Entry("a", "F32", "[2]", 0, 8);

struct Case {
  std::string name;
  std::string file;
  std::string message;  // of the refusal; empty: legal
};

std::vector<Case> LegalCases() {
  return {
      {"one tensor", File("{" + kA + "}", kOneTwo), ""},
      {"metadata only", File(R"({"__metadata__":{"format":"pt"}})", ""), ""},
      {"empty header", File("{}", ""), ""},
      {"extra [0]", File("{" + kA + "," + Entry("e", "F32", "[0]", 8, 8) + "}", kOneTwo), ""},
      {"extra [3,0,2]", File("{" + kA + "," + Entry("e", "F32", "[3,0,2]", 0, 0) + "}", kOneTwo),
       ""},
      {"scalars",
       File("{" + Entry("a", "F32", "[]", 0, 4) + "," + Entry("b", "F32", "[]", 4, 8) + "}",
            kOneTwo),
       ""},
      {"entries in another order than data",
       File("{" + Entry("z", "F32", "[]", 0, 4) + "," + Entry("a", "F32", "[]", 4, 8) + "}",
            kOneTwo),
       ""},
      {"padded with spaces", File("{" + kA + "}     ", kOneTwo), ""},
      {"null metadata", File(R"({"__metadata__":null,)" + kA + "}", kOneTwo), ""},
      {"unknown extra field",
       File("{" + Entry("a", "F32", "[2]", 0, 8, R"(,"x":{"y":[1,-2.5,null]})") + "}", kOneTwo),
       ""},
      {"odd offset",
       File("{" + Entry("u", "U8", "[1]", 0, 1) + "," + Entry("a", "F32", "[2]", 1, 9) + "}",
            "\x07" + kOneTwo),
       ""},
      {"types without a DType",
       File("{" + Entry("a", "I8", "[2]", 0, 2) + "," + Entry("b", "U16", "[1]", 2, 4) + "," +
                Entry("c", "F4", "[8]", 4, 8) + "}",
            kOneTwo),
       ""},
  };
}

std::vector<Case> IllegalCases() {
  const auto one = [](const std::string& entry) { return File("{" + entry + "}", kOneTwo); };
  return {
      {"empty file", "", "the file has 0 bytes"},
      {"seven bytes", std::string(7, '\0'), "the file has 7 bytes"},
      {"empty header text", File("", ""), "does not begin with {"},
      {"bytes before", one(Entry("a", "F32", "[1]", 4, 8)), "bytes 0 to 4, before tensor a"},
      {"bytes between",
       File("{" + Entry("a", "F32", "[1]", 0, 4) + "," + Entry("b", "F32", "[1]", 8, 12) + "}",
            kOneTwo + "1234"),
       "bytes 4 to 8, before tensor b"},
      {"bytes after", one(Entry("a", "F32", "[1]", 0, 4)), "bytes 4 to 8, at the end"},
      {"bytes under an empty header", File("{}", kOneTwo), "bytes 0 to 8, at the end"},
      {"two names on one range", one(kA + "," + Entry("b", "F32", "[2]", 0, 8)),
       "tensor b begins at byte 0, inside the bytes of another"},
      {"overlap", File("{" + kA + "," + Entry("b", "F32", "[2]", 4, 12) + "}", kOneTwo + "1234"),
       "tensor b begins at byte 4, inside"},
      {"past the end", one(Entry("a", "F32", "[4]", 0, 16)), "ends at byte 16"},
      {"truncated data", File("{" + kA + "}", kOneTwo.substr(0, 7)), "ends at byte 8"},
      {"empty range past the end", one(kA + "," + Entry("e", "F32", "[0]", 9, 9)),
       "tensor e ends at byte 9"},
      {"shape beyond the range", one(Entry("a", "F32", "[1000,1000]", 0, 8)),
       "tensor a of type F32 and shape [1000, 1000] needs 4000000 bytes, but its data_offsets "
       "span 8"},
      {"shape overflows", one(Entry("a", "F32", "[4294967296,4294967296,4]", 0, 8)),
       "a number that no file has"},
      {"half a byte", one(Entry("a", "F4", "[17]", 0, 8)), "a number that no file has"},
      {"padded with NUL", File("{" + kA + "}" + std::string(2, '\0'), kOneTwo), "a NUL byte"},
      {"the same name twice", one(kA + "," + kA), "the name a is given twice"},
      {"header length of a gigabyte", File("{" + kA + "}", kOneTwo, 1'000'000'000),
       "claims 1000000000 bytes; the format allows 100000000"},
      {"header one byte too long", File("{" + kA + "}", kOneTwo, 100'000'001),
       "claims 100000001 bytes; the format allows 100000000"},
      {"header beyond the file", File("{" + kA + "}", kOneTwo, 99'999'999),
       "the header claims 99999999 bytes, but only"},
      {"header length of 2^63", File("{}", "", uint64_t{1} << 63),
       "claims 9223372036854775808 bytes"},
      {"unknown type", one(Entry("a", "F99", "[2]", 0, 8)), "unknown type \"F99\""},
      {"metadata value a number", File(R"({"__metadata__":{"n":1},)" + kA + "}", kOneTwo),
       "has a whole number as \"n\""},
      {"metadata a list", File(R"({"__metadata__":[],)" + kA + "}", kOneTwo), "is a list"},
      {"not JSON", File("{" + kA, kOneTwo), "syntax error"},
      {"not an object", File("[1]", kOneTwo), "does not begin with {"},
      {"entry not an object", one("\"a\":3"), "tensor a is a whole number"},
      {"no shape", one(R"("a":{"dtype":"F32","data_offsets":[0,8]})"), "has no list shape"},
      {"no dtype", one(R"("a":{"shape":[2],"data_offsets":[0,8]})"), "has no dtype"},
      {"negative dim", one(Entry("a", "F32", "[-2]", 0, 8)), "has -2 in shape"},
      {"dim with a fraction", one(Entry("a", "F32", "[2.0]", 0, 8)), "has 2.0 in shape"},
      {"range backwards", one(Entry("a", "F32", "[2]", 8, 0)), "data_offsets [8, 0]"},
      {"three offsets", one(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})"),
       "data_offsets [0, 8, 8]"},
  };
}

std::string WriteTemporary(const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/case.safetensors";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(Safetensors, C6_LegalFiles) {
  for (const Case& c : LegalCases()) {
    SCOPED_TRACE(c.name);
    ASSERT_OK_AND_ASSIGN(SafetensorsFile file,
                         SafetensorsFile::Open(RealFileSystem(), WriteTemporary(c.file)));
    if (file.Find("a") == nullptr || file.Find("a")->dtype != DType::kF32) continue;
    std::vector<float> values(file.Find("a")->elements);
    ASSERT_OK(file.CopyTo("a", DType::kF32, values.data()));
    if (values.size() == 2) {
      EXPECT_THAT(values, ElementsAre(1, 2));
    } else {
      EXPECT_THAT(values, ElementsAre(file.Find("z") == nullptr ? 1 : 2));
    }
  }
}

TEST(Safetensors, C6_IllegalFiles) {
  for (const Case& c : IllegalCases()) {
    SCOPED_TRACE(c.name);
    const std::string path = WriteTemporary(c.file);
    EXPECT_THAT(SafetensorsFile::Open(RealFileSystem(), path),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(StartsWith(path), HasSubstr(c.message))));
    // In memory the sanitizer sees every byte beyond the file.
    const std::vector<char> bytes(c.file.begin(), c.file.end());
    EXPECT_FALSE(SafetensorsFile::FromBytes(bytes, "memory").ok());
  }
}

TEST(Safetensors, EntriesAndMetadata) {
  const std::string bytes =
      File(R"({"__metadata__":{"format":"pt"},)" + Entry("b", "F32", "[1,1]", 0, 4) + "," +
               Entry("a", "I8", "[4]", 4, 8) + "}",
           kOneTwo);
  ASSERT_OK_AND_ASSIGN(SafetensorsFile file, SafetensorsFile::FromBytes(bytes, "f"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.entries().size(), 2);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.entries()[0].type_name, "I8");
  EXPECT_EQ(file.entries()[0].dtype, std::nullopt);
  EXPECT_THAT(file.entries()[1].dims, ElementsAre(1, 1));
  EXPECT_EQ(file.Find("c"), nullptr);
  ASSERT_OK_AND_ASSIGN(std::span<const char> data, file.data("b"));
  EXPECT_EQ(std::string(data.begin(), data.end()), kOneTwo.substr(0, 4));
  int32_t out[4];
  EXPECT_THAT(file.CopyTo("a", DType::kI32, out),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("f: tensor a has the type I8, "
                                                                     "which is not supported")));
  EXPECT_THAT(file.CopyTo("c", DType::kI32, out),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("f has no tensor c")));
}

// A file of one tensor t, its data at an odd offset.
SafetensorsFile OddFile(std::string& bytes, const char* type, const std::string& data,
                        int elements) {
  const std::string dims = absl::StrCat("[", elements, "]");
  bytes = File("{" + Entry("pad", "U8", "[1]", 0, 1) + "," +
                   Entry("t", type, dims.c_str(), 1, 1 + static_cast<int>(data.size())) + "}",
               "\x01" + data);
  return SafetensorsFile::FromBytes(bytes, "f").value();
}

TEST(Safetensors, C6_FloatsConvertBothWays) {
  std::string bytes;
  const SafetensorsFile bf16 = OddFile(bytes, "BF16", Bytes<uint16_t>({0x3F80, 0xC000}), 2);
  float f32[2];
  ASSERT_OK(bf16.CopyTo("t", DType::kF32, f32));
  EXPECT_THAT(f32, ElementsAre(1, -2));
  double f64[2];
  ASSERT_OK(bf16.CopyTo("t", DType::kF64, f64));
  EXPECT_THAT(f64, ElementsAre(1, -2));
  F16 f16[2];
  ASSERT_OK(bf16.CopyTo("t", DType::kF16, f16));
  EXPECT_EQ(f16[1].F(), -2);
  std::string more;
  const SafetensorsFile wide = OddFile(more, "F64", Bytes<double>({1e300, 1 + 0x1p-8, 0.1}), 3);
  BF16 narrow[3];
  ASSERT_OK(wide.CopyTo("t", DType::kBF16, narrow));
  EXPECT_TRUE(std::isinf(narrow[0].F()));
  EXPECT_EQ(narrow[1].F(), 1);  // a tie, to even
  float part[1];
  ASSERT_OK(wide.CopyElements("t", 2, 1, DType::kF32, part));
  EXPECT_EQ(part[0], 0.1f);
  int64_t whole[3];
  EXPECT_THAT(wide.CopyTo("t", DType::kI64, whole),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot be read as i64")));
}

TEST(Safetensors, WholeNumbersConvertWhereTheyFit) {
  std::string bytes;
  const SafetensorsFile i64 = OddFile(bytes, "I64", Bytes<int64_t>({0, 1, -7, 1LL << 40}), 4);
  int32_t i32[3];
  ASSERT_OK(i64.CopyElements("t", 0, 3, DType::kI32, i32));
  EXPECT_THAT(i32, ElementsAre(0, 1, -7));
  bool truth[2];
  ASSERT_OK(i64.CopyElements("t", 0, 2, DType::kBool, truth));
  EXPECT_THAT(truth, ElementsAre(false, true));
  uint8_t u8[4];
  EXPECT_THAT(i64.CopyTo("t", DType::kU8, u8),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("tensor t: holds a value")));
  std::string more;
  const SafetensorsFile odd_bool = OddFile(more, "BOOL", std::string("\x00\x01\x02", 3), 3);
  bool values[3];
  ASSERT_OK(odd_bool.CopyElements("t", 0, 2, DType::kBool, values));
  EXPECT_THAT(odd_bool.CopyTo("t", DType::kBool, values), StatusIs(absl::StatusCode::kOutOfRange));
}

// One random change to a text.
std::string Mutated(std::string text, std::mt19937_64& random) {
  const auto below = [&random](uint64_t n) { return random() % n; };
  if (text.empty()) return "{";
  const size_t at = below(text.size());
  const char mark = "0123456789[]{},:\" "[below(18)];
  switch (below(7)) {
    case 0:
      text[at] = static_cast<char>(random());
      break;
    case 1:
      text[at] = mark;
      break;
    case 2:
      text.resize(at);
      break;
    case 3:
      text.insert(at, 1, mark);
      break;
    case 4:
      text.erase(at, 1 + below(8));
      break;
    case 5:
      text.insert(at, text.substr(below(text.size()), 1 + below(40)));
      break;
    case 6:
      text[below(std::min<size_t>(8, text.size()))] = static_cast<char>(random());
      break;
  }
  return text;
}

// A few changes, to the file as it is or to its header with the length put right again.
std::string MutatedFile(const std::string& file, std::mt19937_64& random) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  const bool repair = random() % 4 != 0;
  std::string text = repair ? file.substr(8, header_bytes) : file;
  for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) text = Mutated(text, random);
  return repair ? File(text, file.substr(8 + header_bytes)) : text;
}

// Reads every tensor of a file that opened.
void ReadAll(const SafetensorsFile& file, int64_t file_bytes) {
  int64_t total = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    total += entry.bytes();
    ASSERT_OK_AND_ASSIGN(std::span<const char> data, file.data(entry.name));
    ASSERT_EQ(static_cast<int64_t>(data.size()), entry.bytes());
    for (DType dtype : {DType::kF64, DType::kI64}) {
      std::vector<double> values(entry.bytes() + 1);
      (void)file.CopyTo(entry.name, dtype, values.data());
    }
  }
  EXPECT_LE(total, file_bytes - 8);
}

TEST(Safetensors, MutatedFilesAreReadWithinTheirBytesOrRefused) {
  std::mt19937_64 random(TestSeed());
  std::vector<Case> seeds = LegalCases();
  int opened = 0;
  for (int round = 0; round < 6000; ++round) {
    const std::string file = MutatedFile(seeds[random() % seeds.size()].file, random);
    const std::vector<char> bytes(file.begin(), file.end());  // exactly as long: overruns show
    absl::StatusOr<SafetensorsFile> result = SafetensorsFile::FromBytes(bytes, "f");
    if (!result.ok()) {
      EXPECT_FALSE(result.status().message().empty());
      continue;
    }
    ++opened;
    ReadAll(*result, static_cast<int64_t>(bytes.size()));
  }
  EXPECT_GT(opened, 20);  // else no change ever reaches past the header
}

}  // namespace
}  // namespace colossus
