// ReadRope and WriteRope of config_common.h.
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "shardformer/config_common.h"
#include "shardformer/rope.h"
#include "tensor/io/json.h"

namespace colossus {
namespace {

constexpr char kOriginal[] = "original_max_position_embeddings";
constexpr ConfigReader::NumberRange kPositive = {1e-9, 1e15};

// The settings in force, from whichever of the two objects there is; null: none. Both spellings of
// the type become rope_type.
nlohmann::json MergedSettings(ConfigReader& in) {
  nlohmann::json merged = nlohmann::json::object();
  for (const char* place : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* object = in.ObjectOrNull({place});
    if (object == nullptr) continue;
    for (const auto& [key, value] : object->items()) {
      if (value.is_object()) {
        in.Fail(place,
                absl::StrFormat("differs by layer type (%s), which this family does not do", key));
        return nullptr;
      }
      const std::string name = key == "type" ? "rope_type" : key;
      if (merged.contains(name) && merged[name] != value) {
        in.Fail(place, absl::StrFormat("gives %s as %s, but also as %s; keep one", name,
                                       JsonExcerpt(value), JsonExcerpt(merged[name])));
        return nullptr;
      }
      merged[name] = value;
    }
  }
  return merged.empty() ? nlohmann::json() : merged;
}

RopeType ReadType(ConfigReader& rope) {
  if (!rope.Has("rope_type") && rope.Has("factor")) {
    rope.Fail("rope_type", "is missing beside a factor; name the type (linear, dynamic ...)");
    return RopeType::kDefault;
  }
  const absl::StatusOr<RopeType> type = ParseRopeType(rope.String({"rope_type"}, "default"));
  rope.Adopt("rope_type", type.status());
  return type.ok() ? *type : RopeType::kDefault;
}

void Require(ConfigReader& rope, RopeType type, ConfigReader::Keys keys) {
  for (const char* key : keys) {
    if (!rope.Has(key)) {
      rope.Fail(key, absl::StrFormat("is missing; rope type %s needs it", Name(type)));
    }
  }
}

// original_max_position_embeddings stands in the settings or, in some files, at top level.
void ReadOriginalPositions(ConfigReader& in, ConfigReader& rope, const ModelConfig& config,
                           RopeParameters& out) {
  const ConfigReader::IntRange range = {1, ConfigReader::kMaxPositions};
  const std::optional<int64_t> inside = rope.IntOrNull({kOriginal}, std::nullopt, range);
  const std::optional<int64_t> outside = in.IntOrNull({kOriginal}, std::nullopt, range);
  if (inside.has_value() && outside.has_value() && inside != outside) {
    in.Fail(kOriginal, absl::StrFormat("is %d at top level but %d in the rope settings; keep one",
                                       *outside, *inside));
  }
  if (!inside.has_value() && !outside.has_value() && out.type == RopeType::kLlama3) {
    rope.Fail(kOriginal, "is missing; rope type llama3 needs it");
  }
  out.original_max_positions =
      inside.has_value() ? *inside : outside.value_or(config.max_positions);
}

void ReadFactor(ConfigReader& rope, const ModelConfig& config, RopeParameters& out) {
  Require(rope, out.type, {"factor"});
  if (out.type == RopeType::kYarn && rope.IsNull("factor")) {
    out.factor = static_cast<double>(config.max_positions) / out.original_max_positions;
  } else {
    out.factor = rope.Number({"factor"}, 1, kPositive);
  }
}

void ReadScaling(ConfigReader& in, ConfigReader& rope, const ModelConfig& config,
                 RopeParameters& out) {
  out.type = ReadType(rope);
  if (out.type == RopeType::kDefault) return;
  if (out.type == RopeType::kLlama3 || out.type == RopeType::kYarn) {
    ReadOriginalPositions(in, rope, config, out);
    if (!in.status().ok()) return;
  }
  ReadFactor(rope, config, out);
  if (out.type == RopeType::kLlama3) {
    Require(rope, out.type, {"low_freq_factor", "high_freq_factor"});
    out.low_freq_factor = rope.Number({"low_freq_factor"}, 1, kPositive);
    out.high_freq_factor = rope.Number({"high_freq_factor"}, 4, kPositive);
  } else if (out.type == RopeType::kYarn) {
    const ConfigReader::NumberRange any = {-1e9, 1e9};
    out.attention_factor = rope.NumberOrNull({"attention_factor"}, std::nullopt, {0, 1e9});
    out.mscale = rope.NumberOrNull({"mscale"}, std::nullopt, any);
    out.mscale_all_dim = rope.NumberOrNull({"mscale_all_dim"}, std::nullopt, any);
    out.beta_fast = rope.NumberOrNull({"beta_fast"}, 32, kPositive).value_or(32);
    out.beta_slow = rope.NumberOrNull({"beta_slow"}, 1, kPositive).value_or(1);
    out.truncate = rope.Bool({"truncate"}, true);
  }
}

// Inside the settings, at top level, or the family's default.
void ReadTheta(ConfigReader& in, ConfigReader& rope, double theta_if_absent, ModelConfig& config,
               RopeParameters& out) {
  std::string origin = "default of " + config.family;
  out.theta = theta_if_absent;
  if (rope.Has("rope_theta")) {
    out.theta = rope.Number({"rope_theta"}, theta_if_absent, kPositive);
    origin = "read from the rope settings";
  } else if (in.Has("rope_theta")) {
    out.theta = in.Number({"rope_theta"}, theta_if_absent, kPositive);
    origin = "read from the top level";
  }
  out.theta_was_read = rope.Has("rope_theta") || in.Has("rope_theta");
  config.notes.push_back(
      absl::StrFormat("rope_theta %g (%s), type %s", out.theta, origin, Name(out.type)));
}

}  // namespace

void ReadRope(ConfigReader& in, double theta_if_absent, ModelConfig& config) {
  const nlohmann::json settings = MergedSettings(in);
  if (!in.status().ok()) return;
  const nlohmann::json none = nlohmann::json::object();
  const bool has_parameters = in.Has("rope_parameters") && !in.IsNull("rope_parameters");
  ConfigReader rope(settings.is_null() ? none : settings, in.file_name(),
                    has_parameters ? "rope_parameters." : "rope_scaling.");
  RopeParameters out;
  ReadScaling(in, rope, config, out);
  ReadTheta(in, rope, theta_if_absent, config, out);
  for (ConfigReader* place : {&rope, &in}) {
    if (place->Number({"partial_rotary_factor"}, 1, {0, 1}) != 1) {
      place->Fail(
          "partial_rotary_factor",
          absl::StrFormat("other than 1 is not supported: %s turns whole heads", config.family));
    }
  }
  in.AdoptStatus(rope.status());
  if (!in.status().ok()) return;
  config.rope = out;
  const auto frequencies =
      ComputeRopeFrequencies(out, config.head_dim, config.max_positions, config.max_positions);
  in.Adopt(has_parameters ? "rope_parameters" : "rope_scaling", frequencies.status());
}

void WriteRope(const RopeParameters& rope, nlohmann::json& json) {
  json["rope_theta"] = rope.theta;
  json["rope_scaling"] = nullptr;
  if (rope.type == RopeType::kDefault) return;
  const absl::string_view type = Name(rope.type);
  nlohmann::json scaling = {{"rope_type", std::string(type.data(), type.size())},
                            {"factor", rope.factor}};
  if (rope.type == RopeType::kLlama3) {
    scaling["low_freq_factor"] = rope.low_freq_factor;
    scaling["high_freq_factor"] = rope.high_freq_factor;
    scaling[kOriginal] = rope.original_max_positions;
  } else if (rope.type == RopeType::kYarn) {
    scaling[kOriginal] = rope.original_max_positions;
    scaling["beta_fast"] = rope.beta_fast;
    scaling["beta_slow"] = rope.beta_slow;
    if (!rope.truncate) scaling["truncate"] = false;
    if (rope.attention_factor) scaling["attention_factor"] = *rope.attention_factor;
    if (rope.mscale) scaling["mscale"] = *rope.mscale;
    if (rope.mscale_all_dim) scaling["mscale_all_dim"] = *rope.mscale_all_dim;
  }
  json["rope_scaling"] = scaling;
}

}  // namespace colossus
