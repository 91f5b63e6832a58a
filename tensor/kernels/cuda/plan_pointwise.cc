// Pointwise ops, reductions and sums of squares.
#include <algorithm>
#include <limits>
#include <vector>

#include "base/status.h"
#include "tensor/kernels/cuda/launch.h"
#include "tensor/kernels/cuda/plans.h"
#include "tensor/kernels/functors/pointwise.h"
#include "tensor/kernels/functors/reduce.h"
#include "tensor/ops/op.h"
#include "tensor/ops/sum_squares.h"

namespace colossus::cuda {
namespace {

struct NamedKind {
  absl::string_view name;
  PointwiseKind kind;
};
constexpr NamedKind kKinds[] = {
#define COLOSSUS_ROW(name, expression) {#name, PointwiseKind::k_##name},
    COLOSSUS_POINTWISE_NUMBERS(COLOSSUS_ROW) COLOSSUS_POINTWISE_FLOATS(COLOSSUS_ROW)
#undef COLOSSUS_ROW
};

const NamedKind* FindKind(absl::string_view name) {
  for (const NamedKind& row : kKinds) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

template <class T>
absl::StatusOr<PlannedKernel> PlanPointwiseAs(const KernelRequest& request) {
  const NamedKind* row = FindKind(request.op->name());
  if (row == nullptr) return Decline("no functor of this name");
  Pointwise<T> f;
  f.kind = row->kind;
  f.arity = static_cast<int>(request.operands.size());
  for (absl::string_view name : {"factor", "value"}) {
    if (!request.attributes->Has(name)) continue;
    f.attribute = static_cast<T>(request.attributes->Float(name));
  }
  const Dims& dims = request.results[0].dims;
  std::vector<Dims> strides(3, Dims(dims.size(), 0));
  for (size_t i = 0; i < request.operands.size(); ++i) {
    const Dims& x = request.operands[i].dims;
    f.dense = f.dense && x == dims;
    const Dims own = RowMajorStrides(x);
    const size_t skip = dims.size() - x.size();
    for (size_t d = 0; d < x.size(); ++d) strides[i][d + skip] = x[d] == 1 ? 0 : own[d];
  }
  if (!f.dense) {
    ASSIGN_OR_RETURN(f.index, MergeDims<3>(dims, strides));
  }
  const CallDTypes dtypes(request);
  PlannedKernel planned;
  planned.run = [=, elements = request.results[0].elements()](const KernelArgs& args) {
    Pointwise<T> filled = f;
    for (int i = 0; i < f.arity; ++i) filled.x[i] = dtypes.x(args, i);
    filled.y = dtypes.y(args, 0);
    ForEachUnit(args.stream, elements, filled);
  };
  return planned;
}

// What an empty maximum is.
template <class T>
T Lowest(DType dtype) {
  if (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
  return static_cast<T>(dtype == DType::kI32 ? std::numeric_limits<int32_t>::lowest()
                                             : std::numeric_limits<int64_t>::lowest());
}

template <class T>
absl::StatusOr<PlannedKernel> PlanReduceAs(const KernelRequest& request) {
  const Dims& dims = request.operands[0].dims;
  const Dims strides = RowMajorStrides(dims);
  std::vector<bool> reduced(dims.size(), false);
  for (int64_t d : request.attributes->IntList("dims")) reduced[d] = true;
  Dims kept_dims, kept_strides, reduced_dims, reduced_strides;
  for (size_t d = 0; d < dims.size(); ++d) {
    (reduced[d] ? reduced_dims : kept_dims).push_back(dims[d]);
    (reduced[d] ? reduced_strides : kept_strides).push_back(strides[d]);
  }
  ReduceShape<T> shape;
  ASSIGN_OR_RETURN(shape.kept, MergeDims<1>(kept_dims, {kept_strides}));
  ASSIGN_OR_RETURN(shape.reduced, MergeDims<1>(reduced_dims, {reduced_strides}));
  shape.outputs = ElementCount(kept_dims);
  shape.count = ElementCount(reduced_dims);
  shape.max = request.op->name() == "reduce_max";
  if (shape.max) shape.start = Lowest<T>(request.results[0].dtype);
  const CallDTypes dtypes(request);
  PlannedKernel planned;
  // Neighbouring elements are read by neighbouring threads: of one row, or of several columns.
  const bool rows = shape.reduced.rank > 0 &&
                    shape.reduced.strides[0][shape.reduced.rank - 1] == 1;
  if (rows) {
    planned.run = [=](const KernelArgs& args) {
      ReduceByTeam<T> f{shape, dtypes.y(args, 0)};
      f.shape.x = dtypes.x(args, 0);
      ForEachUnit(args.stream, shape.outputs, f);
    };
    return planned;
  }
  const int64_t chunks = (shape.count + kReduceChunk - 1) / kReduceChunk;
  planned.workspace_bytes = chunks * shape.outputs * static_cast<int64_t>(sizeof(T));
  planned.run = [=](const KernelArgs& args) {
    T* partial = WorkspaceAt<T>(args, 0);
    ReduceChunk<T> f{shape, partial};
    f.shape.x = dtypes.x(args, 0);
    ForEachUnit(args.stream, chunks * shape.outputs, f);
    ForEachUnit(args.stream, shape.outputs,
                ReduceTotals<T>{partial, chunks, shape.outputs, shape.max, shape.start,
                                dtypes.y(args, 0)});
  };
  return planned;
}

// The T that computes a value of this dtype: float, double or int64_t.
absl::StatusOr<PlannedKernel> ByDType(
    DType dtype, const KernelRequest& request,
    absl::StatusOr<PlannedKernel> (*floats)(const KernelRequest&),
    absl::StatusOr<PlannedKernel> (*doubles)(const KernelRequest&),
    absl::StatusOr<PlannedKernel> (*integers)(const KernelRequest&)) {
  if (dtype == DType::kF64) return doubles(request);
  return IsSmallFloat(dtype) ? floats(request) : integers(request);
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanPointwise(const KernelRequest& request) {
  return ByDType(request.operands.back().dtype, request, PlanPointwiseAs<float>,
                 PlanPointwiseAs<double>, PlanPointwiseAs<int64_t>);
}

absl::StatusOr<PlannedKernel> PlanReduce(const KernelRequest& request) {
  const DType x = request.operands[0].dtype, y = request.results[0].dtype;
  const bool wide = x == DType::kF64 || y == DType::kF64 || IsFloat(x) != IsFloat(y);
  return ByDType(wide ? DType::kF64 : x, request, PlanReduceAs<float>, PlanReduceAs<double>,
                 PlanReduceAs<int64_t>);
}

absl::StatusOr<PlannedKernel> PlanSumSquares(const KernelRequest& request) {
  static_assert(kSumSquaresBlock == 1024 && kSumSquaresLanes == 16);  // as the functors have it
  std::vector<int64_t> elements;
  int64_t blocks = 0, largest = 0;
  const size_t skip = ContinuesTotal(*request.attributes) ? 1 : 0;
  for (size_t i = skip; i < request.operands.size(); ++i) {
    const Type& x = request.operands[i];
    const int64_t own = (x.elements() + kSumSquaresBlock - 1) / kSumSquaresBlock;
    elements.push_back(x.elements());
    blocks += own;
    largest = std::max(largest, own);
  }
  Workspace workspace;
  const int64_t lanes_at = workspace.Take(largest * 16 * 8), blocks_at = workspace.Take(blocks * 8);
  const CallDTypes dtypes(request);
  PlannedKernel planned;
  planned.workspace_bytes = workspace.bytes();
  planned.run = [=](const KernelArgs& args) {
    double* lanes = WorkspaceAt<double>(args, lanes_at);
    double* sums = WorkspaceAt<double>(args, blocks_at);
    int64_t first = 0;
    for (size_t i = 0; i < elements.size(); ++i) {
      const int64_t own = (elements[i] + kSumSquaresBlock - 1) / kSumSquaresBlock;
      ForEachUnit(args.stream, own * 16,
                  SquareLanes{dtypes.x(args, static_cast<int>(skip + i)), elements[i], lanes});
      ForEachUnit(args.stream, own, SquareBlocks{lanes, sums + first});
      first += own;
    }
    const double* start = skip == 1 ? static_cast<const double*>(args.operands[0]) : nullptr;
    ForEachUnit(args.stream, 1, OrderedTotal<double>{sums, blocks, dtypes.y(args, 0), start});
  };
  return planned;
}

}  // namespace colossus::cuda
