#include "trainers/lib/config/schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "collectives/mesh.h"
#include "parallel/mesh_text.h"
#include "trainers/lib/config/options.h"

namespace colossus {
namespace {

// Shortest text that reads back as the same number, with a point so that TOML takes it as a float.
std::string FloatText(double value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".enia") == std::string::npos) text += ".0";
  return text;
}

struct Unit {
  const char* name;
  int64_t bytes;
};
constexpr Unit kUnits[] = {{"TiB", int64_t{1} << 40},
                           {"GiB", int64_t{1} << 30},
                           {"MiB", int64_t{1} << 20},
                           {"KiB", int64_t{1} << 10},
                           {"TB", 1000000000000},
                           {"GB", 1000000000},
                           {"MB", 1000000},
                           {"KB", 1000},
                           {"B", 1}};

// A size in the largest unit that divides it.
std::string SizeText(int64_t bytes) {
  const Unit* best = nullptr;
  for (const Unit& unit : kUnits) {
    if (bytes != 0 && bytes % unit.bytes == 0 && (best == nullptr || unit.bytes > best->bytes)) {
      best = &unit;
    }
  }
  if (best == nullptr || best->bytes == 1) return absl::StrCat(bytes);
  return absl::StrCat(bytes / best->bytes, best->name);
}

absl::StatusOr<int64_t> ParseSize(absl::string_view text) {
  double factor = 1;
  absl::string_view number = text;
  for (const Unit& unit : kUnits) {
    if (absl::EndsWithIgnoreCase(text, unit.name)) {
      factor = static_cast<double>(unit.bytes);
      number = absl::StripAsciiWhitespace(text.substr(0, text.size() - std::strlen(unit.name)));
      break;
    }
  }
  double value;
  if (!absl::SimpleAtod(number, &value) || !(value >= 0) || value * factor > 9e18) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no size in bytes, such as 6GB, 6GiB or 6000000"));
  }
  return static_cast<int64_t>(std::llround(value * factor));
}

// One comparison of a condition: "optimizer.name=adamw|sgd" or "data.file!=synthetic".
struct Comparison {
  const Key* key;
  bool negated;
  bool axis;  // the value is a mesh with such an axis, in place of being one of them
  std::vector<std::string> values;
};

std::vector<Comparison> ParseCondition(absl::string_view condition) {
  std::vector<Comparison> result;
  for (absl::string_view part : absl::StrSplit(condition, " & ", absl::SkipEmpty())) {
    const size_t sign = part.find_first_of("=~");
    CHECK(sign != absl::string_view::npos && sign > 0) << "condition " << std::string(part);
    const bool negated = part[sign - 1] == '!';
    const Key* key = FindKey(part.substr(0, sign - (negated ? 1 : 0)));
    CHECK(key != nullptr) << "condition " << std::string(part) << " names no key";
    result.push_back({key, negated, part[sign] == '~', absl::StrSplit(part.substr(sign + 1), '|')});
  }
  return result;
}

// Whether the mesh has an axis of that name that is more than one. What is no mesh is refused
// elsewhere.
bool HasAxis(absl::string_view mesh, absl::string_view axis) {
  if (!IsStageMeshes(mesh)) {
    const absl::StatusOr<std::vector<MeshAxis>> axes = ParseMeshAxes(mesh);
    return !axes.ok() || SizeOfAxis(*axes, axis) > 1;
  }
  const absl::StatusOr<std::vector<std::vector<MeshAxis>>> stages = ParseStageMeshes(mesh);
  if (!stages.ok() || axis == "stage") return !stages.ok() || stages->size() > 1;
  return std::any_of(stages->begin(), stages->end(),
                     [&](const auto& axes) { return SizeOfAxis(axes, axis) > 1; });
}

bool Holds(const Comparison& comparison, const Options& options) {
  const std::string value = ValueText(*comparison.key, options);
  const auto& values = comparison.values;
  const bool found = std::any_of(values.begin(), values.end(), [&](const std::string& v) {
    return comparison.axis ? HasAxis(value, v) : value == v;
  });
  return found != comparison.negated;
}

// The field of `key` in constant options; no caller writes through it.
Field FieldOf(const Key& key, const Options& options) {
  return key.field(const_cast<Options&>(options));
}

absl::Status CheckNumber(const Key& key, double value) {
  const Range& r = key.range;
  const bool inside = r.open ? value > r.low && value < r.high : value >= r.low && value <= r.high;
  if (inside && std::isfinite(value)) return absl::OkStatus();
  Options options;
  const bool whole = !std::holds_alternative<double*>(key.field(options));
  const auto text = [&](double number) {
    return whole ? absl::StrFormat("%.0f", number) : FloatText(number);
  };
  // RangeText leaves out a bound that only keeps sizes from overflowing.
  const std::string range = whole && value > r.high ? "at most " + text(r.high) : RangeText(key);
  return absl::InvalidArgumentError(
      absl::StrCat(text(value), " is out of range: it must be ", range));
}

