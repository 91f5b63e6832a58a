// Optimizer updates: a launch per parameter.
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "tensor/kernels/cuda/launch.h"
#include "tensor/kernels/cuda/plans.h"
#include "tensor/kernels/functors/optimizer.h"
#include "tensor/ops/optimizer.h"

namespace colossus::cuda {
namespace {

const float* In(const KernelArgs& args, int i) {
  return static_cast<const float*>(args.operands[i]);
}
float* Out(const KernelArgs& args, int i) { return static_cast<float*>(args.results[i]); }

struct Parameter {
  int64_t elements = 0;
  float weight_decay = 0;
};

// `stride`: operands per parameter.
std::vector<Parameter> ParametersOf(const KernelRequest& request, int stride) {
  std::vector<Parameter> parameters;
  for (double decay : request.attributes->FloatList("weight_decay")) {
    const Type& master = request.operands[parameters.size() * static_cast<size_t>(stride)];
    parameters.push_back({master.elements(), static_cast<float>(decay)});
  }
  return parameters;
}

absl::Status CheckUpdate(const KernelRequest& request) {
  if (HasNarrowMoments(*request.attributes)) return Decline("moments in bf16");
  return CheckSmallFloats(request);
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanAdamw(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckUpdate(request));
  const Attributes& a = *request.attributes;
  const CallDTypes dtypes(request);
  AdamwElement element;
  element.beta1 = static_cast<float>(a.Float("beta1"));
  element.one_minus_beta1 = static_cast<float>(1 - a.Float("beta1"));
  element.beta2 = static_cast<float>(a.Float("beta2"));
  element.one_minus_beta2 = static_cast<float>(1 - a.Float("beta2"));
  element.epsilon = static_cast<float>(a.Float("epsilon"));
  const std::vector<Parameter> parameters = ParametersOf(request, 4);
  const int count = static_cast<int>(parameters.size());
  const int results = static_cast<int>(request.results.size()) / count;
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    AdamwElement f = element;
    f.learning_rate = In(args, 4 * count);
    f.grad_scale = In(args, 4 * count + 1);
    f.correction1 = In(args, 4 * count + 2);
    f.correction2 = In(args, 4 * count + 3);
    for (int p = 0; p < count; ++p) {
      const int x = 4 * p, y = results * p;
      f.weight_decay = parameters[p].weight_decay;
      f.master = In(args, x);
      f.grad = dtypes.x(args, x + 1);
      f.m = In(args, x + 2);
      f.v = In(args, x + 3);
      f.new_master = Out(args, y);
      f.new_m = Out(args, y + 1);
      f.new_v = Out(args, y + 2);
      f.copy = dtypes.y(args, results > 3 ? y + 3 : -1);
      ForEachUnit(args.stream, parameters[p].elements, f);
    }
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanSgd(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckUpdate(request));
  const CallDTypes dtypes(request);
  SgdElement element;
  element.momentum = static_cast<float>(request.attributes->Float("momentum"));
  const std::vector<Parameter> parameters = ParametersOf(request, 3);
  const int count = static_cast<int>(parameters.size());
  const int results = static_cast<int>(request.results.size()) / count;
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    SgdElement f = element;
    f.learning_rate = In(args, 3 * count);
    f.grad_scale = In(args, 3 * count + 1);
    for (int p = 0; p < count; ++p) {
      const int x = 3 * p, y = results * p;
      f.weight_decay = parameters[p].weight_decay;
      f.master = In(args, x);
      f.grad = dtypes.x(args, x + 1);
      f.u = In(args, x + 2);
      f.new_master = Out(args, y);
      f.new_u = Out(args, y + 1);
      f.copy = dtypes.y(args, results > 2 ? y + 2 : -1);
      ForEachUnit(args.stream, parameters[p].elements, f);
    }
  };
  return planned;
}

}  // namespace colossus::cuda
