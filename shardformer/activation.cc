#include "shardformer/activation.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/nearest_name.h"

namespace colossus {
namespace {

struct Row {
  absl::string_view name;
  Activation activation;
};

// The first row of an activation is the name that is written.
constexpr Row kRows[] = {
    {"gelu", Activation::kGelu},
    {"gelu_python", Activation::kGelu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_python_tanh", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_accurate", Activation::kGeluTanh},
    {"quick_gelu", Activation::kQuickGelu},
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"relu", Activation::kRelu},
};

}  // namespace

absl::StatusOr<Activation> ParseActivation(absl::string_view name) {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    if (row.name == name) return row.activation;
    names.push_back(std::string(row.name));
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("the activation \"%s\" is not supported; supported: %s%s", name,
                      absl::StrJoin(names, ", "), NearestNameHint(name, names)));
}

absl::string_view Name(Activation activation) {
  for (const Row& row : kRows) {
    if (row.activation == activation) return row.name;
  }
  CHECK(false) << "no such activation: " << static_cast<int>(activation);
  return "";
}

}  // namespace colossus
