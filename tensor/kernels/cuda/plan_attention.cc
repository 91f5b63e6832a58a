// attention and its gradient: a warp per query row, or per key row.
#include <cstdint>

#include "base/random.h"
#include "base/status.h"
#include "tensor/kernels/cuda/launch.h"
#include "tensor/kernels/cuda/plans.h"
#include "tensor/kernels/functors/attention.h"
#include "tensor/ops/attention.h"

namespace colossus::cuda {
namespace {

constexpr int64_t kWidestHead = 256;

// The call without its memory.
AttentionInputs InputsOf(const AttentionProblem& p, const Attributes& attributes) {
  AttentionInputs in;
  in.b = p.b, in.s = p.s, in.t = p.t, in.h = p.h, in.g = p.g, in.d = p.d, in.e = p.e;
  in.origin_b = p.origin[0], in.origin_s = p.origin[1], in.origin_h = p.origin[2];
  in.global_s = p.global[1], in.global_h = p.global[2];
  in.key_origin = p.key_origin, in.key_global = p.key_global, in.window = p.window;
  in.scale = static_cast<float>(p.scale);
  in.softcap = static_cast<float>(p.softcap);
  in.dropout_rate = p.dropout_rate;
  if (p.dropout_rate > 0) in.site = SiteId(attributes.String("site"));
  in.causal = p.causal;
  in.bias_per_batch = p.bias_per_batch;
  return in;
}

// The operands' memory; `first`: of q.
void FillMemory(const KernelArgs& args, const CallDTypes& dtypes, const AttentionProblem& p,
                int first, AttentionInputs& in) {
  in.q = dtypes.x(args, first);
  in.k = dtypes.x(args, first + 1);
  in.v = dtypes.x(args, first + 2);
  in.q_segments = dtypes.x(args, p.q_segments);
  in.k_segments = dtypes.x(args, p.k_segments);
  in.q_positions = dtypes.x(args, p.q_positions);
  in.k_positions = dtypes.x(args, p.k_positions);
  in.kv_length = dtypes.x(args, p.kv_length);
  in.slopes = dtypes.x(args, p.slopes);
  in.bias = dtypes.x(args, p.bias);
  in.dropout_key = dtypes.x(args, p.dropout_key);
  in.first_row = dtypes.x(args, p.first_row);
}

absl::Status CheckHead(const KernelRequest& request, const AttentionProblem& p) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  if (p.d > kWidestHead || p.e > kWidestHead) return Decline("a head is wider than 256");
  return absl::OkStatus();
}

// fn.operator()<kSlots>() for the fewest slots that hold a head.
template <class Fn>
void BySlots(const AttentionInputs& in, Fn fn) {
  const int64_t width = in.d > in.e ? in.d : in.e;
  if (width <= 64) fn.template operator()<2>();
  else if (width <= 128) fn.template operator()<4>();
  else fn.template operator()<8>();
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanAttention(const KernelRequest& request) {
  const AttentionProblem p = DescribeAttention({request.operands, *request.attributes}, 3);
  RETURN_IF_ERROR(CheckHead(request, p));
  const CallDTypes dtypes(request);
  const AttentionInputs inputs = InputsOf(p, *request.attributes);
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    AttentionInputs in = inputs;
    FillMemory(args, dtypes, p, 0, in);
    float* lse = static_cast<float*>(args.results[1]);
    BySlots(in, [&]<int kSlots>() {
      ForEachUnit(args.stream, in.b * in.s * in.h,
                  AttentionRow<kSlots>{in, dtypes.y(args, 0), lse});
    });
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanAttentionGrad(const KernelRequest& request) {
  const AttentionProblem p = DescribeAttention({request.operands, *request.attributes}, 6);
  RETURN_IF_ERROR(CheckHead(request, p));
  const CallDTypes dtypes(request);
  const AttentionInputs inputs = InputsOf(p, *request.attributes);
  PlannedKernel planned;
  planned.workspace_bytes = p.b * p.s * p.h * 4;
  planned.run = [=](const KernelArgs& args) {
    AttentionGradientInputs a;
    a.in = inputs;
    FillMemory(args, dtypes, p, 1, a.in);
    a.dout = dtypes.x(args, 0);
    a.out = dtypes.x(args, 4);
    a.lse = static_cast<const float*>(args.operands[5]);
    a.means = WorkspaceAt<float>(args, 0);
    const AttentionInputs& in = a.in;
    ForEachUnit(args.stream, in.b * in.s * in.h, AttentionMeans{a});
    BySlots(in, [&]<int kSlots>() {
      ForEachUnit(args.stream, in.b * in.s * in.h,
                  AttentionQueryGradient<kSlots>{a, dtypes.y(args, 0)});
      ForEachUnit(args.stream, in.b * in.t * in.g,
                  AttentionKeyGradient<kSlots>{a, dtypes.y(args, 1), dtypes.y(args, 2)});
    });
    if (p.bias < 0) return;
    ForEachUnit(args.stream, (in.bias_per_batch ? in.b : 1) * in.h * in.s * in.t,
                AttentionBiasGradient{a, dtypes.y(args, 3)});
  };
  return planned;
}

}  // namespace colossus::cuda
