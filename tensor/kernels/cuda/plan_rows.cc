// Norms, softmax, losses from logits, rotary, embedding, dropout, top-k.
#include <cstdint>

#include "base/random.h"
#include "base/status.h"
#include "tensor/kernels/cuda/launch.h"
#include "tensor/kernels/cuda/plans.h"
#include "tensor/kernels/functors/reduce.h"
#include "tensor/kernels/functors/rows.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/op.h"

namespace colossus::cuda {
namespace {

constexpr int64_t kLongRow = 2048;  // from here on a block works on a row

template <int kLanes>
PlannedKernel SoftmaxBy(const KernelRequest& request) {
  const CallDTypes dtypes(request);
  const bool gradient = request.op->name() == "softmax_grad";
  const int64_t n = request.results[0].dims.back();
  const int64_t rows = n > 0 ? request.results[0].elements() / n : 0;
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    const Target y = dtypes.y(args, 0);
    if (gradient) {
      ForEachUnit(args.stream, rows, SoftmaxGradientRow<kLanes>{dtypes.x(args, 0),
                                                                dtypes.x(args, 1), y, n});
    } else {
      ForEachUnit(args.stream, rows, SoftmaxRow<kLanes>{dtypes.x(args, 0), y, n});
    }
  };
  return planned;
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanNorm(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const Attributes& a = *request.attributes;
  const CallDTypes dtypes(request);
  NormRow row;
  row.c = request.operands[0].dims.back();
  row.epsilon = static_cast<float>(a.Float("eps"));
  row.offset = static_cast<float>(a.IntOr("offset", 0));
  row.centred = request.op->name() == "layer_norm";
  const int weight = OptionalOperand(a, 1, "weight"), bias = OptionalOperand(a, 1, "bias");
  const int64_t rows = row.c > 0 ? request.operands[0].elements() / row.c : 0;
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    NormRow f = row;
    f.x = dtypes.x(args, 0);
    f.weight = dtypes.x(args, weight);
    f.bias = dtypes.x(args, bias);
    f.y = dtypes.y(args, 0);
    if (f.centred) f.mean = dtypes.y(args, 1);
    f.rstd = dtypes.y(args, f.centred ? 2 : 1);
    ForEachUnit(args.stream, rows, f);
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanNormGrad(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const Attributes& a = *request.attributes;
  const CallDTypes dtypes(request);
  const bool centred = request.op->name() == "layer_norm_grad";
  const int rstd = centred ? 3 : 2, weight = OptionalOperand(a, rstd + 1, "weight");
  const bool wants_bias = centred && a.Bool("bias");
  NormGradientInputs inputs;
  inputs.c = request.operands[1].dims.back();
  inputs.rows = inputs.c > 0 ? request.operands[1].elements() / inputs.c : 0;
  inputs.offset = static_cast<float>(a.IntOr("offset", 0));
  const bool columns = weight >= 0 || wants_bias;
  const int64_t chunks = (inputs.rows + kReduceChunk - 1) / kReduceChunk;
  PlannedKernel planned;
  planned.workspace_bytes = columns ? 2 * chunks * inputs.c * 4 : 0;
  planned.run = [=](const KernelArgs& args) {
    NormGradientInputs in = inputs;
    in.dy = dtypes.x(args, 0);
    in.x = dtypes.x(args, 1);
    in.mean = dtypes.x(args, centred ? 2 : -1);
    in.rstd = dtypes.x(args, rstd);
    in.weight = dtypes.x(args, weight);
    if (columns) {  // before dx, which may overwrite what they read
      float* partial = WorkspaceAt<float>(args, 0);
      ForEachUnit(args.stream, chunks * in.c, NormGradientChunk{in, partial});
      ForEachUnit(args.stream, in.c,
                  NormGradientTotals{partial, chunks, in.c,
                                     dtypes.y(args, weight >= 0 ? 1 : -1),
                                     dtypes.y(args, !wants_bias ? -1 : weight >= 0 ? 2 : 1)});
    }
    ForEachUnit(args.stream, in.rows, NormGradientRow{in, dtypes.y(args, 0)});
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanSoftmax(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  return request.results[0].dims.back() < kLongRow ? SoftmaxBy<32>(request)
                                                   : SoftmaxBy<256>(request);
}

absl::StatusOr<PlannedKernel> PlanCrossEntropy(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const Attributes& a = *request.attributes;
  const CallDTypes dtypes(request);
  const bool gradient = request.op->name() == "cross_entropy_grad";
  const int64_t columns = request.operands[gradient ? 1 : 0].dims.back();
  const int64_t classes = ClassesOfPart({request.operands, a}, columns);
  const int64_t origin = a.IntOr("origin", 0), ignore = a.IntOr("ignore", kIgnoreLabel);
  PlannedKernel planned;
  if (gradient) {
    planned.run = [=, elements = request.results[0].elements()](const KernelArgs& args) {
      ForEachUnit(args.stream, elements,
                  CrossEntropyGradient{dtypes.x(args, 0), dtypes.x(args, 1), dtypes.x(args, 2),
                                       dtypes.x(args, 3), dtypes.y(args, 0), columns, classes,
                                       origin, ignore});
    };
    return planned;
  }
  const int64_t positions = request.operands[1].elements();
  planned.workspace_bytes = positions * 4;
  planned.run = [=](const KernelArgs& args) {
    float* loss = WorkspaceAt<float>(args, 0);
    ForEachUnit(args.stream, positions,
                CrossEntropyRow{dtypes.x(args, 0), dtypes.x(args, 1), dtypes.y(args, 1), loss,
                                columns, classes, ignore});
    ForEachUnit(args.stream, 1, OrderedTotal<float>{loss, positions, dtypes.y(args, 0)});
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanRotary(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const Attributes& a = *request.attributes;
  const CallDTypes dtypes(request);
  RotaryPair pair;
  pair.heads = request.operands[0].dims[2];
  pair.d = request.operands[0].dims[3];
  pair.half = request.operands[2].dims[0];
  pair.scale = static_cast<float>(a.FloatOr("scale", 1));
  pair.interleaved = a.BoolOr("interleaved", false);
  pair.inverse = a.BoolOr("inverse", false);
  const int64_t units = request.operands[1].elements() * pair.heads * (pair.d - pair.half);
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    RotaryPair f = pair;
    f.x = dtypes.x(args, 0);
    f.positions = dtypes.x(args, 1);
    f.frequencies = dtypes.x(args, 2);
    f.y = dtypes.y(args, 0);
    ForEachUnit(args.stream, units, f);
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanEmbedding(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const CallDTypes dtypes(request);
  EmbeddingElement element;
  element.rows = request.operands[0].dims[0];
  element.c = request.operands[0].dims[1];
  element.part = request.attributes->Has("origin");
  element.origin = request.attributes->IntOr("origin", 0);
  PlannedKernel planned;
  planned.run = [=, elements = request.results[0].elements()](const KernelArgs& args) {
    EmbeddingElement f = element;
    f.table = dtypes.x(args, 0);
    f.ids = dtypes.x(args, 1);
    f.y = dtypes.y(args, 0);
    ForEachUnit(args.stream, elements, f);
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanEmbeddingGrad(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const CallDTypes dtypes(request);
  const int64_t count = request.operands[1].elements(), c = request.results[0].dims[1];
  const int64_t rows = request.results[0].dims[0];
  const int64_t origin = request.attributes->IntOr("origin", 0);
  if (count > INT32_MAX) return Decline("more than 2^31 positions");
  Workspace workspace;
  const int64_t next_at = workspace.Take(count * 4), first_at = workspace.Take(count * 4);
  PlannedKernel planned;
  planned.workspace_bytes = workspace.bytes();
  planned.run = [=](const KernelArgs& args) {
    int32_t* next = WorkspaceAt<int32_t>(args, next_at);
    int32_t* first = WorkspaceAt<int32_t>(args, first_at);
    const Source ids = dtypes.x(args, 1);
    const Target y = dtypes.y(args, 0);
    ForEachUnit(args.stream, rows * c, FillBits{y.data, static_cast<int>(SizeOf(y.dtype)), 0});
    ForEachUnit(args.stream, count, LinkPositions{ids, next, first, count, rows, origin});
    ForEachUnit(args.stream, count * c,
                AddPositions{dtypes.x(args, 0), ids, y, next, first, c, origin});
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanDropout(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const Attributes& a = *request.attributes;
  const Dims& dims = request.operands[0].dims;
  if (dims.size() > kMaxRank) return Decline("more than 8 dims");
  const CallDTypes dtypes(request);
  DropoutElement element;
  element.rank = static_cast<int>(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    element.dims[d] = dims[d];
    element.origin[d] = a.Has("origin") ? a.IntList("origin")[d] : 0;
    element.global[d] = a.Has("global") ? a.IntList("global")[d] : dims[d];
  }
  element.site = SiteId(a.String("site"));
  element.rate = a.Float("rate");
  element.scale = static_cast<float>(1 / (1 - element.rate));
  PlannedKernel planned;
  const bool given = request.operands.size() == 4;
  planned.run = [=, elements = request.operands[0].elements()](const KernelArgs& args) {
    DropoutElement f = element;
    f.x = dtypes.x(args, 0);
    f.key = dtypes.x(args, 1);
    f.first_row = dtypes.x(args, 2);
    if (given) f.positions = dtypes.x(args, 3);
    f.y = dtypes.y(args, 0);
    ForEachUnit(args.stream, elements, f);
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanTopk(const KernelRequest& request) {
  RETURN_IF_ERROR(CheckSmallFloats(request));
  const CallDTypes dtypes(request);
  PlannedKernel planned;
  if (request.op->name() == "topk_grad") {
    const int64_t entries = request.results[0].dims[1], k = request.operands[0].dims[1];
    planned.run = [=, elements = request.results[0].elements()](const KernelArgs& args) {
      ForEachUnit(args.stream, elements,
                  TopkGradient{dtypes.x(args, 0), dtypes.x(args, 1), dtypes.y(args, 0), entries,
                               k});
    };
    return planned;
  }
  const int64_t rows = request.operands[0].dims[0], entries = request.operands[0].dims[1];
  const int64_t k = request.results[0].dims[1];
  planned.run = [=](const KernelArgs& args) {
    ForEachUnit(args.stream, rows,
                TopkRow{dtypes.x(args, 0), dtypes.y(args, 0),
                        static_cast<int32_t*>(args.results[1]), entries, k});
  };
  return planned;
}

}  // namespace colossus::cuda
