#include "trainers/lib/data/token_store.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/file_system.h"
#include "base/status.h"

namespace colossus {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

struct TokenFileHeader {
  char magic[8];
  uint32_t width;  // bytes an id: 2 or 4
  uint32_t end_id;
  uint64_t vocabulary;
  uint64_t tokens;
  uint64_t documents;
  uint64_t unused[3];  // zeros
};
static_assert(sizeof(TokenFileHeader) == 64);

uint64_t PaddedIds(const TokenFileHeader& header) {
  return (header.tokens * header.width + 7) / 8 * 8;
}

absl::Status CheckHeader(const TokenFileHeader& header, uint64_t file_bytes) {
  if (absl::string_view(header.magic, sizeof(header.magic)) != kTokenFileMagic) {
    return absl::InvalidArgumentError("not a token file");
  }
  const uint32_t width = header.vocabulary <= 65536 ? 2 : 4;
  if (header.vocabulary == 0 || header.vocabulary > (uint64_t{1} << 31) || header.width != width ||
      header.end_id >= header.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("ids of ", header.width, " bytes, end id ",
                                                   header.end_id, " and vocabulary ",
                                                   header.vocabulary, " do not go together"));
  }
  // Each count is bounded by the file first, so that no product overflows.
  if (header.tokens > file_bytes || header.documents > file_bytes ||
      sizeof(header) + PaddedIds(header) + 8 * header.documents != file_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header tells of ", header.tokens, " ids and ", header.documents,
                     " documents, which the file's ", file_bytes, " bytes do not hold exactly"));
  }
  return absl::OkStatus();
}

absl::Status CheckEnds(const std::vector<int64_t>& ends, int64_t tokens) {
  int64_t before = 0;
  for (const int64_t end : ends) {
    if (end <= before || end > tokens) {
      return absl::InvalidArgumentError(absl::StrCat("document borders ", before, " and ", end,
                                                     " do not increase within ", tokens, " ids"));
    }
    before = end;
  }
  if (before == tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the last document ends at ", before, " of ", tokens, " ids"));
}

template <class T>
absl::Status CheckIds(const void* ids, int64_t count, int64_t vocabulary) {
  const T* first = static_cast<const T*>(ids);
  const T* largest = std::max_element(first, first + count);
  if (count == 0 || *largest < vocabulary) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("id ", *largest, " at index ", largest - first,
                                                 " is outside the vocabulary, ", vocabulary));
}

std::span<const char> Bytes(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

}  // namespace

TokenStore TokenStore::FromIds(absl::Span<const int32_t> ids, std::vector<int64_t> ends,
                               int64_t vocabulary, int32_t end_id) {
  TokenStore store;
  store.size_ = static_cast<int64_t>(ids.size());
  store.vocabulary_ = vocabulary;
  store.end_id_ = end_id;
  CHECK_OK(CheckEnds(ends, store.size_));
  store.ends_ = std::move(ends);
  for (const int32_t id : ids) CHECK(id >= 0 && id < vocabulary) << "id " << id;
  if (store.width() == 2) {
    store.narrow_.assign(ids.begin(), ids.end());
  } else {
    store.wide_.assign(ids.begin(), ids.end());
  }
  return store;
}

const void* TokenStore::ids() const {
  if (mapped_) return mapped_->data() + sizeof(TokenFileHeader);
  return width() == 2 ? static_cast<const void*>(narrow_.data()) : wide_.data();
}

void TokenStore::Copy(int64_t first, absl::Span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  CHECK(first >= 0 && count <= size_ - first) << first << " + " << count << " of " << size_;
  if (width() == 2) {
    const uint16_t* from = static_cast<const uint16_t*>(ids()) + first;
    std::copy(from, from + count, out.begin());
  } else {
    const uint32_t* from = static_cast<const uint32_t*>(ids()) + first;
    std::copy(from, from + count, out.begin());
  }
}

TokenStoreBuilder::TokenStoreBuilder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  store_.vocabulary_ = tokenizer.vocabulary_size();
  store_.end_id_ = tokenizer.end_id();
}

