#include "trainers/lib/config/config_file.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/config/schema.h"

namespace colossus {
namespace {

// Names such as a.a.a... nest as deep as the text is long, and the parser's tables end recursively:
// a longer text of them could exhaust the stack.
constexpr size_t kMostBytes = 128 << 10;

// std::string_view of the TOML library to absl's.
absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool SectionExists(absl::string_view section) {
  for (const Key& key : Keys()) {
    if (key.section() == section) return true;
  }
  return false;
}

// The value as a flag would give it, or nothing when its TOML type does not fit the key.
struct ToText {
  const toml::node& node;
  bool size;

  std::optional<std::string> operator()(bool*) const {
    if (const auto value = node.value_exact<bool>()) return *value ? "true" : "false";
    return std::nullopt;
  }
  std::optional<std::string> operator()(int64_t*) const {
    if (const auto value = node.value_exact<int64_t>()) return absl::StrCat(*value);
    if (const auto value = node.value_exact<std::string>(); size && value) return *value;
    return std::nullopt;
  }
  std::optional<std::string> operator()(double*) const {
    if (const auto value = node.value_exact<int64_t>()) return absl::StrCat(*value);
    if (const auto value = node.value_exact<double>()) {
      std::ostringstream text;  // 17 digits always read back as the same number
      text.precision(17);
      text << *value;
      return text.str();
    }
    return std::nullopt;
  }
  std::optional<std::string> operator()(std::string*) const {
    return node.value_exact<std::string>();
  }
  std::optional<std::string> operator()(std::vector<int64_t>*) const {
    const toml::array* array = node.as_array();
    if (array == nullptr) return std::nullopt;
    std::vector<int64_t> values;
    for (const toml::node& item : *array) {
      const auto value = item.value_exact<int64_t>();
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
    return absl::StrJoin(values, ",");
  }
};

absl::string_view TypeOf(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a point";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

class Reader {
 public:
  explicit Reader(absl::string_view path) : path_(path) {}

  void ReadSection(absl::string_view section, const toml::node& node, uint32_t line) {
    if (section == "extra") return;
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      Fault(line,
            absl::StrCat("'", section, "' stands outside a section; ", NearestKey("", section)));
      return;
    }
    for (const auto& [name, value] : *table) {
      ReadKey(section, View(name.str()), value, name.source().begin.line);
    }
    if (table->empty() && !SectionExists(section)) {
      Fault(line, absl::StrCat("unknown section [", section, "]"));
    }
  }

  absl::StatusOr<std::vector<Assignment>> Finish() {
    if (faults_.empty()) return std::move(assignments_);
    std::vector<std::string> lines;
    for (const auto& [line, text] : faults_) lines.push_back(text);
    return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
  }

 private:
  void ReadKey(absl::string_view section, absl::string_view name, const toml::node& node,
               uint32_t line) {
    const Key* key = FindKey(absl::StrCat(section, ".", name));
    if (key == nullptr) {
      Fault(line, absl::StrCat("unknown key '", name, "' in [", section, "]; ",
                               NearestKey(section, name)));
      return;
    }
    Options unused;
    std::optional<std::string> text = std::visit(ToText{node, key->size}, key->field(unused));
    if (!text) {
      Fault(line, absl::StrCat(key->name, " is ", TypeOf(node), "; it must be ", TypeText(*key)));
      return;
    }
    assignments_.push_back({key, *std::move(text), absl::StrCat(path_, ":", line)});
  }

  void Fault(uint32_t line, absl::string_view text) {
    faults_.emplace(line, absl::StrCat(path_, ":", line, ": ", text));
  }

  const std::string path_;
  std::vector<Assignment> assignments_;
  std::multimap<uint32_t, std::string> faults_;  // by line
};

}  // namespace

absl::StatusOr<std::vector<Assignment>> ParseConfigFile(absl::string_view path,
                                                        absl::string_view text) {
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", text.size(), " bytes; a configuration has at most ", kMostBytes));
  }
  const toml::parse_result parsed =
      toml::parse(std::string_view(text.data(), text.size()), std::string(path));
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.source().begin.line, ": ", View(error.description())));
  }
  Reader reader(path);
  for (const auto& [name, node] : parsed.table()) {
    reader.ReadSection(View(name.str()), node, name.source().begin.line);
  }
  return reader.Finish();
}

}  // namespace colossus
