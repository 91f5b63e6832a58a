#include "parallel/plan_toml.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "parallel/mesh_text.h"

namespace colossus {
namespace {

// As for configurations: the parser's tables end recursively.
constexpr size_t kMostBytes = 128 << 10;
constexpr int kMostRanks = 1 << 20;
constexpr int64_t kMostChunks = 1 << 10;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// ---- names

struct PrecisionName {
  const char* name;
  DType dtype;
};
constexpr PrecisionName kPrecisions[] = {
    {"fp32", DType::kF32}, {"bf16", DType::kBF16}, {"fp16", DType::kF16}, {"fp64", DType::kF64}};

bool ParseName(absl::string_view text, DType* dtype) {
  for (const PrecisionName& precision : kPrecisions) {
    if (text == precision.name) {
      *dtype = precision.dtype;
      return true;
    }
  }
  return false;
}

constexpr absl::string_view kNoPlacement = "none";

absl::string_view Name(const std::optional<PlacementPolicy>& placement) {
  return placement ? Name(*placement) : kNoPlacement;
}
bool ParseName(absl::string_view text, std::optional<PlacementPolicy>* value) {
  *value = std::nullopt;
  if (text == kNoPlacement) return true;
  const absl::StatusOr<PlacementPolicy> policy = ParsePlacementPolicy(text);
  if (policy.ok()) *value = *policy;
  return policy.ok();
}

// ---- ranks: "0-3,8"

std::string RanksText(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    runs.push_back(end == begin + 1 ? absl::StrCat(ranks[begin])
                                    : absl::StrCat(ranks[begin], "-", ranks[end - 1]));
    begin = end;
  }
  return absl::StrJoin(runs, ",");
}

std::optional<std::vector<int>> ParseRanks(absl::string_view text) {
  std::vector<int> ranks;
  for (const absl::string_view run : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(run, '-');
    int first, last;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends[0], &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 || last < first || last >= kMostRanks) {
      return std::nullopt;
    }
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
    if (ranks.size() > static_cast<size_t>(kMostRanks)) return std::nullopt;
  }
  return ranks;
}

// ---- printing

std::string Quoted(absl::string_view text) {
  std::ostringstream out;  // the library knows what must be escaped
  out << toml::value<std::string>(std::string(text));
  return out.str();
}

std::string TextsText(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(Quoted(text));
  return absl::StrCat("[", absl::StrJoin(quoted, ", "), "]");
}

