#include "shardformer/model_directory.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "shardformer/initialize.h"
#include "shardformer/model.h"
#include "shardformer/weight_names.h"

namespace colossus {
namespace {

// The pair that may be tied, by core name: every family calls its head so.
constexpr absl::string_view kHead = "lm_head.weight";

std::vector<std::string> NamesOf(const std::vector<StateInfo>& parameters) {
  std::vector<std::string> names;
  for (const StateInfo& info : parameters) names.push_back(info.name);
  return names;
}

// "h.3." of "transformer.h.3.ln_1.weight"; empty for a tensor outside of layers.
std::string LayerOf(absl::string_view name) {
  const absl::string_view core = CoreName(name);
  const size_t start = absl::StartsWith(core, "layers.") ? 7 : absl::StartsWith(core, "h.") ? 2 : 0;
  if (start == 0) return "";
  return std::string(core.substr(0, core.find('.', start)));
}

std::string List(const std::vector<std::string>& names) {
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

}  // namespace

absl::StatusOr<ModelDirectory> ModelDirectory::Open(FileSystem& files, const std::string& path,
                                                    const ModelDirectoryOptions& options) {
  const std::string config_file =
      options.config_file.empty() ? JoinPath(path, "config.json") : options.config_file;
  ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(files, config_file));
  ASSIGN_OR_RETURN(SafetensorsSet weights, SafetensorsSet::Open(files, path));
  ModelDirectory model(std::move(config), std::move(weights));
  model.seed_ = options.seed;
  RETURN_IF_ERROR(Annotate(model.Match(options), path));
  RETURN_IF_ERROR(Annotate(model.CheckShapes(), path));
  return model;
}

// A tied model whose files hold two different tensors is untied by them; one whose files hold only
// the head is tied the other way round.
absl::Status ModelDirectory::ResolveTying(bool require_tied) {
  if (!config_.tie_word_embeddings) return absl::OkStatus();
  const std::string& table = parameters_[0].name;  // the first use of all is the embedding
  std::string head;
  for (const std::string& name : weights_.names()) {
    if (CoreName(name) == kHead) head = name;
  }
  if (head.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(NameMatch match, MatchNames({table}, weights_.names()));
  if (!match.missing.empty()) {
    source_[table] = head;
    notes_.push_back(absl::StrCat("tied: '", table, "' is read from '", head, "'"));
    return absl::OkStatus();
  }
  const std::string& file_table = match.source[table];
  const SafetensorsEntry *a = weights_.Find(file_table), *b = weights_.Find(head);
  ASSIGN_OR_RETURN(std::span<const char> a_bytes, weights_.data(file_table));
  ASSIGN_OR_RETURN(std::span<const char> b_bytes, weights_.data(head));
  const bool equal = a->type_name == b->type_name && a_bytes.size() == b_bytes.size() &&
                     std::memcmp(a_bytes.data(), b_bytes.data(), a_bytes.size()) == 0;
  if (equal) return absl::OkStatus();
  if (require_tied) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a tied head was asked for (model.require_tied), but '", file_table, "' and '", head,
        "' differ: leave that out to load them untied, or give other weights"));
  }
  config_.tie_word_embeddings = false;
  notes_.push_back(absl::StrCat("warning: the config ties the head, but '", file_table, "' and '",
                                head, "' differ: loaded untied"));
  return absl::OkStatus();
}

absl::Status ModelDirectory::Match(const ModelDirectoryOptions& options) {
  ASSIGN_OR_RETURN(parameters_, ModelParameters(config_));
  RETURN_IF_ERROR(ResolveTying(options.require_tied));
  ASSIGN_OR_RETURN(parameters_, ModelParameters(config_));
  ASSIGN_OR_RETURN(NameMatch match, MatchNames(NamesOf(parameters_), weights_.names()));
  std::vector<std::string> missing;
  for (const std::string& name : match.missing) {
    if (!source_.contains(name)) missing.push_back(name);
  }
  source_.merge(match.source);
  std::vector<std::string> unexpected;
  for (const std::string& name : match.unexpected) {
    if (config_.tie_word_embeddings && CoreName(name) == kHead) continue;
    unexpected.push_back(name);
  }
  // Heads of other tasks and buffers may be left out, layers may not.
  std::set<std::string> layers = {""};
  for (const StateInfo& info : parameters_) layers.insert(LayerOf(info.name));
  const bool more_layers =
      std::any_of(unexpected.begin(), unexpected.end(),
                  [&](const std::string& name) { return !layers.contains(LayerOf(name)); });
  if ((!missing.empty() || more_layers) && !options.initialize_missing) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weights do not fit the config. Missing: ", List(missing), ". Unexpected: ",
        List(unexpected), "."));
  }
  if (!missing.empty()) {
    notes_.push_back(absl::StrCat("missing tensors start at random: ", List(missing)));
  }
  if (!unexpected.empty()) {
    notes_.push_back(
        absl::StrCat("warning: tensors the config has no place for are ignored: ",
                     List(unexpected)));
  }
  return absl::OkStatus();
}

absl::Status ModelDirectory::CheckShapes() const {
  for (const StateInfo& info : parameters_) {
    auto source = source_.find(info.name);
    if (source == source_.end()) continue;
    const SafetensorsEntry* entry = weights_.Find(source->second);
    if (!std::equal(entry->dims.begin(), entry->dims.end(), info.disk_dims.begin(),
                    info.disk_dims.end())) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", source->second, "' has shape ", DimsToString(entry->dims),
                       ", the config says ", DimsToString(info.disk_dims)));
    }
    if (!entry->dtype.has_value() || !IsFloat(*entry->dtype)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", source->second, "' is stored as ",
                                                     entry->type_name, ", not as a float type"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<HostTensor> ModelDirectory::Read(const StateInfo& parameter, DType dtype) const {
  auto source = source_.find(parameter.name);
  if (source == source_.end()) return InitialValue(parameter, dtype, seed_);
  HostTensor values(Type{dtype, parameter.global_dims});
  RETURN_IF_ERROR(weights_.CopyTo(source->second, dtype, values.raw()));
  return values;
}

}  // namespace colossus
