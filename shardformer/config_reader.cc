#include "shardformer/config_reader.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tensor/io/json.h"

namespace colossus {

ConfigReader::ConfigReader(const nlohmann::json& object, absl::string_view file_name,
                           absl::string_view path)
    : object_(object), file_name_(file_name), path_(path) {
  if (!object.is_object()) {
    const std::string what = path_.empty() ? "the file" : path_.substr(0, path_.size() - 1);
    FailWith(absl::StrFormat("%s holds %s, not an object", what, JsonKind(object)));
  }
}

void ConfigReader::FailWith(absl::string_view message) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(file_name_, ": ", message));
}

void ConfigReader::Fail(absl::string_view key, absl::string_view reason) {
  FailWith(absl::StrCat(path_, key, " ", reason));
}

void ConfigReader::Adopt(absl::string_view key, const absl::Status& status) {
  if (!status.ok()) FailWith(absl::StrCat(path_, key, ": ", status.message()));
}

void ConfigReader::AdoptStatus(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

void ConfigReader::WrongKind(const nlohmann::json& value, absl::string_view wanted) {
  Fail(name_,
       absl::StrFormat("is %s (%s); it must be %s", JsonExcerpt(value), JsonKind(value), wanted));
}

bool ConfigReader::Has(const char* key) const {
  return object_.is_object() && object_.contains(key);
}

bool ConfigReader::IsNull(const char* key) const { return Has(key) && object_[key].is_null(); }

const nlohmann::json* ConfigReader::Find(Keys keys) {
  const nlohmann::json* found = nullptr;
  for (const char* key : keys) {
    if (!Has(key)) continue;
    if (found != nullptr && *found != object_[key]) {
      Fail(key, absl::StrFormat("and %s%s mean the same but differ; keep one", path_, name_));
      return nullptr;
    }
    if (found == nullptr) {
      found = &object_[key];
      name_ = key;
    }
  }
  return status_.ok() ? found : nullptr;
}

std::optional<int64_t> ConfigReader::CheckInt(const nlohmann::json& value, IntRange range) {
  // Unsigned values above 2^63 are out of every range.
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX});
  if (!value.is_number_integer()) {
    WrongKind(value, "a whole number");
    return std::nullopt;
  }
  const int64_t number = fits ? value.get<int64_t>() : 0;
  if (!fits || number < range.low || number > range.high) {
    Fail(name_, absl::StrFormat("is %s; it must be from %d to %d", JsonExcerpt(value), range.low,
                                range.high));
    return std::nullopt;
  }
  return number;
}

int64_t ConfigReader::Int(Keys keys, int64_t if_absent, IntRange range) {
  const nlohmann::json* value = Find(keys);
  if (value == nullptr) return if_absent;
  return CheckInt(*value, range).value_or(if_absent);
}

std::optional<int64_t> ConfigReader::IntOrNull(Keys keys, std::optional<int64_t> if_absent,
                                               IntRange range) {
  const nlohmann::json* value = Find(keys);
  if (value == nullptr) return if_absent;
  if (value->is_null()) return std::nullopt;
  return CheckInt(*value, range);
}

double ConfigReader::Number(Keys keys, double if_absent, NumberRange range) {
  const nlohmann::json* value = Find(keys);
  if (value == nullptr) return if_absent;
  if (!value->is_number()) {
    WrongKind(*value, "a number");
    return if_absent;
  }
  const double number = value->get<double>();
  if (!(number >= range.low && number <= range.high)) {
    Fail(name_, absl::StrFormat("is %s; it must be from %g to %g", JsonExcerpt(*value), range.low,
                                range.high));
    return if_absent;
  }
  return number;
}

std::optional<double> ConfigReader::NumberOrNull(Keys keys, std::optional<double> if_absent,
                                                 NumberRange range) {
  const nlohmann::json* value = Find(keys);
  if (value == nullptr) return if_absent;
  if (value->is_null()) return std::nullopt;
  return Number(keys, 0, range);
}

bool ConfigReader::Bool(Keys keys, bool if_absent) {
  const nlohmann::json* value = Find(keys);
  if (value == nullptr) return if_absent;
  if (!value->is_boolean()) {
    WrongKind(*value, "true or false");
    return if_absent;
  }
  return value->get<bool>();
}

std::string ConfigReader::String(Keys keys, const std::string& if_absent) {
  const nlohmann::json* value = Find(keys);
  if (value == nullptr) return if_absent;
  if (!value->is_string()) {
    WrongKind(*value, "a string");
    return if_absent;
  }
  return value->get<std::string>();
}

std::optional<std::string> ConfigReader::StringOrNull(Keys keys) {
  const nlohmann::json* value = Find(keys);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return String(keys, "");
}

std::vector<std::string> ConfigReader::Strings(Keys keys) {
  const nlohmann::json* value = Find(keys);
  std::vector<std::string> strings;
  if (value == nullptr || value->is_null()) return strings;
  if (!value->is_array()) {
    WrongKind(*value, "a list of strings");
    return strings;
  }
  for (const nlohmann::json& item : *value) {
    if (!item.is_string()) {
      WrongKind(*value, "a list of strings");
      return {};
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

std::vector<int64_t> ConfigReader::IntOrInts(Keys keys, std::vector<int64_t> if_absent,
                                             IntRange range) {
  const nlohmann::json* value = Find(keys);
  if (value == nullptr) return if_absent;
  std::vector<int64_t> numbers;
  if (value->is_null()) return numbers;
  if (!value->is_array()) {
    if (const auto number = CheckInt(*value, range)) numbers.push_back(*number);
    return numbers;
  }
  for (const nlohmann::json& item : *value) {
    if (const auto number = CheckInt(item, range)) numbers.push_back(*number);
  }
  return numbers;
}

const nlohmann::json* ConfigReader::ObjectOrNull(Keys keys) {
  const nlohmann::json* value = Find(keys);
  if (value == nullptr || value->is_null()) return nullptr;
  if (!value->is_object()) {
    WrongKind(*value, "an object or null");
    return nullptr;
  }
  return value;
}

}  // namespace colossus