std::string DimsText(const std::vector<AxisNames>& dims) {
  std::vector<std::string> parts;
  for (const AxisNames& axes : dims) parts.push_back(TextsText(axes));
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

// ---- parsing

class PlanReader {
 public:
  PlanReader(absl::string_view name, std::map<std::string, int>* lines)
      : name_(name), lines_(lines) {}

  absl::StatusOr<Plan> Read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      line_ = static_cast<int>(key.source().begin.line);
      const absl::string_view section = View(key.str());
      if (section == "plan" && node.is_table()) {
        RETURN_IF_ERROR(ReadKeys(*node.as_table(), PlanKeys()));
      } else if (section == "stage" && node.is_array_of_tables()) {
        RETURN_IF_ERROR(ReadStages(*node.as_array()));
      } else if (section == "override" && node.is_array_of_tables()) {
        RETURN_IF_ERROR(ReadOverrides(*node.as_array()));
      } else {
        const std::vector<std::string> parts = {"plan", "stage", "override"};
        const bool part = std::find(parts.begin(), parts.end(), section) != parts.end();
        return Fault(absl::StrCat("'", section, "' is no part of a plan",
                                  part ? "" : NearestNameHint(section, parts),
                                  "; its parts are [plan], [[stage]] and [[override]]"));
      }
    }
    return std::move(plan_);
  }

 private:
  using Setter = std::function<bool(const toml::node&)>;
  struct KeyReader {
    const char* name;
    const char* type;
    Setter set;
  };

  absl::Status Fault(absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", line_, ": ", why));
  }

  void Note(absl::string_view key) {
    if (lines_ != nullptr) lines_->emplace(std::string(key), line_);
  }

  absl::Status ReadKeys(const toml::table& table, const std::vector<KeyReader>& keys) {
    for (const auto& [key, node] : table) {
      line_ = static_cast<int>(key.source().begin.line);
      const absl::string_view name = View(key.str());
      std::vector<std::string> names;
      const KeyReader* reader = nullptr;
      for (const KeyReader& candidate : keys) {
        names.push_back(candidate.name);
        if (name == candidate.name) reader = &candidate;
      }
      if (reader == nullptr) {
        return Fault(absl::StrCat("unknown key '", name, "'", NearestNameHint(name, names),
                                  "; there are ", absl::StrJoin(names, ", ")));
      }
      if (!reader->set(node)) {
        return Fault(absl::StrCat(name, " must be ", reader->type));
      }
      Note(name);
    }
    return absl::OkStatus();
  }

  static Setter Whole(int64_t* value) {
    return [value](const toml::node& node) {
      const auto number = node.value_exact<int64_t>();
      if (number) *value = *number;
      return number.has_value();
    };
  }
  static Setter Truth(bool* value) {
    return [value](const toml::node& node) {
      const auto truth = node.value_exact<bool>();
      if (truth) *value = *truth;
      return truth.has_value();
    };
  }
  static Setter Text(std::string* value) {
    return [value](const toml::node& node) {
      const auto text = node.value_exact<std::string>();
      if (text) *value = *text;
      return text.has_value();
    };
  }
  template <typename T>
  static Setter Named(T* value) {
    return [value](const toml::node& node) {
      const auto text = node.value_exact<std::string>();
      return text && ParseName(*text, value);
    };
  }

  std::vector<KeyReader> PlanKeys() {
    return {
        {"micro_batch", "an integer", Whole(&plan_.micro_batch)},
        {"micro_batches", "an integer", Whole(&plan_.micro_batches)},
        {"sequence_length", "an integer", Whole(&plan_.sequence_length)},
        {"compute", "one of fp32, bf16, fp16, fp64", Named(&plan_.precision.compute)},
        {"gradient", "one of fp32, bf16, fp16, fp64", Named(&plan_.precision.gradient)},
        {"recompute", "one of none, cheap, selective, block, optimal, auto",
         Named(&plan_.recomputation)},
        {"recompute_budget", "an integer", Whole(&plan_.recompute_budget_bytes)},
        {"packed", "true or false", Truth(&plan_.packed)},
        {"dropout", "true or false", Truth(&plan_.dropout)},
        {"zero", "an integer between 0 and 3",
         [this](const toml::node& node) {
           const auto stage = node.value_exact<int64_t>();
           if (!stage || *stage < 0 || *stage > 3) return false;
           plan_.zero = static_cast<int>(*stage);
           return true;
         }},
        {"chunk_elements", "an integer", Whole(&plan_.chunk_elements)},
        {"sequence", "one of ring, all_to_all", Named(&plan_.sequence)},
        {"tensor_layout", "one of 1d, 2d", Named(&plan_.tensor_layout)},
        {"norms", "one of auto, sharded, replicated", Named(&plan_.norms)},
        {"schedule", "a text", Text(&plan_.schedule)},
        {"chunks", "an integer of at least 0",
         [this](const toml::node& node) {
           const auto chunks = node.value_exact<int64_t>();
           if (!chunks || *chunks < 0 || *chunks > kMostChunks) return false;
           plan_.chunks = static_cast<int>(*chunks);
           return true;
         }},
        {"borders", "a list of blocks",
         [this](const toml::node& node) { return ReadTexts(node, &plan_.borders); }},
        {"accumulation_order", "one of auto, horizontal, vertical",
         Named(&plan_.accumulation_order)},
        {"update", "one of whole, layerwise", Named(&plan_.update)},
        {"placement", "one of none, auto, static, cpu", Named(&plan_.placement)},
    };
  }

  absl::Status ReadStages(const toml::array& stages) {
    Note("stage");
    plan_.stages.clear();
    for (const toml::node& node : stages) {
      StagePlan stage;
      std::string ranks = "0", mesh;
      RETURN_IF_ERROR(ReadKeys(
          *node.as_table(), {{"ranks", "a text", Text(&ranks)}, {"mesh", "a text", Text(&mesh)}}));
      const std::optional<std::vector<int>> numbers = ParseRanks(ranks);
      if (!numbers) {
        return Fault(absl::StrCat("ranks \"", ranks, "\" are no numbers as \"0-3,8\""));
      }
      stage.ranks = *numbers;
      absl::StatusOr<std::vector<MeshAxis>> axes = ParseMeshAxes(mesh);
      if (!axes.ok()) return Fault(absl::StrCat("mesh: ", axes.status().message()));
      stage.mesh = *std::move(axes);
      plan_.stages.push_back(std::move(stage));
    }
    return absl::OkStatus();
  }

  absl::Status ReadOverrides(const toml::array& overrides) {
    Note("override");
    for (const toml::node& node : overrides) {
      ShardingOverride entry;
      RETURN_IF_ERROR(
          ReadKeys(*node.as_table(),
                   {{"states", "a text", Text(&entry.pattern)},
                    {"dims", "a list with a list of axes for each dim",
                     [&](const toml::node& value) { return ReadDims(value, &entry.dims); }}}));
      plan_.overrides.push_back(std::move(entry));
    }
    return absl::OkStatus();
  }

  static bool ReadTexts(const toml::node& node, std::vector<std::string>* texts) {
    if (!node.is_array()) return false;
    for (const toml::node& item : *node.as_array()) {
      const auto text = item.value_exact<std::string>();
      if (!text) return false;
      texts->push_back(*text);
    }
    return true;
  }

  static bool ReadDims(const toml::node& node, std::vector<AxisNames>* dims) {
    if (!node.is_array()) return false;
    for (const toml::node& dim : *node.as_array()) {
      if (!ReadTexts(dim, &dims->emplace_back())) return false;
    }
    return true;
  }

  const std::string name_;
  std::map<std::string, int>* const lines_;
  int line_ = 0;  // of what is read
  Plan plan_;
};

}  // namespace

