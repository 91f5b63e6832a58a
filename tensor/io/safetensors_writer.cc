#include "tensor/io/safetensors_writer.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "tensor/io/safetensors_format.h"

namespace colossus {
namespace {

std::string TemporaryPath(const std::string& path) { return path + ".tmp"; }

// File order: wide types first, so every tensor is aligned without gaps, which the format forbids.
// Within one width the order of the types is that of the format's own library.
int FileRank(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return 0;
    case DType::kF64:
      return 1;
    case DType::kF32:
      return 2;
    case DType::kI32:
      return 3;
    case DType::kBF16:
      return 4;
    case DType::kF16:
      return 5;
    case DType::kU8:
      return 6;
    case DType::kBool:
      return 7;
  }
  return 8;
}

absl::Status CheckTensors(const std::vector<SafetensorsTensor>& sorted) {
  std::vector<absl::string_view> names;
  int64_t total = 0;
  for (const SafetensorsTensor& tensor : sorted) {
    if (tensor.name.empty() || tensor.name == "__metadata__") {
      return absl::InvalidArgumentError(
          absl::StrFormat("a tensor cannot be called \"%s\" in a safetensors file", tensor.name));
    }
    int64_t bytes = SizeOf(tensor.dtype);
    bool overflow = false;
    for (int64_t dim : tensor.dims) {
      overflow |= dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes);
    }
    if (overflow || __builtin_add_overflow(total, bytes, &total)) {
      return absl::InvalidArgumentError(absl::StrFormat("tensor %s has the impossible shape [%s]",
                                                        tensor.name,
                                                        absl::StrJoin(tensor.dims, ", ")));
    }
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("tensor %s is to be written twice", *twice));
}

// Length, header and padding.
absl::StatusOr<std::string> HeaderText(const std::vector<SafetensorsTensor>& order,
                                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const SafetensorsTensor& tensor : order) {
    const int64_t end = offset + tensor.bytes();
    const absl::string_view type = SafetensorsTypeName(tensor.dtype);
    header[tensor.name] = {{"dtype", std::string(type.data(), type.size())},
                           {"shape", tensor.dims},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::ordered_json::exception&) {
    return absl::InvalidArgumentError("a tensor's name or the metadata is not UTF-8 text");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(kSafetensorsLengthBytes, '\0');
  for (int i = 0; i < kSafetensorsLengthBytes; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i));
  }
  return length + text;
}

}  // namespace

int64_t SafetensorsTensor::bytes() const {
  int64_t bytes = SizeOf(dtype);
  for (int64_t dim : dims) bytes *= dim;
  return bytes;
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Begin(
    FileSystem& files, const std::string& path, std::vector<SafetensorsTensor> tensors,
    const std::map<std::string, std::string>& metadata, ByteSink sink) {
  RETURN_IF_ERROR(Annotate(CheckTensors(tensors), path));
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(FileRank(a.dtype), absl::string_view(a.name)) <
           std::make_tuple(FileRank(b.dtype), absl::string_view(b.name));
  });
  const absl::StatusOr<std::string> header = HeaderText(tensors, metadata);
  if (!header.ok()) return Annotate(header.status(), path);
  if (static_cast<int64_t>(header->size()) > kSafetensorsLengthBytes + kSafetensorsMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %d tensors need a header beyond the format's %d bytes; write several files", path,
        tensors.size(), kSafetensorsMaxHeaderBytes));
  }
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(files, path, std::move(tensors)));
  ASSIGN_OR_RETURN(writer->file_, files.Create(TemporaryPath(path)));
  writer->sink_ = std::move(sink);
  RETURN_IF_ERROR(writer->Put(*header));
  writer->SkipEmpty();
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (finished_ || file_ == nullptr) return;
  // Nothing can be reported from here, and what stays behind does not look complete.
  (void)file_->Close();
  (void)files_.Remove(TemporaryPath(path_));
}

absl::Status SafetensorsWriter::Put(std::span<const char> bytes) {
  if (sink_) sink_(bytes);
  return file_->Append(bytes);
}

void SafetensorsWriter::SkipEmpty() {
  while (current_ < order_.size() && filled_ == order_[current_].bytes()) {
    ++current_;
    filled_ = 0;
  }
}

absl::Status SafetensorsWriter::Append(absl::string_view name, std::span<const char> bytes) {
  if (bytes.empty()) return absl::OkStatus();
  if (finished_ || current_ == order_.size() || order_[current_].name != name) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: bytes of tensor %s out of turn; the file takes %s next", path_, name,
                        current_ == order_.size() ? "no more" : order_[current_].name));
  }
  const int64_t left = order_[current_].bytes() - filled_;
  if (static_cast<int64_t>(bytes.size()) > left) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %d bytes for tensor %s, which takes %d more", path_, bytes.size(), name, left));
  }
  RETURN_IF_ERROR(Put(bytes));
  filled_ += static_cast<int64_t>(bytes.size());
  SkipEmpty();
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  if (current_ != order_.size()) {
    const SafetensorsTensor& tensor = order_[current_];
    return absl::InvalidArgumentError(absl::StrFormat("%s: tensor %s lacks %d of %d bytes", path_,
                                                      tensor.name, tensor.bytes() - filled_,
                                                      tensor.bytes()));
  }
  RETURN_IF_ERROR(file_->Sync());
  RETURN_IF_ERROR(file_->Close());
  RETURN_IF_ERROR(files_.Rename(TemporaryPath(path_), path_));
  finished_ = true;
  return files_.SyncDir(DirName(path_));
}

}  // namespace colossus
