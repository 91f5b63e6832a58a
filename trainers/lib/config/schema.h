// The one table of keys a trainer can be given. It drives the TOML file, the flags, --set, --help,
// docs/configuration.md and the printed effective config; nothing else names a key as text.
//
// Thread-safe: the table is constant. It lives as long as the program.
// To add a key: a member in options.h, a row in schema_table.cc, a row in the table test of the
// trainer that obeys it, and `bazel run //trainers/lib/config:write_configuration_page`.
//
//   const Key& key = *FindKey("optimizer.learning_rate");
//   RETURN_IF_ERROR(SetFromText(key, "1e-3", &options));
//   std::string text = ValueText(key, options);   // "0.001"
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_SCHEMA_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_SCHEMA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trainers/lib/config/options.h"

namespace colossus {

// The programs that read the table, as bits of Key::trainers.
enum class Trainer : uint32_t {
  kPretrain = 1,
  kEvaluate = 2,
  kGenerate = 4,
  kParity = 8,
  kConvert = 16,
  kTokenize = 32,
  kPlan = 64,
};
absl::Span<const Trainer> AllTrainers();
absl::string_view TrainerName(Trainer trainer);

// The member of Options that a key sets; its type is the key's type.
using Field = std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*>;

// Numbers a key accepts: [low, high], or (low, high) where `open`.
struct Range {
  double low = 0, high = 0;
  bool open = false;
};

struct Key {
  const char* name;            // "section.key"
  Field (*field)(Options&);    // the member it sets
  const char* flag = "";       // name after "--"; empty: only by --set
  uint32_t trainers = 0;       // which trainers take it
  Range range = {};            // for numbers
  const char* choices = "";    // "a|b"; for strings that are one of a few words
  const char* pretrain_choices = "";  // "a": those of them that only pretrain (and plan) takes
  bool size = false;           // bytes: "6GB", "6GiB" or a plain number
  const char* only_with = "";  // condition under which it has an effect, see Applies()
  const char* text;            // what it means, one sentence or two
  const char* changes;         // the observable it changes

  absl::string_view section() const;
  absl::string_view key() const;  // the part after the dot
  bool TakenBy(Trainer trainer) const { return (trainers & static_cast<uint32_t>(trainer)) != 0; }
  // A plan is of a training run: a key of pretrain that does not change it is checked and left out.
  bool LeftOutBy(Trainer trainer) const {
    return trainer == Trainer::kPlan && !TakenBy(trainer) && TakenBy(Trainer::kPretrain);
  }
};

// All keys, section by section, in the order in which help and documents list them.
absl::Span<const Key> Keys();

// The key of that "section.key" or of that flag (without "--"); null when there is none.
const Key* FindKey(absl::string_view name);
const Key* FindFlag(absl::string_view flag);

// A hint for a name that is no key: the section where a key of that name exists ("it belongs to
// [optimizer]"), else a near name ("did you mean ..."), else where all stand. Never empty.
std::string NearestKey(absl::string_view section, absl::string_view key);
std::string NearestFlag(Trainer trainer, absl::string_view flag);

// "integer", "number", "true or false", "text", "one of a, b", "list of integers", "size in bytes".
// Without a trainer all choices, each with who takes it.
std::string TypeText(const Key& key, std::optional<Trainer> trainer = std::nullopt);
// "at least 0", "between 0 and 1", "" where the type says it all.
std::string RangeText(const Key& key);

// The value of `key` in `options`, as a flag would take it. Numbers round trip exactly.
std::string ValueText(const Key& key, const Options& options);
// The same as a TOML value: strings quoted, lists in brackets, floats with a point.
std::string TomlValue(const Key& key, const Options& options);

// Parses `text` by the key's type and range and stores it. InvalidArgument names neither the key
// nor the place: the caller knows both and adds them. `options` is unchanged after an error.
absl::Status SetFromText(const Key& key, absl::string_view text, Options* options);
// Range and choice check of the value that stands in `options`.
absl::Status CheckRange(const Key& key, const Options& options);

// Whether `trainer` takes the choice that stands in `options`; ok for keys without choices.
absl::Status CheckChoice(const Key& key, Trainer trainer, const Options& options);

// Whether `key` has an effect with the other values of `options`. `only_with` is a conjunction
// ("a.b=x|y & c.d!=z & plan.mesh~axis") of comparisons with the text of other keys' values; ~: a
// mesh whose axis is more than one.
bool Applies(const Key& key, const Options& options);
// The first comparison that fails, for a message: "optimizer.name is adamw".
std::string WhyNotApplied(const Key& key, const Options& options);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_SCHEMA_H_
