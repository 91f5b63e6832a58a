// Fields: the members of one object of tokenizer.json, read with their types.
//
// Purpose: every message names the member by its path ("pre_tokenizer.pretokenizers[1].behavior"),
// and a member that nobody read is refused unless it says nothing (null, false, empty, 0).
// Thread-safety: none. Ownership: refers to the JSON, which must outlive it.
//
//   ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, "decoder"));
//   ASSIGN_OR_RETURN(const std::string type, fields.RequiredText("type"));
//   ASSIGN_OR_RETURN(const bool invert, fields.Bool("invert", false));
//   RETURN_IF_ERROR(fields.End());
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_JSON_FIELDS_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_JSON_FIELDS_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace colossus {

class Fields {
 public:
  // InvalidArgument where `json` is no object.
  static absl::StatusOr<Fields> Of(const nlohmann::json& json, std::string path);

  const std::string& path() const { return path_; }
  // "path.name".
  std::string PathOf(absl::string_view name) const;

  // The member, counted as read; null where there is none or it is null.
  const nlohmann::json* Find(const std::string& name);
  // InvalidArgument for another type; the default where the member is missing or null.
  absl::StatusOr<bool> Bool(const std::string& name, bool otherwise);
  absl::StatusOr<std::string> Text(const std::string& name, const std::string& otherwise);
  // These must be there. An id is a whole number from 0 to 2097151.
  absl::StatusOr<std::string> RequiredText(const std::string& name);
  absl::StatusOr<int32_t> RequiredId(const std::string& name);
  absl::StatusOr<const nlohmann::json*> RequiredList(const std::string& name);

  // InvalidArgument: `path` must be `wanted`, and is what stands there.
  static absl::Status Wrong(absl::string_view path, absl::string_view wanted,
                            const nlohmann::json& value);
  // Unimplemented: `path` has `value`; then why or what to do.
  static absl::Status Refuse(absl::string_view path, const nlohmann::json& value,
                             absl::string_view why);

  // Unimplemented names the first member that says something and was not read.
  absl::Status End() const;

 private:
  Fields(const nlohmann::json& json, std::string path) : json_(&json), path_(std::move(path)) {}
  const nlohmann::json* json_;
  std::string path_;
  std::set<std::string> read_;
};

// An id as Fields::RequiredId takes it.
absl::StatusOr<int32_t> ReadId(const nlohmann::json& value, absl::string_view path);
inline constexpr int32_t kMostIds = 1 << 21;

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_JSON_FIELDS_H_
