// Safetensors files: header, ranges, conversion of every tensor.
#include <cstring>

#include "base/check.h"
#include "tensor/io/safetensors.h"
#include "tests/fuzz/fuzz_target.h"

namespace colossus {
namespace {

std::string File(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\x3c');
}

std::vector<std::string> Seeds() {
  return {
      File(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
      File(R"({"__metadata__":{"format":"pt"},"x.weight":{"dtype":"BF16","shape":[4],)"
           R"("data_offsets":[0,8]},"y":{"dtype":"I64","shape":[],"data_offsets":[8,16]},)"
           R"("z":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[16,19]}})",
           19),
      File(R"({"e":{"dtype":"F16","shape":[0,5],"data_offsets":[0,0]},)"
           R"("b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}  )",
           2),
      File("{}", 0),
  };
}

// The header's length becomes what lies between the first { and the last }.
void Repair(std::string& input) {
  const size_t end = input.rfind('}');
  if (input.size() < 8 || end == std::string::npos || end < 8) return;
  const uint64_t length = end + 1 - 8;
  std::memcpy(input.data(), &length, 8);
}

void Run(absl::string_view input) {
  absl::StatusOr<SafetensorsFile> file =
      SafetensorsFile::FromBytes({input.data(), input.size()}, "input");
  if (!file.ok()) return;
  for (const SafetensorsEntry& entry : file->entries()) {
    absl::StatusOr<std::span<const char>> data = file->data(entry.name);
    CHECK_OK(data);
    CHECK_EQ(static_cast<int64_t>(data->size()), entry.bytes());
    CHECK(entry.bytes() == 0 || (data->data() >= input.data() &&
                                 data->data() + data->size() <= input.data() + input.size()))
        << entry.name;
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kI32}) {
      // Every element of the file is a byte at least, so this is no more than a copy of the input.
      std::vector<char> values(static_cast<size_t>(entry.elements * SizeOf(dtype)));
      (void)file->CopyElements(entry.name, 0, entry.elements, dtype, values.data());
    }
  }
}

}  // namespace

const FuzzTarget& Target() {
  static const FuzzTarget target = {
      .name = "safetensors",
      .seeds = Seeds,
      .run = Run,
      .words = {"\"F64\"", "\"I8\"", "\"dtype\"", "\"shape\"", "\"data_offsets\"",
                "\"__metadata__\"", "\"F4\"", "[0, 8]", "[4294967296, 4294967296]"},
      .repair = Repair,
  };
  return target;
}

}  // namespace colossus
