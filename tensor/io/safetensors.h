// Reading a safetensors file: the header is checked once, then tensors are read from the mapping
// without a copy of the file in memory.
//
// Opening refuses every file whose header does not describe its bytes exactly; afterwards nothing
// reads outside the mapping, and no memory is taken because of what a header claims. A file must
// not be shortened while it is open (the system then ends the process with SIGBUS).
//
// Thread-safety: const methods may run in parallel. Spans point into the mapping and live as long
// as the SafetensorsFile they came from. Tensors may begin at odd addresses, so they are handed
// out as bytes; read elements with CopyTo.
//
//   ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(RealFileSystem(), path));
//   const SafetensorsEntry* entry = file.Find("wte.weight");
//   std::vector<float> values(entry->elements);
//   RETURN_IF_ERROR(file.CopyTo("wte.weight", DType::kF32, values.data()));
#ifndef COLOSSUS_TENSOR_IO_SAFETENSORS_H_
#define COLOSSUS_TENSOR_IO_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "tensor/io/safetensors_format.h"

namespace colossus {

class SafetensorsFile {
 public:
  // Maps and checks the file. InvalidArgument (naming the file and the reason) for a file that is
  // not safetensors or is damaged; NotFound and the like from the file system.
  static absl::StatusOr<SafetensorsFile> Open(FileSystem& files, const std::string& path);

  // The same over bytes in memory, which must outlive the result; `name` stands for the path.
  static absl::StatusOr<SafetensorsFile> FromBytes(std::span<const char> bytes,
                                                   const std::string& name);

  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;

  const std::string& path() const { return path_; }
  // Ascending by name.
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // None: nullptr.
  const SafetensorsEntry* Find(absl::string_view name) const;

  // The bytes of a tensor as they lie in the file, of whatever type. NotFound for other names.
  absl::StatusOr<std::span<const char>> data(absl::string_view name) const;

  // Copies a whole tensor, row-major, to `dst` [elements of `dst_dtype`], converting as
  // CopyElements does.
  absl::Status CopyTo(absl::string_view name, DType dst_dtype, void* dst) const;

  // Copies elements [first, first + count) of the flattened tensor to `dst` [count of `dst_dtype`].
  // Floats convert to any float type, rounding to nearest even (beyond the range: infinity);
  // whole numbers and truth values to any whole-number type that holds the values (OutOfRange if
  // one does not), and truth values only from 0 and 1. Refused: float to whole number and back, and
  // types of the format that have no DType (I8, U16, F8_E4M3 ...).
  // REQUIRES: dst holds count elements; 0 <= first, 0 <= count, first + count <= elements.
  absl::Status CopyElements(absl::string_view name, int64_t first, int64_t count, DType dst_dtype,
                            void* dst) const;

 private:
  SafetensorsFile(std::string path, SafetensorsHeader header, std::span<const char> data);

  std::string path_;
  std::optional<MappedFile> mapping_;  // none: FromBytes
  SafetensorsHeader header_;
  std::span<const char> data_;  // behind the header
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_IO_SAFETENSORS_H_
