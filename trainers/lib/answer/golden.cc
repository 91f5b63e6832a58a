#include "trainers/lib/answer/golden.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/io/json.h"

namespace colossus {
namespace {

// The number at `keys`, one inside the other ("betas", "1": an array's element).
absl::Status ReadNumber(const nlohmann::json& root, std::initializer_list<const char*> keys,
                        const std::string& path, double* out) {
  const nlohmann::json* at = &root;
  std::string where;
  for (const char* key : keys) {
    absl::StrAppend(&where, where.empty() ? "" : ".", key);
    const bool index = at->is_array() && key[0] >= '0' && key[0] <= '9' && key[1] == '\0';
    if (index && at->size() > static_cast<size_t>(key[0] - '0')) {
      at = &(*at)[static_cast<size_t>(key[0] - '0')];
    } else if (at->is_object() && at->contains(key)) {
      at = &(*at)[key];
    } else {
      return absl::InvalidArgumentError(absl::StrCat(path, ": '", where, "' is missing"));
    }
  }
  if (!at->is_number()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": '", where, "' is not a number"));
  }
  *out = at->get<double>();
  return absl::OkStatus();
}

std::set<std::string> ReadNames(const nlohmann::json& root, const char* key) {
  std::set<std::string> names;
  if (!root.is_object() || !root.contains(key) || !root[key].is_array()) return names;
  for (const nlohmann::json& name : root[key]) {
    if (name.is_string()) names.insert(name.get<std::string>());
  }
  return names;
}

}  // namespace

absl::StatusOr<Golden> Golden::Open(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(files, path));
  Golden golden(std::move(file));
  const std::string json_path = JoinPath(DirName(path), "golden.json");
  ASSIGN_OR_RETURN(nlohmann::json json, ReadJsonFile(files, json_path));
  struct Row {
    std::initializer_list<const char*> keys;
    double* out;
  };
  GoldenLimits& limits = golden.limits_;
  const Row rows[] = {
      {{"suggested_fp32", "out_rel_to_max"}, &limits.output},
      {{"suggested_fp32", "grad_rel_l2"}, &limits.gradient_l2},
      {{"suggested_fp32", "grad_each_rel_to_tensor_max"}, &limits.gradient_each},
      {{"suggested_fp32", "grad_abs_floor"}, &limits.gradient_floor},
      {{"suggested_fp32", "loss_abs"}, &limits.loss},
      {{"suggested_fp32", "final_abs"}, &limits.final_abs},
      {{"suggested_fp32", "final_share_allowed_over"}, &limits.final_share_over},
      {{"adamw", "lr"}, &golden.learning_rate},
      {{"adamw", "betas", "0"}, &golden.beta1},
      {{"adamw", "betas", "1"}, &golden.beta2},
      {{"adamw", "eps"}, &golden.epsilon},
      {{"adamw", "weight_decay"}, &golden.weight_decay},
  };
  for (const Row& row : rows) RETURN_IF_ERROR(ReadNumber(json, row.keys, json_path, row.out));
  golden.noise = ReadNames(json, "gradient_zero_in_exact_arithmetic");
  golden.frozen = ReadNames(json, "frozen");
  return golden;
}

absl::StatusOr<HostTensor> Golden::Read(absl::string_view name, DType dtype) const {
  const SafetensorsEntry* entry = file_.Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat(file_.path(), ": no tensor '", name, "'"));
  }
  HostTensor values(Type{dtype, Dims(entry->dims.begin(), entry->dims.end())});
  RETURN_IF_ERROR(file_.CopyTo(name, dtype, values.raw()));
  return values;
}

}  // namespace colossus
