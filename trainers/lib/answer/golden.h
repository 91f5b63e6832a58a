// Golden: reference values of a model and the limits to hold against them.
//
// Purpose: reads golden.safetensors and the golden.json beside it: inputs, settings of the
// optimizer, limits, which tensors are only noise.
// Thread-safety: a plain value. Ownership: owns the mapped file.
//
//   ASSIGN_OR_RETURN(Golden golden, Golden::Open(files, "model/golden.safetensors"));
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_GOLDEN_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_GOLDEN_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "tensor/host_tensor.h"
#include "tensor/io/safetensors.h"

namespace colossus {

struct GoldenLimits {
  double output = 0;            // max abs error / max abs value of an output
  double gradient_l2 = 0;       // ‖error‖ / ‖value‖ over all gradients
  double gradient_each = 0;     // per tensor: max abs error / max abs value
  double gradient_floor = 0;    // absolute floor of the same
  double loss = 0;              // absolute
  double final_abs = 0;         // parameters after the steps, absolute
  double final_share_over = 0;  // share of elements that may exceed it
};

class Golden {
 public:
  static absl::StatusOr<Golden> Open(FileSystem& files, const std::string& path);

  const GoldenLimits& limits() const { return limits_; }
  double learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  // Tensors whose gradient is zero in exact arithmetic: they are not compared after a step.
  std::set<std::string> noise;
  std::set<std::string> frozen;  // parameters that the reference did not train

  const SafetensorsFile& file() const { return file_; }
  bool Has(absl::string_view name) const { return file_.Find(name) != nullptr; }
  // Converted to `dtype` (see SafetensorsFile::CopyTo).
  absl::StatusOr<HostTensor> Read(absl::string_view name, DType dtype) const;

 private:
  explicit Golden(SafetensorsFile file) : file_(std::move(file)) {}

  SafetensorsFile file_;
  GoldenLimits limits_;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_GOLDEN_H_
