#include "trainers/lib/config/help.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/config/presets.h"

namespace colossus {
namespace {

constexpr size_t kColumns = 100;
constexpr char kIndent[] = "      ";

absl::string_view Job(Trainer trainer) {
  switch (trainer) {
    case Trainer::kPretrain:
      return "trains a model from a preset or a directory";
    case Trainer::kEvaluate:
      return "computes the loss of a model on a text";
    case Trainer::kGenerate:
      return "continues a prompt";
    case Trainer::kParity:
      return "compares a model with stored reference values";
    case Trainer::kConvert:
      return "writes any checkpoint as a Hugging Face directory";
    case Trainer::kTokenize:
      return "turns lines {\"text\": ...} into {\"ids\": [...], \"decoded\": ...}, or into a token "
             "file";
    case Trainer::kPlan:
      return "says whether a training run fits and what it would move, without taking its memory;\n"
             "takes the keys of pretrain too, and leaves out those that change nothing here";
  }
  return "";
}

// `text` behind `head`, in lines of which all but the first are indented.
std::string Wrapped(std::string head, absl::string_view text) {
  std::string out;
  std::string line = std::move(head);
  bool fresh = true;  // no word in the line
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!fresh && line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, line, "\n");
      line = kIndent;
      fresh = true;
    }
    absl::StrAppend(&line, fresh ? "" : " ", word);
    fresh = false;
  }
  return absl::StrCat(out, line, "\n");
}

std::string DefaultText(Trainer trainer, const Key& key) {
  for (const PresetValue& value : TrainerDefaults(trainer)) {
    if (absl::string_view(value.key) == key.name) return value.text;
  }
  return ValueText(key, Options());
}

// "an integer, at least 1".
std::string Accepts(const Key& key, std::optional<Trainer> trainer = std::nullopt) {
  const std::string type = TypeText(key, trainer), range = RangeText(key);
  return range.empty() ? type : absl::StrCat(type, ", ", range);
}

// "only with optimizer.name = sgd", or "". What a trainer cannot be given is no condition there.
std::string OnlyWith(const Key& key, std::optional<Trainer> trainer = std::nullopt) {
  if (key.only_with[0] == '\0') return "";
  std::vector<std::string> parts;
  for (absl::string_view part : absl::StrSplit(key.only_with, " & ")) {
    const size_t sign = part.find_first_of("=~");
    const bool negated = part[sign - 1] == '!';
    const absl::string_view name = part.substr(0, sign - (negated ? 1 : 0));
    const std::string value = absl::StrReplaceAll(part.substr(sign + 1), {{"|", " or "}});
    if (trainer && !FindKey(name)->TakenBy(*trainer)) continue;
    if (part[sign] == '~') {
      parts.push_back(absl::StrCat(value, negated ? " not above 1 in " : " above 1 in ", name));
    } else if (value.empty()) {
      parts.push_back(absl::StrCat(name, negated ? " given" : " not given"));
    } else {
      parts.push_back(absl::StrCat(name, negated ? " other than " : " = ", value));
    }
  }
  return parts.empty() ? "" : absl::StrCat("only with ", absl::StrJoin(parts, " and "));
}

std::string TrainerNames(const Key& key) {
  std::vector<absl::string_view> names;
  for (const Trainer trainer : AllTrainers()) {
    if (key.TakenBy(trainer)) names.push_back(TrainerName(trainer));
  }
  return absl::StrJoin(names, ", ");
}

constexpr char kPageHead[] =
    R"(# Configuration

Generated from the table in `trainers/lib/config/schema_table.cc` by
`bazel run //trainers/lib/config:write_configuration_page`; a test compares the two.

A value comes from the highest layer that gives it: default, then preset, then the TOML files of
`--config=FILE`, then flags. `--set section.key=value` is a flag for any key. Refused, with exit
status 2 and before anything is read: a key given twice in one layer, an unknown key (the message
names the nearest one), a wrong type or range, and a key that has no effect in this run. The section
`[extra]` of a file is free for notes. Paths are relative to the current folder. Sizes are bytes or
have a unit, 6GB (1e9) or 6GiB (2^30); in a file such a size is quoted. `//trainers:plan` takes the
keys of pretrain too and leaves out those that change nothing it says.

```toml
[model]
preset = "gpt2-tiny"
[optimizer]
learning_rate = 1e-3
[extra]
why = "first try"
```
)";

}  // namespace

std::string HelpText(Trainer trainer) {
  std::string text = absl::StrCat(TrainerName(trainer), ": ", Job(trainer), "\n\n",
                                  "  --help\n      Print this.\n"
                                  "  --config=FILE\n      TOML file with keys by section.\n"
                                  "  --set section.key=value\n      Set any key.\n");
  absl::string_view section;
  for (const Key& key : Keys()) {
    if (!key.TakenBy(trainer)) continue;
    if (key.section() != section) {
      section = key.section();
      absl::StrAppend(&text, "\n[", section, "]\n");
    }
    const std::string name =
        key.flag[0] == '\0' ? absl::StrCat("--set ", key.name) : absl::StrCat("--", key.flag);
    const std::string value = DefaultText(trainer, key);
    absl::StrAppend(&text, Wrapped(absl::StrCat("  ", name, "  ("),
                                   absl::StrCat(key.name, "; ", Accepts(key, trainer),
                                                value.empty() ? "" : "; default ", value, ")")));
    const std::string only = OnlyWith(key, trainer);
    absl::StrAppend(&text, Wrapped(kIndent, absl::StrCat(key.text,
                                                         only.empty() ? "" : " Has an effect ",
                                                         only, only.empty() ? "" : ".")));
  }
  return text;
}

std::string ConfigurationPage() {
  std::string text = kPageHead;
  absl::string_view section;
  for (const Key& key : Keys()) {
    if (key.section() != section) {
      section = key.section();
      absl::StrAppend(&text, "\n## [", section, "]\n\n",
                      "| key | flag | value | default | meaning | changes | trainers |\n",
                      "| --- | --- | --- | --- | --- | --- | --- |\n");
    }
    const std::string only = OnlyWith(key);
    const std::string value = ValueText(key, Options());
    const std::string flag = key.flag[0] == '\0' ? "" : absl::StrCat("`--", key.flag, "`");
    absl::StrAppend(&text, "| `", key.key(), "` | ", flag, " | ", Accepts(key), " | ",
                    value.empty() ? "" : absl::StrCat("`", value, "`"), " | ", key.text,
                    only.empty() ? "" : absl::StrCat(" Has an effect ", only, "."), " | ",
                    key.changes, " | ", TrainerNames(key), " |\n");
  }
  absl::StrAppend(&text,
                  "\n## Presets\n\n`--preset=NAME` chooses the shape of the model and sets:\n\n"
                  "| preset | values |\n| --- | --- |\n");
  for (absl::string_view preset : absl::StrSplit(FindKey("model.preset")->choices, '|')) {
    std::vector<std::string> values;
    for (const PresetValue& value : PresetValues(preset)) {
      values.push_back(absl::StrCat("`", value.key, " = ", value.text, "`"));
    }
    absl::StrAppend(&text, "| ", preset, " | ", absl::StrJoin(values, ", "), " |\n");
  }
  return text;
}

}  // namespace colossus
