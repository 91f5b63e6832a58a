#include "tensor/io/safetensors_format.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "tensor/io/json.h"

namespace colossus {
namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

struct TypeRow {
  absl::string_view name;
  int bits;  // per element; the 4- and 6-bit types pack
  std::optional<DType> dtype;
};

const std::vector<TypeRow>& TypeTable() {
  static const auto& table = *new std::vector<TypeRow>{
      {"F64", 64, DType::kF64},     {"F32", 32, DType::kF32},     {"F16", 16, DType::kF16},
      {"BF16", 16, DType::kBF16},   {"I64", 64, DType::kI64},     {"I32", 32, DType::kI32},
      {"U8", 8, DType::kU8},        {"BOOL", 8, DType::kBool},    {"I8", 8, std::nullopt},
      {"I16", 16, std::nullopt},    {"U16", 16, std::nullopt},    {"U32", 32, std::nullopt},
      {"U64", 64, std::nullopt},    {"C64", 64, std::nullopt},    {"F8_E4M3", 8, std::nullopt},
      {"F8_E5M2", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},
      {"F6_E3M2", 6, std::nullopt}, {"F4", 4, std::nullopt},
  };
  return table;
}

absl::StatusOr<TypeRow> FindType(const nlohmann::json& entry) {
  if (!entry.contains("dtype") || !entry["dtype"].is_string()) {
    return absl::InvalidArgumentError("has no dtype (a string such as \"F32\")");
  }
  const std::string& name = entry["dtype"].get_ref<const std::string&>();
  for (const TypeRow& row : TypeTable()) {
    if (row.name == name) return row;
  }
  return absl::InvalidArgumentError(absl::StrFormat("has the unknown type \"%s\"", name));
}

// A list of whole numbers in [0, 2^63).
absl::StatusOr<std::vector<int64_t>> ReadSizes(const nlohmann::json& entry, const char* key) {
  if (!entry.contains(key) || !entry[key].is_array()) {
    return absl::InvalidArgumentError(absl::StrFormat("has no list %s", key));
  }
  std::vector<int64_t> sizes;
  for (const nlohmann::json& size : entry[key]) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(kMaxInt64)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "has %s in %s, which holds whole numbers from 0 on", JsonExcerpt(size), key));
    }
    sizes.push_back(size.get<int64_t>());
  }
  return sizes;
}

// Bytes of a tensor, or none where that number is not a whole one below 2^63.
std::optional<int64_t> BytesOf(int bits, const std::vector<int64_t>& dims, int64_t* elements) {
  *elements = 1;
  for (int64_t dim : dims) {
    if (dim == 0) {
      *elements = 0;
      return 0;
    }
  }
  for (int64_t dim : dims) {
    if (__builtin_mul_overflow(*elements, dim, elements)) return std::nullopt;
  }
  int64_t total_bits = 0;
  if (__builtin_mul_overflow(*elements, int64_t{bits}, &total_bits)) return std::nullopt;
  if (total_bits % 8 != 0) return std::nullopt;
  return total_bits / 8;
}

absl::StatusOr<SafetensorsEntry> ReadEntry(const std::string& name, const nlohmann::json& json) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("is %s, not an object with dtype, shape and data_offsets", JsonKind(json)));
  }
  SafetensorsEntry entry;
  entry.name = name;
  ASSIGN_OR_RETURN(const TypeRow type, FindType(json));
  entry.type_name = std::string(type.name);
  entry.dtype = type.dtype;
  ASSIGN_OR_RETURN(entry.dims, ReadSizes(json, "shape"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> range, ReadSizes(json, "data_offsets"));
  if (range.size() != 2 || range[0] > range[1]) {
    return absl::InvalidArgumentError(
        absl::StrFormat("has the data_offsets [%s], which are a begin and an end behind it",
                        absl::StrJoin(range, ", ")));
  }
  entry.begin = range[0];
  entry.end = range[1];
  const std::optional<int64_t> bytes = BytesOf(type.bits, entry.dims, &entry.elements);
  if (!bytes.has_value() || *bytes != entry.bytes()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "of type %s and shape [%s] needs %s bytes, but its data_offsets span %d", entry.type_name,
        absl::StrJoin(entry.dims, ", "),
        bytes.has_value() ? absl::StrCat(*bytes) : "a number that no file has of", entry.bytes()));
  }
  return entry;
}

absl::Status ReadMetadata(const nlohmann::json& json, SafetensorsHeader& header) {
  if (json.is_null()) return absl::OkStatus();
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrFormat("is %s, not an object", JsonKind(json)));
  }
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("has %s as \"%s\"; values are strings", JsonKind(value), key));
    }
    header.metadata[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

// The ranges in file order must tile the data: sorted by (begin, end), each starts where the one
// before ends. Empty ranges fit at any border.
absl::Status CheckTiling(const std::vector<SafetensorsEntry>& entries, int64_t data_bytes) {
  std::vector<const SafetensorsEntry*> sorted;
  for (const SafetensorsEntry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::tie(a->begin, a->end) < std::tie(b->begin, b->end);
  });
  int64_t covered = 0;
  for (const SafetensorsEntry* entry : sorted) {
    if (entry->end > data_bytes) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor %s ends at byte %d, but the file has %d bytes of data (is it "
                          "truncated?)",
                          entry->name, entry->end, data_bytes));
    }
    if (entry->begin < covered) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "tensor %s begins at byte %d, inside the bytes of another tensor (up to %d)", entry->name,
          entry->begin, covered));
    }
    if (entry->begin > covered) {
      return absl::InvalidArgumentError(
          absl::StrFormat("bytes %d to %d, before tensor %s, belong to no tensor", covered,
                          entry->begin, entry->name));
    }
    covered = entry->end;
  }
  if (covered != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("bytes %d to %d, at the end, belong to no tensor", covered, data_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text, int64_t data_bytes,
                                                         absl::string_view file_name) {
  if (text.empty() || text[0] != '{') {
    return absl::InvalidArgumentError(
        absl::StrCat(file_name, ": the header does not begin with {; this is no safetensors file"));
  }
  const std::string header_name = absl::StrCat(file_name, " (header)");
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, header_name));
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      RETURN_IF_ERROR(
          Annotate(ReadMetadata(value, header), absl::StrCat(file_name, ": __metadata__")));
      continue;
    }
    absl::StatusOr<SafetensorsEntry> entry = ReadEntry(name, value);
    if (!entry.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_name, ": tensor ", name, " ", entry.status().message()));
    }
    header.entries.push_back(*std::move(entry));
  }
  RETURN_IF_ERROR(Annotate(CheckTiling(header.entries, data_bytes), file_name));
  return header;
}

absl::string_view SafetensorsTypeName(DType dtype) {
  for (const TypeRow& row : TypeTable()) {
    if (row.dtype == dtype) return row.name;
  }
  CHECK(false) << "no safetensors type for " << Name(dtype);
  return "";
}

}  // namespace colossus
