// Typed access to one object of a config.json for the files that read a model family.
//
// The first thing that is wrong is kept and everything after it reads as its default, so a family
// reads all its keys in a row and checks status() once. Absent and null are told apart: a plain
// getter takes its default for an absent key and refuses null; an OrNull one gives none for null.
// Several names for one key may be given; two of them with different values are refused.
//
// Thread-safety: none. Refers to the JSON object and the strings it was made with.
//
//   ConfigReader in(json, "config.json");
//   config.hidden = in.Int({"n_embd", "hidden_size"}, 768, {1, ConfigReader::kMaxWidth});
//   RETURN_IF_ERROR(in.status());
#ifndef COLOSSUS_SHARDFORMER_CONFIG_READER_H_
#define COLOSSUS_SHARDFORMER_CONFIG_READER_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace colossus {

class ConfigReader {
 public:
  // Bounds that no real model comes near.
  static constexpr int64_t kMaxWidth = int64_t{1} << 24;      // hidden, mlp, vocabulary
  static constexpr int64_t kMaxCount = int64_t{1} << 16;      // layers, heads
  static constexpr int64_t kMaxPositions = int64_t{1} << 40;  // tokens
  static constexpr int64_t kMaxToken = int64_t{1} << 31;      // ids

  using Keys = std::initializer_list<const char*>;
  struct IntRange {
    int64_t low = std::numeric_limits<int64_t>::min();
    int64_t high = std::numeric_limits<int64_t>::max();
  };
  struct NumberRange {
    double low = -std::numeric_limits<double>::max();
    double high = std::numeric_limits<double>::max();
  };

  // `path` opens the names of keys in messages: "rope_scaling." for the object of that name.
  ConfigReader(const nlohmann::json& object, absl::string_view file_name, absl::string_view path);

  bool Has(const char* key) const;     // present, null included
  bool IsNull(const char* key) const;  // present with null

  int64_t Int(Keys keys, int64_t if_absent, IntRange range);
  std::optional<int64_t> IntOrNull(Keys keys, std::optional<int64_t> if_absent, IntRange range);
  double Number(Keys keys, double if_absent, NumberRange range);
  std::optional<double> NumberOrNull(Keys keys, std::optional<double> if_absent, NumberRange range);
  bool Bool(Keys keys, bool if_absent);
  std::string String(Keys keys, const std::string& if_absent);
  std::optional<std::string> StringOrNull(Keys keys);  // absent: none
  std::vector<std::string> Strings(Keys keys);         // absent or null: empty
  std::vector<int64_t> IntOrInts(Keys keys, std::vector<int64_t> if_absent, IntRange range);
  const nlohmann::json* ObjectOrNull(Keys keys);  // absent or null: nullptr

  // Refuses the key. `reason` follows its name: "file: path.key reason".
  void Fail(absl::string_view key, absl::string_view reason);
  // Refuses with a message of its own: "file: message".
  void FailWith(absl::string_view message);
  // Keeps a status from elsewhere, "file: path.key: message".
  void Adopt(absl::string_view key, const absl::Status& status);
  // Keeps the status of another reader, which names its file itself.
  void AdoptStatus(const absl::Status& status);

  const absl::Status& status() const { return status_; }
  const std::string& file_name() const { return file_name_; }

 private:
  // The value under one of the names, or nullptr; fails if two disagree. Sets name_.
  const nlohmann::json* Find(Keys keys);
  void WrongKind(const nlohmann::json& value, absl::string_view wanted);
  std::optional<int64_t> CheckInt(const nlohmann::json& value, IntRange range);

  const nlohmann::json& object_;
  std::string file_name_;
  std::string path_;
  std::string name_;  // of the key that Find found
  absl::Status status_;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_CONFIG_READER_H_
