#include "tensor/io/safetensors_set.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "tensor/io/json.h"

namespace colossus {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

// Shard names are plain relative paths. Links are followed: download caches are made of them.
bool StaysInside(absl::string_view name) {
  if (name.empty() || name[0] == '/' || absl::StrContains(name, "\\")) return false;
  if (name.find('\0') != absl::string_view::npos) return false;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(name, '/'))) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

absl::Status NoWeights(FileSystem& files, const std::string& directory) {
  for (const char* other :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"}) {
    if (!files.Exists(JoinPath(directory, other))) continue;
    return absl::NotFoundError(
        absl::StrFormat("%s holds %s but no %s: save the model again in the safetensors format",
                        directory, other, kSingleFile));
  }
  return absl::NotFoundError(
      absl::StrFormat("%s holds neither %s nor %s", directory, kSingleFile, kIndexFile));
}

}  // namespace

absl::StatusOr<SafetensorsSet> SafetensorsSet::Open(FileSystem& files, const std::string& path) {
  if (!files.Exists(path)) return absl::NotFoundError(absl::StrCat(path, " does not exist"));
  if (!files.IsDirectory(path)) return OpenFile(files, path);
  if (files.Exists(JoinPath(path, kSingleFile)))
    return OpenFile(files, JoinPath(path, kSingleFile));
  const std::string index = JoinPath(path, kIndexFile);
  if (files.Exists(index)) return OpenIndex(files, path, index);
  return NoWeights(files, path);
}

absl::StatusOr<SafetensorsSet> SafetensorsSet::OpenFile(FileSystem& files,
                                                        const std::string& path) {
  SafetensorsSet set;
  set.path_ = path;
  ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(files, path));
  set.files_.push_back(std::move(file));
  for (const SafetensorsEntry& entry : set.files_[0].entries()) {
    set.names_.push_back(entry.name);
    set.file_index_[entry.name] = 0;
  }
  return set;
}

absl::StatusOr<SafetensorsSet> SafetensorsSet::OpenIndex(FileSystem& files,
                                                         const std::string& directory,
                                                         const std::string& index_path) {
  ASSIGN_OR_RETURN(const nlohmann::json index, ReadJsonFile(files, index_path));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(index_path, ": has no object weight_map of tensor names to files"));
  }
  SafetensorsSet set;
  set.path_ = index_path;
  std::map<std::string, size_t> shards;
  for (const auto& [name, value] : index["weight_map"].items()) {
    if (!value.is_string() || !StaysInside(value.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: tensor %s is placed in %s, which is not the name of a file inside "
                          "the directory",
                          index_path, name, JsonExcerpt(value)));
    }
    const std::string& shard = value.get_ref<const std::string&>();
    const auto [at, is_new] = shards.emplace(shard, set.files_.size());
    if (is_new) {
      const std::string path = JoinPath(directory, shard);
      if (!files.Exists(path)) {
        return absl::NotFoundError(absl::StrFormat(
            "%s: the file %s, which holds tensor %s, is missing", index_path, shard, name));
      }
      ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(files, path));
      set.files_.push_back(std::move(file));
    }
    if (set.files_[at->second].Find(name) == nullptr) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: tensor %s is not in %s, where the index places it", index_path, name, shard));
    }
    set.names_.push_back(name);
    set.file_index_[name] = at->second;
  }
  return set;
}

const SafetensorsFile* SafetensorsSet::FileOf(absl::string_view name) const {
  const auto at = file_index_.find(std::string(name));
  return at == file_index_.end() ? nullptr : &files_[at->second];
}

const SafetensorsEntry* SafetensorsSet::Find(absl::string_view name) const {
  const SafetensorsFile* file = FileOf(name);
  return file == nullptr ? nullptr : file->Find(name);
}

absl::Status SafetensorsSet::Missing(absl::string_view name) const {
  return absl::NotFoundError(absl::StrFormat("%s has no tensor %s", path_, name));
}

absl::StatusOr<std::span<const char>> SafetensorsSet::data(absl::string_view name) const {
  const SafetensorsFile* file = FileOf(name);
  if (file == nullptr) return Missing(name);
  return file->data(name);
}

absl::Status SafetensorsSet::CopyTo(absl::string_view name, DType dst_dtype, void* dst) const {
  const SafetensorsFile* file = FileOf(name);
  return file == nullptr ? Missing(name) : file->CopyTo(name, dst_dtype, dst);
}

absl::Status SafetensorsSet::CopyElements(absl::string_view name, int64_t first, int64_t count,
                                          DType dst_dtype, void* dst) const {
  const SafetensorsFile* file = FileOf(name);
  return file == nullptr ? Missing(name) : file->CopyElements(name, first, count, dst_dtype, dst);
}

}  // namespace colossus
