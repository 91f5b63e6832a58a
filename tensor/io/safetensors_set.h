// All tensors of a model directory: one model.safetensors, or model.safetensors.index.json and the
// shards it names, opened and checked together and read by tensor name.
//
// Thread-safety and ownership: as SafetensorsFile.
//
//   ASSIGN_OR_RETURN(SafetensorsSet weights, SafetensorsSet::Open(RealFileSystem(), directory));
//   for (const std::string& name : weights.names()) { ... weights.Find(name)->dims ... }
#ifndef COLOSSUS_TENSOR_IO_SAFETENSORS_SET_H_
#define COLOSSUS_TENSOR_IO_SAFETENSORS_SET_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "tensor/io/safetensors.h"
#include "tensor/io/safetensors_format.h"

namespace colossus {

class SafetensorsSet {
 public:
  // `path` is a directory or one .safetensors file. In a directory model.safetensors is taken
  // before an index. Refused, naming file and tensor: no weights at all (other formats are named
  // with what to do), a missing shard, a tensor the index places in a shard that lacks it, a name
  // listed twice, a shard path that is absolute or leaves the directory.
  static absl::StatusOr<SafetensorsSet> Open(FileSystem& files, const std::string& path);

  SafetensorsSet(SafetensorsSet&&) = default;
  SafetensorsSet& operator=(SafetensorsSet&&) = default;

  // Ascending. Tensors that lie in a shard but not in its index are not part of the set.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }

  // None: nullptr.
  const SafetensorsEntry* Find(absl::string_view name) const;
  // The file that holds the tensor, for messages and data(); none: nullptr.
  const SafetensorsFile* FileOf(absl::string_view name) const;

  // As in SafetensorsFile; NotFound for names outside the set.
  absl::StatusOr<std::span<const char>> data(absl::string_view name) const;
  absl::Status CopyTo(absl::string_view name, DType dst_dtype, void* dst) const;
  absl::Status CopyElements(absl::string_view name, int64_t first, int64_t count, DType dst_dtype,
                            void* dst) const;

 private:
  SafetensorsSet() = default;
  static absl::StatusOr<SafetensorsSet> OpenFile(FileSystem& files, const std::string& path);
  static absl::StatusOr<SafetensorsSet> OpenIndex(FileSystem& files, const std::string& directory,
                                                  const std::string& index_path);

  absl::Status Missing(absl::string_view name) const;

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> names_;
  std::map<std::string, size_t> file_index_;  // tensor name to index in files_
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_IO_SAFETENSORS_SET_H_
