// The pointwise functions inside a block's MLP, by the names that config.json files use for them.
//
// Thread-safe: values and pure functions only.
#ifndef COLOSSUS_SHARDFORMER_ACTIVATION_H_
#define COLOSSUS_SHARDFORMER_ACTIVATION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colossus {

enum class Activation {
  kGelu,       // x Phi(x), by erf
  kGeluTanh,   // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kQuickGelu,  // x sigmoid(1.702 x)
  kSilu,       // x sigmoid(x)
  kRelu,       // max(x, 0)
};

// The function a config.json means by `name`: gelu and gelu_python; gelu_new, gelu_pytorch_tanh,
// gelu_python_tanh, gelu_fast and gelu_accurate, all the tanh form; quick_gelu; silu and swish;
// relu. InvalidArgument, listing the names and the nearest one, for others.
// A family in which a name means something else (Gemma's gelu is the tanh form) sees to it itself.
absl::StatusOr<Activation> ParseActivation(absl::string_view name);

// The name to write: "gelu", "gelu_new", "quick_gelu", "silu", "relu".
absl::string_view Name(Activation activation);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_ACTIVATION_H_