absl::string_view PrecisionText(DType dtype) {
  for (const PrecisionName& precision : kPrecisions) {
    if (precision.dtype == dtype) return precision.name;
  }
  return Name(dtype);
}

std::string PlanToml(const Plan& plan) {
  std::string text = absl::StrCat(
      "[plan]\nmicro_batch = ", plan.micro_batch, "\nmicro_batches = ", plan.micro_batches,
      "\nsequence_length = ", plan.sequence_length, "\ncompute = \"",
      PrecisionText(plan.precision.compute), "\"\ngradient = \"",
      PrecisionText(plan.precision.gradient), "\"\nrecompute = \"", Name(plan.recomputation),
      "\"\nrecompute_budget = ", plan.recompute_budget_bytes,
      "\npacked = ", plan.packed ? "true" : "false",
      "\ndropout = ", plan.dropout ? "true" : "false", "\nzero = ", plan.zero,
      "\nchunk_elements = ", plan.chunk_elements, "\nsequence = \"", Name(plan.sequence),
      "\"\ntensor_layout = \"", Name(plan.tensor_layout), "\"\nnorms = \"", Name(plan.norms),
      "\"\naccumulation_order = \"", Name(plan.accumulation_order), "\"\nupdate = \"",
      Name(plan.update), "\"\nplacement = \"",
      Name(plan.placement), "\"\n");
  if (plan.stages.size() > 1) {
    absl::StrAppend(&text, "schedule = ", Quoted(plan.schedule), "\nchunks = ", plan.chunks,
                    "\nborders = ", TextsText(plan.borders), "\n");
  }
  for (const StagePlan& stage : plan.stages) {
    absl::StrAppend(&text, "\n[[stage]]\nranks = \"", RanksText(stage.ranks), "\"\nmesh = \"",
                    MeshText(stage.mesh), "\"\n");
  }
  for (const ShardingOverride& entry : plan.overrides) {
    absl::StrAppend(&text, "\n[[override]]\nstates = ", Quoted(entry.pattern),
                    "\ndims = ", DimsText(entry.dims), "\n");
  }
  return text;
}

absl::StatusOr<Plan> ParsePlan(absl::string_view text, absl::string_view name,
                               std::map<std::string, int>* lines) {
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", text.size(), " bytes; a plan has at most ", kMostBytes));
  }
  const toml::parse_result parsed =
      toml::parse(std::string_view(text.data(), text.size()), std::string(name));
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", error.source().begin.line, ": ", View(error.description())));
  }
  return PlanReader(name, lines).Read(parsed.table());
}

}  // namespace colossus
