#include "tensor/io/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/mapped_pages.h"
#include "base/status.h"

namespace colossus {
namespace {

template <typename T>
inline constexpr bool kIsFloatType = std::is_same_v<T, double> || std::is_same_v<T, float> ||
                                     std::is_same_v<T, BF16> || std::is_same_v<T, F16>;

// Elements in a file lie at any address.
template <typename T>
T LoadUnaligned(const char* bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Rounds once, also from double to the 16-bit types.
template <typename Src, typename Dst>
Dst ConvertFloat(Src src) {
  if constexpr (std::is_same_v<Src, double>) {
    return FromDouble<Dst>(src);
  } else {
    float value;
    if constexpr (std::is_same_v<Src, float>) {
      value = src;
    } else {
      value = src.F();
    }
    if constexpr (std::is_same_v<Dst, BF16> || std::is_same_v<Dst, F16>) {
      return Dst::From(value);
    } else {
      return value;
    }
  }
}

// Index of the first element that Dst does not hold, or -1.
template <typename Src, typename Dst>
int64_t ConvertWhole(const char* src, int64_t count, Dst* dst) {
  const int64_t low = std::is_same_v<Dst, bool> ? 0 : std::numeric_limits<Dst>::min();
  const int64_t high = std::is_same_v<Dst, bool> ? 1 : std::numeric_limits<Dst>::max();
  // A byte of a BOOL tensor that is neither 0 nor 1 is no bool object: read the byte.
  using Stored = std::conditional_t<std::is_same_v<Src, bool>, uint8_t, Src>;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = LoadUnaligned<Stored>(src, i);
    if (value < low || value > high) return i;
    if (std::is_same_v<Src, bool> && value > 1) return i;
    dst[i] = static_cast<Dst>(value);
  }
  return -1;
}

template <typename Src, typename Dst>
absl::Status Convert(const char* src, int64_t count, Dst* dst) {
  if constexpr (kIsFloatType<Src> != kIsFloatType<Dst>) {
    return absl::InvalidArgumentError(absl::StrFormat("is stored as %s and cannot be read as %s",
                                                      Name(DTypeOf<Src>()), Name(DTypeOf<Dst>())));
  } else if constexpr (std::is_same_v<Src, Dst> && !std::is_same_v<Src, bool>) {
    if (count > 0) std::memcpy(dst, src, count * sizeof(Src));
    return absl::OkStatus();
  } else if constexpr (kIsFloatType<Src>) {
    for (int64_t i = 0; i < count; ++i) {
      dst[i] = ConvertFloat<Src, Dst>(LoadUnaligned<Src>(src, i));
    }
    return absl::OkStatus();
  } else {
    const int64_t bad = ConvertWhole<Src, Dst>(src, count, dst);
    if (bad < 0) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrFormat("holds a value that %s cannot (element %d read)",
                                                 Name(DTypeOf<Dst>()), bad));
  }
}

// Length of the header behind the first 8 bytes, checked against the file's size.
absl::StatusOr<int64_t> HeaderBytes(std::span<const char> file) {
  const int64_t size = static_cast<int64_t>(file.size());
  if (size < kSafetensorsLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the file has %d bytes, less than the %d of a safetensors header length",
                        size, kSafetensorsLengthBytes));
  }
  uint64_t length = 0;
  for (int i = kSafetensorsLengthBytes - 1; i >= 0; --i) {
    length = length << 8 | static_cast<uint8_t>(file[i]);
  }
  if (length > static_cast<uint64_t>(kSafetensorsMaxHeaderBytes)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the header claims %d bytes; the format allows %d", length, kSafetensorsMaxHeaderBytes));
  }
  if (static_cast<int64_t>(length) > size - kSafetensorsLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the header claims %d bytes, but only %d follow (is the file truncated?)",
                        length, size - kSafetensorsLengthBytes));
  }
  return static_cast<int64_t>(length);
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path, SafetensorsHeader header,
                                 std::span<const char> data)
    : path_(std::move(path)), header_(std::move(header)), data_(data) {}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile mapping, files.Map(path));
  ASSIGN_OR_RETURN(SafetensorsFile file, FromBytes(mapping.bytes(), path));
  file.mapping_ = std::move(mapping);
  return file;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::FromBytes(std::span<const char> bytes,
                                                           const std::string& name) {
  absl::StatusOr<int64_t> header_bytes = HeaderBytes(bytes);
  if (!header_bytes.ok()) return Annotate(header_bytes.status(), name);
  const std::span<const char> data = bytes.subspan(kSafetensorsLengthBytes + *header_bytes);
  const absl::string_view text(bytes.data() + kSafetensorsLengthBytes, *header_bytes);
  ASSIGN_OR_RETURN(SafetensorsHeader header,
                   ParseSafetensorsHeader(text, static_cast<int64_t>(data.size()), name));
  return SafetensorsFile(name, std::move(header), data);
}

const SafetensorsEntry* SafetensorsFile::Find(absl::string_view name) const {
  const auto at = std::lower_bound(
      entries().begin(), entries().end(), name,
      [](const SafetensorsEntry& entry, absl::string_view wanted) { return entry.name < wanted; });
  return at != entries().end() && at->name == name ? &*at : nullptr;
}

absl::StatusOr<std::span<const char>> SafetensorsFile::data(absl::string_view name) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrFormat("%s has no tensor %s", path_, name));
  }
  return data_.subspan(entry->begin, entry->bytes());
}

absl::Status SafetensorsFile::CopyTo(absl::string_view name, DType dst_dtype, void* dst) const {
  const SafetensorsEntry* entry = Find(name);
  return CopyElements(name, 0, entry == nullptr ? 0 : entry->elements, dst_dtype, dst);
}

absl::Status SafetensorsFile::CopyElements(absl::string_view name, int64_t first, int64_t count,
                                           DType dst_dtype, void* dst) const {
  ASSIGN_OR_RETURN(const std::span<const char> bytes, data(name));
  const SafetensorsEntry& entry = *Find(name);
  CHECK(first >= 0 && count >= 0 && first <= entry.elements - count)
      << name << ": elements " << first << " + " << count << " of " << entry.elements;
  if (!entry.dtype.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: tensor %s has the type %s, which is not supported (F64, F32, F16, "
                        "BF16, I64, I32, U8 and BOOL are)",
                        path_, name, entry.type_name));
  }
  const char* src = bytes.data() + first * SizeOf(*entry.dtype);
  const absl::Status status = DispatchDType(*entry.dtype, [&](auto src_tag) {
    return DispatchDType(dst_dtype, [&](auto dst_tag) {
      using Dst = decltype(dst_tag);
      return Convert<decltype(src_tag), Dst>(src, count, static_cast<Dst*>(dst));
    });
  });
  if (mapping_) DropPages({src, static_cast<size_t>(count * SizeOf(*entry.dtype))});
  return Annotate(status, absl::StrFormat("%s: tensor %s", path_, name));
}

}  // namespace colossus