absl::Status TokenStoreBuilder::Text(absl::string_view piece) {
  waiting_.append(piece.data(), piece.size());
  const size_t safe = tokenizer_.SafePrefix(waiting_);
  if (safe == 0) return absl::OkStatus();
  RETURN_IF_ERROR(Encode(absl::string_view(waiting_).substr(0, safe)));
  waiting_.erase(0, safe);
  return absl::OkStatus();
}

absl::Status TokenStoreBuilder::EndDocument() {
  RETURN_IF_ERROR(Encode(waiting_));
  waiting_.clear();
  Add(store_.end_id_);
  store_.ends_.push_back(store_.size_);
  return absl::OkStatus();
}

TokenStore TokenStoreBuilder::Finish() && {
  CHECK(waiting_.empty()) << "a document is open";
  return std::move(store_);
}

absl::Status TokenStoreBuilder::Encode(absl::string_view text) {
  const absl::StatusOr<std::vector<int32_t>> ids = tokenizer_.Encode(text);
  if (!ids.ok()) {
    return Annotate(ids.status(), absl::StrCat("document ", store_.ends_.size() + 1));
  }
  for (const int32_t id : *ids) Add(id);
  return absl::OkStatus();
}

void TokenStoreBuilder::Add(int32_t id) {
  if (store_.width() == 2) {
    store_.narrow_.push_back(static_cast<uint16_t>(id));
  } else {
    store_.wide_.push_back(static_cast<uint32_t>(id));
  }
  ++store_.size_;
}

absl::Status WriteTokenFile(FileSystem& files, const std::string& path, const TokenStore& store) {
  TokenFileHeader header = {};
  kTokenFileMagic.copy(header.magic, sizeof(header.magic));
  header.width = static_cast<uint32_t>(store.width());
  header.end_id = static_cast<uint32_t>(store.end_id());
  header.vocabulary = static_cast<uint64_t>(store.vocabulary());
  header.tokens = static_cast<uint64_t>(store.size());
  header.documents = static_cast<uint64_t>(store.documents());
  const size_t id_bytes = header.tokens * header.width;
  const std::string zeros(PaddedIds(header) - id_bytes, '\0');

  const std::string beside = path + ".tmp";
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.Create(beside));
    RETURN_IF_ERROR(file->Append(Bytes(&header, sizeof(header))));
    RETURN_IF_ERROR(file->Append(Bytes(store.ids(), id_bytes)));
    RETURN_IF_ERROR(file->Append(Bytes(zeros.data(), zeros.size())));
    RETURN_IF_ERROR(file->Append(Bytes(store.ends_.data(), 8 * store.ends_.size())));
    RETURN_IF_ERROR(file->Sync());
    RETURN_IF_ERROR(file->Close());
    return files.Rename(beside, path);
  };
  absl::Status status = write();
  if (!status.ok()) files.Remove(beside).IgnoreError();  // the first error is the one to report
  return status;
}

absl::StatusOr<TokenStore> MapTokenFile(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, files.Map(path));
  TokenFileHeader header;
  if (file.size() < static_cast<int64_t>(sizeof(header))) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too short for a token file"));
  }
  memcpy(&header, file.data(), sizeof(header));
  if (absl::Status status = CheckHeader(header, static_cast<uint64_t>(file.size())); !status.ok()) {
    return Annotate(status, path);
  }
  TokenStore store;
  store.size_ = static_cast<int64_t>(header.tokens);
  store.vocabulary_ = static_cast<int64_t>(header.vocabulary);
  store.end_id_ = static_cast<int32_t>(header.end_id);
  store.ends_.resize(header.documents);
  if (header.documents > 0) {
    memcpy(store.ends_.data(), file.data() + sizeof(header) + PaddedIds(header),
           8 * header.documents);
  }
  store.mapped_ = std::move(file);
  absl::Status status = CheckEnds(store.ends_, store.size_);
  if (status.ok()) {
    status = header.width == 2 ? CheckIds<uint16_t>(store.ids(), store.size_, store.vocabulary_)
                               : CheckIds<uint32_t>(store.ids(), store.size_, store.vocabulary_);
  }
  if (!status.ok()) return Annotate(status, path);
  return store;
}

}  // namespace colossus
