// The safetensors file format: 8 bytes little-endian length of the header, the header (a JSON
// object, padded with spaces), and the tensors' bytes without gaps. This header holds what reader
// and writer share; use safetensors.h and safetensors_writer.h.
//
// Thread-safety: values and free functions without state.
#ifndef COLOSSUS_TENSOR_IO_SAFETENSORS_FORMAT_H_
#define COLOSSUS_TENSOR_IO_SAFETENSORS_FORMAT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"

namespace colossus {

inline constexpr int64_t kSafetensorsLengthBytes = 8;
inline constexpr int64_t kSafetensorsMaxHeaderBytes = 100'000'000;

// One tensor of a file.
struct SafetensorsEntry {
  std::string name;
  std::string type_name;       // as in the file: "F32", "BF16", "I8" ...
  std::optional<DType> dtype;  // none for types that the format has and no op here reads
  std::vector<int64_t> dims;   // empty: a scalar
  int64_t elements = 0;        // product of dims
  int64_t begin = 0;           // bytes from the first byte after the header; may be odd
  int64_t end = 0;             // one past the last byte

  int64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // ascending by name
  std::map<std::string, std::string> metadata;
};

// Parses the header's JSON text for a file with `data_bytes` bytes after it. InvalidArgument,
// naming `file_name`, unless every entry is well formed, its byte range has the size that type and
// shape say, and the ranges tile [0, data_bytes) without gap or overlap.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text, int64_t data_bytes,
                                                         absl::string_view file_name);

// "F32" for DType::kF32 and so on: every DType has one.
absl::string_view SafetensorsTypeName(DType dtype);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_IO_SAFETENSORS_FORMAT_H_