// Stores parsed text; one overload a type.
struct Parser {
  const Key& key;
  absl::string_view text;

  absl::Status Wrong() const {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not ", TypeText(key)));
  }
  absl::Status operator()(bool* out) const {
    if (text != "true" && text != "false") return Wrong();
    *out = text == "true";
    return absl::OkStatus();
  }
  absl::Status operator()(int64_t* out) const {
    if (key.size) {
      ASSIGN_OR_RETURN(*out, ParseSize(text));
      return absl::OkStatus();
    }
    return absl::SimpleAtoi(text, out) ? absl::OkStatus() : Wrong();
  }
  absl::Status operator()(double* out) const {
    return absl::SimpleAtod(text, out) ? absl::OkStatus() : Wrong();
  }
  absl::Status operator()(std::string* out) const {
    if (text.find('\0') != absl::string_view::npos) {  // the system would end the name there
      return absl::InvalidArgumentError("a NUL byte, which no name or text may have");
    }
    *out = std::string(text);
    return absl::OkStatus();
  }
  absl::Status operator()(std::vector<int64_t>* out) const {
    out->clear();
    if (text.empty()) return absl::OkStatus();
    for (absl::string_view item : absl::StrSplit(text, ',')) {
      int64_t value;
      if (!absl::SimpleAtoi(item, &value)) return Wrong();
      out->push_back(value);
    }
    return absl::OkStatus();
  }
};

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string(1, c));
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppend(&out, "\\u", absl::Hex(byte, absl::kZeroPad4));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

absl::Span<const Trainer> AllTrainers() {
  static constexpr Trainer kAll[] = {Trainer::kPretrain, Trainer::kEvaluate, Trainer::kGenerate,
                                     Trainer::kParity,   Trainer::kConvert,  Trainer::kTokenize,
                                     Trainer::kPlan};
  return kAll;
}

absl::string_view TrainerName(Trainer trainer) {
  switch (trainer) {
    case Trainer::kPretrain:
      return "pretrain";
    case Trainer::kEvaluate:
      return "evaluate";
    case Trainer::kGenerate:
      return "generate";
    case Trainer::kParity:
      return "parity";
    case Trainer::kConvert:
      return "convert";
    case Trainer::kTokenize:
      return "tokenize";
    case Trainer::kPlan:
      return "plan";
  }
  CHECK(false) << "no such trainer";
  return "";
}

absl::string_view Key::section() const {
  const absl::string_view all = name;
  return all.substr(0, all.find('.'));
}

absl::string_view Key::key() const {
  const absl::string_view all = name;
  return all.substr(all.find('.') + 1);
}

const Key* FindKey(absl::string_view name) {
  for (const Key& key : Keys()) {
    if (name == key.name) return &key;
  }
  return nullptr;
}

const Key* FindFlag(absl::string_view flag) {
  for (const Key& key : Keys()) {
    if (key.flag[0] != '\0' && flag == key.flag) return &key;
  }
  return nullptr;
}

std::string NearestKey(absl::string_view section, absl::string_view key) {
  std::vector<std::string> homes;
  const Key* nearest = nullptr;
  size_t least = 0;
  for (const Key& candidate : Keys()) {
    if (candidate.key() == key) homes.push_back(absl::StrCat("[", candidate.section(), "]"));
    // A wrong section costs one edit, however long its name: the key's own letters say more.
    const size_t distance =
        2 * EditDistance(key, candidate.key()) + (section == candidate.section() ? 0 : 1);
    if (nearest == nullptr || distance < least) {
      nearest = &candidate;
      least = distance;
    }
  }
  if (!homes.empty()) return absl::StrCat("it belongs to ", absl::StrJoin(homes, " or "));
  if (NearestName(key, {std::string(nearest->key())}).empty()) return "--help lists all keys";
  return absl::StrCat("did you mean ", nearest->key(), " in [", nearest->section(), "]?");
}

std::string NearestFlag(Trainer trainer, absl::string_view flag) {
  std::vector<std::string> flags;
  for (const Key& key : Keys()) {
    if (key.flag[0] != '\0' && key.TakenBy(trainer)) flags.push_back(key.flag);
  }
  const std::string nearest = NearestName(flag, flags);
  if (nearest.empty()) return "--help lists all flags";
  return absl::StrCat("did you mean --", nearest, "?");
}

namespace {

bool PretrainOnly(const Key& key, absl::string_view choice) {
  const std::vector<absl::string_view> narrow = absl::StrSplit(key.pretrain_choices, '|');
  return !choice.empty() && std::find(narrow.begin(), narrow.end(), choice) != narrow.end();
}

}  // namespace

