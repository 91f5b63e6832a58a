// Writing a safetensors file tensor by tensor, with no more than the caller's pieces in memory.
//
// The file is written beside its place (path + ".tmp") and appears under its name, complete and
// synced to disk, only when Finish returns OK. A writer that is destroyed before that removes what
// it wrote.
//
// Thread-safety: none. The writer owns its file; the FileSystem must outlive it.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
//                    SafetensorsWriter::Begin(files, path, {{"wte", DType::kF32, {257, 8}}}));
//   for (const SafetensorsTensor& tensor : writer->order()) {
//     RETURN_IF_ERROR(writer->Append(tensor.name, bytes));    // in as many pieces as you like
//   }
//   RETURN_IF_ERROR(writer->Finish());
#ifndef COLOSSUS_TENSOR_IO_SAFETENSORS_WRITER_H_
#define COLOSSUS_TENSOR_IO_SAFETENSORS_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/file_system.h"

namespace colossus {

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;  // empty: a scalar

  int64_t bytes() const;
};

class SafetensorsWriter {
 public:
  using ByteSink = std::function<void(std::span<const char>)>;

  // Creates the file and writes the header. Tensors are laid out by type, widest first, and by
  // name inside a type, so that each begins at a multiple of its element size; the header is padded
  // with spaces to a multiple of 8 bytes. `metadata` goes into __metadata__; other libraries want
  // "format" there. `sink` sees every byte of the file in order, header included (for checksums).
  // InvalidArgument for a name given twice, an empty name, the name __metadata__, text that is not
  // UTF-8, a negative dim or a size beyond 2^63 bytes.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Begin(
      FileSystem& files, const std::string& path, std::vector<SafetensorsTensor> tensors,
      const std::map<std::string, std::string>& metadata = {{"format", "pt"}},
      ByteSink sink = nullptr);

  ~SafetensorsWriter();

  // The tensors in the order in which their bytes are to be appended.
  const std::vector<SafetensorsTensor>& order() const { return order_; }

  // Appends the next `bytes` (row-major, little-endian, of the tensor's dtype) of tensor `name`.
  // InvalidArgument if it is not this tensor's turn or the bytes exceed what is left of it; the
  // file system's status if writing fails, after which only destruction is left.
  absl::Status Append(absl::string_view name, std::span<const char> bytes);

  // Syncs, closes and moves the file to its name. InvalidArgument, naming the tensor, if bytes are
  // missing.
  absl::Status Finish();

 private:
  SafetensorsWriter(FileSystem& files, std::string path, std::vector<SafetensorsTensor> order)
      : files_(files), path_(std::move(path)), order_(std::move(order)) {}

  absl::Status Put(std::span<const char> bytes);  // to sink_ and file_
  void SkipEmpty();  // moves current_ on to the tensor that takes the next byte

  FileSystem& files_;
  std::string path_;
  std::vector<SafetensorsTensor> order_;
  std::unique_ptr<WritableFile> file_;
  ByteSink sink_;       // may be null
  size_t current_ = 0;  // index in order_ of the tensor being filled
  int64_t filled_ = 0;  // bytes of it already written
  bool finished_ = false;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_IO_SAFETENSORS_WRITER_H_
