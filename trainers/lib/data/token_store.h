// Ids of all documents one after another, each document closed by the end token, with the borders.
//
// Thread-safe for reading. A store owns its ids or its mapping; it is move-only.
//
//   TokenStoreBuilder builder(tokenizer);           // a DocumentSink
//   RETURN_IF_ERROR(ReadDocuments(files, input, mode, builder, &counts));
//   TokenStore store = std::move(builder).Finish();
//   RETURN_IF_ERROR(WriteTokenFile(files, "corpus.tokens", store));
//   ASSIGN_OR_RETURN(TokenStore mapped, MapTokenFile(files, "corpus.tokens"));
//
// Token file, little-endian: 64 bytes of header (TokenFileHeader), the ids (2 or 4 bytes each),
// zeros up to a multiple of 8 bytes, and one 8-byte number a document: the index past its end
// token.
#ifndef COLOSSUS_TRAINERS_LIB_DATA_TOKEN_STORE_H_
#define COLOSSUS_TRAINERS_LIB_DATA_TOKEN_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_system.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "trainers/lib/data/documents.h"

namespace colossus {

// What token files begin with.
inline constexpr absl::string_view kTokenFileMagic = "CLTOKEN1";

class TokenStore {
 public:
  // Ids as they stand; for tests and small data. REQUIRES: `ends` increase, each document has at
  // least one id, the last end is the number of ids, ids are in [0, vocabulary).
  static TokenStore FromIds(absl::Span<const int32_t> ids, std::vector<int64_t> ends,
                            int64_t vocabulary, int32_t end_id);

  int64_t size() const { return size_; }  // ids
  int64_t documents() const { return static_cast<int64_t>(ends_.size()); }
  // First id of document `d`, and the index past its last.
  int64_t begin(int64_t d) const { return d == 0 ? 0 : ends_[static_cast<size_t>(d - 1)]; }
  int64_t end(int64_t d) const { return ends_[static_cast<size_t>(d)]; }
  // Every id is below it.
  int64_t vocabulary() const { return vocabulary_; }
  int32_t end_id() const { return end_id_; }

  // Ids [first, first + out.size()). REQUIRES: inside the store.
  void Copy(int64_t first, absl::Span<int32_t> out) const;

 private:
  friend class TokenStoreBuilder;
  friend absl::Status WriteTokenFile(FileSystem&, const std::string&, const TokenStore&);
  friend absl::StatusOr<TokenStore> MapTokenFile(FileSystem&, const std::string&);
  TokenStore() = default;
  int width() const { return vocabulary_ <= 65536 ? 2 : 4; }  // bytes an id
  const void* ids() const;

  int64_t size_ = 0;
  int64_t vocabulary_ = 0;
  int32_t end_id_ = 0;
  std::vector<int64_t> ends_;
  // Exactly one of the three holds the ids.
  std::vector<uint16_t> narrow_;
  std::vector<uint32_t> wide_;
  std::optional<MappedFile> mapped_;
};

// Encodes documents as they arrive. Memory beyond the ids stays small where the tokenizer can
// encode pieces apart (Tokenizer::SafePrefix). `tokenizer` must outlive it.
class TokenStoreBuilder final : public DocumentSink {
 public:
  explicit TokenStoreBuilder(const Tokenizer& tokenizer);
  // InvalidArgument names the document where the tokenizer cannot read its text.
  absl::Status Text(absl::string_view piece) override;
  absl::Status EndDocument() override;
  // REQUIRES: no open document.
  TokenStore Finish() &&;

 private:
  absl::Status Encode(absl::string_view text);
  void Add(int32_t id);

  const Tokenizer& tokenizer_;
  std::string waiting_;  // text that cannot be encoded apart from what follows
  TokenStore store_;
};

// Beside `path` and then renamed: after a failure an old file is as it was.
absl::Status WriteTokenFile(FileSystem& files, const std::string& path, const TokenStore& store);

// Maps the file; ids are read from it where needed. The header, the borders and every id are
// checked here, so later reads cannot fail. InvalidArgument names the file and the fault.
absl::StatusOr<TokenStore> MapTokenFile(FileSystem& files, const std::string& path);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_DATA_TOKEN_STORE_H_
