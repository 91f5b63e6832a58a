// Optimizer updates.
#include "base/status.h"
#include "tensor/kernels/cuda/launch.h"
#include "tensor/kernels/cuda/plans.h"
#include "tensor/kernels/functors/optimizer.h"

namespace colossus::cuda {
namespace {

const float* In(const KernelArgs& args, int i) {
  return static_cast<const float*>(args.operands[i]);
}
float* Out(const KernelArgs& args, int i) { return static_cast<float*>(args.results[i]); }

}  // namespace

absl::StatusOr<PlannedKernel> PlanAdamw(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const Attributes& a = *request.attributes;
  const CallDTypes dtypes(request);
  AdamwElement element;
  element.beta1 = static_cast<float>(a.Float("beta1"));
  element.one_minus_beta1 = static_cast<float>(1 - a.Float("beta1"));
  element.beta2 = static_cast<float>(a.Float("beta2"));
  element.one_minus_beta2 = static_cast<float>(1 - a.Float("beta2"));
  element.epsilon = static_cast<float>(a.Float("epsilon"));
  element.weight_decay = static_cast<float>(a.Float("weight_decay"));
  PlannedKernel planned;
  planned.run = [=, elements = request.operands[0].elements()](const KernelArgs& args) {
    AdamwElement f = element;
    f.master = In(args, 0);
    f.grad = dtypes.x(args, 1);
    f.m = In(args, 2);
    f.v = In(args, 3);
    f.learning_rate = In(args, 4);
    f.grad_scale = In(args, 5);
    f.correction1 = In(args, 6);
    f.correction2 = In(args, 7);
    f.new_master = Out(args, 0);
    f.new_m = Out(args, 1);
    f.new_v = Out(args, 2);
    f.copy = dtypes.y(args, dtypes.results.size() > 3 ? 3 : -1);
    ForEachUnit(args.stream, elements, f);
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanSgd(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const CallDTypes dtypes(request);
  SgdElement element;
  element.momentum = static_cast<float>(request.attributes->Float("momentum"));
  element.weight_decay = static_cast<float>(request.attributes->Float("weight_decay"));
  PlannedKernel planned;
  planned.run = [=, elements = request.operands[0].elements()](const KernelArgs& args) {
    SgdElement f = element;
    f.master = In(args, 0);
    f.grad = dtypes.x(args, 1);
    f.u = In(args, 2);
    f.learning_rate = In(args, 3);
    f.grad_scale = In(args, 4);
    f.new_master = Out(args, 0);
    f.new_u = Out(args, 1);
    f.copy = dtypes.y(args, dtypes.results.size() > 2 ? 2 : -1);
    ForEachUnit(args.stream, elements, f);
  };
  return planned;
}

}  // namespace colossus::cuda