std::string TypeText(const Key& key, std::optional<Trainer> trainer) {
  if (key.choices[0] != '\0') {
    std::vector<std::string> choices;
    for (absl::string_view choice : absl::StrSplit(key.choices, '|')) {
      const bool narrow = PretrainOnly(key, choice);
      if (narrow && trainer && *trainer != Trainer::kPretrain) continue;
      choices.push_back(absl::StrCat(choice, narrow && !trainer ? " (pretrain only)" : ""));
    }
    return absl::StrCat("one of ", absl::StrJoin(choices, ", "));
  }
  if (key.size) return "a size in bytes";
  Options options;
  const Field field = key.field(options);
  if (std::holds_alternative<bool*>(field)) return "true or false";
  if (std::holds_alternative<int64_t*>(field)) return "an integer";
  if (std::holds_alternative<double*>(field)) return "a number";
  if (std::holds_alternative<std::string*>(field)) return "a text";
  return "a list of integers such as 5,6,7";
}

std::string RangeText(const Key& key) {
  Options options;
  const Field field = key.field(options);
  if (std::holds_alternative<bool*>(field) || std::holds_alternative<std::string*>(field)) {
    return "";
  }
  const bool whole = !std::holds_alternative<double*>(field);
  const auto number = [&](double value) {
    return whole ? absl::StrCat(static_cast<int64_t>(value)) : FloatText(value);
  };
  if (key.range.open) return absl::StrCat("above ", number(key.range.low));
  const std::string low = absl::StrCat("at least ", number(key.range.low));
  if (key.range.high >= 1e15) return low;
  return absl::StrCat(low, " and at most ", number(key.range.high));
}

std::string ValueText(const Key& key, const Options& options) {
  const Field field = FieldOf(key, options);
  if (const auto* p = std::get_if<bool*>(&field)) return **p ? "true" : "false";
  if (const auto* p = std::get_if<int64_t*>(&field)) {
    return key.size ? SizeText(**p) : absl::StrCat(**p);
  }
  if (const auto* p = std::get_if<double*>(&field)) return FloatText(**p);
  if (const auto* p = std::get_if<std::string*>(&field)) return **p;
  return absl::StrJoin(*std::get<std::vector<int64_t>*>(field), ",");
}

std::string TomlValue(const Key& key, const Options& options) {
  const Field field = FieldOf(key, options);
  const std::string text = ValueText(key, options);
  if (std::holds_alternative<std::vector<int64_t>*>(field)) return absl::StrCat("[", text, "]");
  if (std::holds_alternative<std::string*>(field)) return Quoted(text);
  if (key.size && !absl::ascii_isdigit(text.back())) return Quoted(text);
  return text;
}

absl::Status CheckRange(const Key& key, const Options& options) {
  const Field field = FieldOf(key, options);
  if (const auto* p = std::get_if<int64_t*>(&field)) {
    return CheckNumber(key, static_cast<double>(**p));
  }
  if (const auto* p = std::get_if<double*>(&field)) return CheckNumber(key, **p);
  if (const auto* p = std::get_if<std::vector<int64_t>*>(&field)) {
    for (const int64_t value : **p) {
      RETURN_IF_ERROR(CheckNumber(key, static_cast<double>(value)));
    }
  }
  if (const auto* p = std::get_if<std::string*>(&field); p && key.choices[0] != '\0') {
    const std::vector<std::string> choices = absl::StrSplit(key.choices, '|');
    // Where the default is no choice at all, empty means "not given".
    const bool not_given = (*p)->empty() && ValueText(key, Options()).empty();
    if (!not_given && std::find(choices.begin(), choices.end(), **p) == choices.end()) {
      return absl::InvalidArgumentError(absl::StrCat("'", **p, "' is not ", TypeText(key)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckChoice(const Key& key, Trainer trainer, const Options& options) {
  const std::string value = ValueText(key, options);
  const bool trains = trainer == Trainer::kPretrain || trainer == Trainer::kPlan;
  if (trains || !PretrainOnly(key, value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", value, "' is for pretrain alone; ",
                                                 TrainerName(trainer), " takes ",
                                                 TypeText(key, trainer)));
}

absl::Status SetFromText(const Key& key, absl::string_view text, Options* options) {
  Options changed = *options;
  RETURN_IF_ERROR(std::visit(Parser{key, text}, key.field(changed)));
  RETURN_IF_ERROR(CheckRange(key, changed));
  *options = std::move(changed);
  return absl::OkStatus();
}

bool Applies(const Key& key, const Options& options) { return WhyNotApplied(key, options).empty(); }

std::string WhyNotApplied(const Key& key, const Options& options) {
  for (const Comparison& comparison : ParseCondition(key.only_with)) {
    if (Holds(comparison, options)) continue;
    const std::string value = ValueText(*comparison.key, options);
    const std::string text =
        absl::StrCat(comparison.key->name, value.empty() ? " is not given" : " is ", value);
    if (!comparison.axis) return text;
    return absl::StrCat(text, ", without an axis ", absl::StrJoin(comparison.values, " or "),
                        " of 2 or more");
  }
  return "";
}

}  // namespace colossus
