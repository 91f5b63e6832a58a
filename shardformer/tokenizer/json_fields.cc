#include "shardformer/tokenizer/json_fields.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/io/json.h"

namespace colossus {
namespace {

bool SaysNothing(const nlohmann::json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

}  // namespace

absl::StatusOr<Fields> Fields::Of(const nlohmann::json& json, std::string path) {
  if (!json.is_object()) return Wrong(path, "an object", json);
  return Fields(json, std::move(path));
}

std::string Fields::PathOf(absl::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", name);
}

const nlohmann::json* Fields::Find(const std::string& name) {
  read_.insert(name);
  const auto found = json_->find(name);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<bool> Fields::Bool(const std::string& name, bool otherwise) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return Wrong(PathOf(name), "true or false", *value);
  return value->get<bool>();
}

absl::StatusOr<std::string> Fields::Text(const std::string& name, const std::string& otherwise) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) return Wrong(PathOf(name), "a string", *value);
  return value->get<std::string>();
}

absl::StatusOr<std::string> Fields::RequiredText(const std::string& name) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr || !value->is_string()) {
    return Wrong(PathOf(name), "a string", value == nullptr ? nlohmann::json() : *value);
  }
  return value->get<std::string>();
}

absl::StatusOr<int32_t> Fields::RequiredId(const std::string& name) {
  const nlohmann::json* value = Find(name);
  return ReadId(value == nullptr ? nlohmann::json() : *value, PathOf(name));
}

absl::StatusOr<const nlohmann::json*> Fields::RequiredList(const std::string& name) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr || !value->is_array()) {
    return Wrong(PathOf(name), "a list", value == nullptr ? nlohmann::json() : *value);
  }
  return value;
}

absl::Status Fields::Wrong(absl::string_view path, absl::string_view wanted,
                           const nlohmann::json& value) {
  return absl::InvalidArgumentError(
      absl::StrCat(path.empty() ? "the file" : path, " must be ", wanted, ", but is ",
                   JsonKind(value), value.is_null() ? "" : ": ",
                   value.is_null() ? "" : JsonExcerpt(value)));
}

absl::Status Fields::Refuse(absl::string_view path, const nlohmann::json& value,
                            absl::string_view why) {
  return absl::UnimplementedError(absl::StrCat(path, " is ", JsonExcerpt(value), ": ", why));
}

absl::Status Fields::End() const {
  for (const auto& [name, value] : json_->items()) {
    if (read_.count(name) > 0 || SaysNothing(value)) continue;
    return Refuse(PathOf(name), value, "a setting that cannot be obeyed; remove it");
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> ReadId(const nlohmann::json& value, absl::string_view path) {
  const bool whole = value.is_number_integer();
  if (!whole || value < 0 || value >= kMostIds) {
    return Fields::Wrong(path, absl::StrCat("an id from 0 to ", kMostIds - 1), value);
  }
  return value.get<int32_t>();
}

}  // namespace colossus
