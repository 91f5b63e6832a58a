// Shape ops, constants, conversions and cache rows: strided moves and fills.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/kernels/cuda/launch.h"
#include "tensor/kernels/cuda/plans.h"
#include "tensor/ops/op.h"

namespace colossus::cuda {
namespace {

PlannedKernel Runs(std::function<void(const KernelArgs&)> run) {
  PlannedKernel planned;
  planned.run = std::move(run);
  return planned;
}

int64_t Offset(const Ints& at, const Dims& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) offset += at[d] * strides[d];
  return offset;
}

// The bytes of one value in the low bytes of a word.
uint64_t BitsOf(DType dtype, double value) {
  uint64_t bits = 0;
  StoreFromDouble(dtype, &bits, 0, value);
  return bits;
}

absl::StatusOr<PlannedKernel> PlanPad(const KernelRequest& request) {
  const Type& x = request.operands[0];
  const Type& y = request.results[0];
  const Dims in = RowMajorStrides(x.dims), out = RowMajorStrides(y.dims);
  const int64_t first = Offset(request.attributes->IntList("low"), out);
  ASSIGN_OR_RETURN(Move move, PlanMove(x.dims, in, x.dtype, out, y.dtype, 0, first));
  const FillBits fill{nullptr, static_cast<int>(SizeOf(y.dtype)),
                  BitsOf(y.dtype, request.attributes->Float("value"))};
  return Runs([=, elements = y.elements()](const KernelArgs& args) {
    FillBits all = fill;
    all.data = args.results[0];
    ForEachUnit(args.stream, elements, all);
    move.Run(args.stream, args.operands[0], args.results[0]);
  });
}

// One move per part: operand i to a range of the result, or a range of the operand to result i.
absl::StatusOr<PlannedKernel> PlanParts(const Type& whole, absl::Span<const Type> parts,
                                        const std::vector<int64_t>& first,
                                        const Dims& whole_strides, bool gather) {
  std::vector<Move> moves;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Dims own = RowMajorStrides(parts[i].dims);
    ASSIGN_OR_RETURN(Move move,
                     gather ? PlanMove(parts[i].dims, own, whole.dtype, whole_strides, whole.dtype,
                                       0, first[i])
                            : PlanMove(parts[i].dims, whole_strides, whole.dtype, own, whole.dtype,
                                       first[i], 0));
    moves.push_back(move);
  }
  return Runs([=](const KernelArgs& args) {
    for (size_t i = 0; i < moves.size(); ++i) {
      moves[i].Run(args.stream, args.operands[gather ? i : 0], args.results[gather ? 0 : i]);
    }
  });
}

absl::StatusOr<PlannedKernel> PlanConcat(const KernelRequest& request) {
  const Type& y = request.results[0];
  const int64_t dim = request.attributes->Int("dim");
  const Dims strides = RowMajorStrides(y.dims);
  std::vector<int64_t> first;
  int64_t before = 0;
  for (const Type& x : request.operands) {
    first.push_back(before * strides[dim]);
    before += x.dims[dim];
  }
  return PlanParts(y, request.operands, first, strides, true);
}

// stack (gather) and unstack.
absl::StatusOr<PlannedKernel> PlanStack(const KernelRequest& request, bool gather) {
  const Type& whole = gather ? request.results[0] : request.operands[0];
  const int64_t dim = request.attributes->Int("dim");
  Dims strides = RowMajorStrides(whole.dims);
  std::vector<int64_t> first;
  for (int64_t i = 0; i < whole.dims[dim]; ++i) first.push_back(i * strides[dim]);
  strides.erase(strides.begin() + dim);
  return PlanParts(whole, gather ? request.operands : request.results, first, strides, gather);
}

absl::StatusOr<PlannedKernel> PlanUnpack(const KernelRequest& request) {
  const Type& x = request.operands[0];
  const Ints& offsets = request.attributes->IntList("offsets");
  std::vector<Move> moves;
  for (size_t i = 0; i < offsets.size(); ++i) {
    ASSIGN_OR_RETURN(Move move, PlanMove({request.results[i].elements()}, {1}, x.dtype, {1},
                                         x.dtype, offsets[i], 0));
    moves.push_back(move);
  }
  return Runs([=](const KernelArgs& args) {
    for (size_t i = 0; i < moves.size(); ++i) {
      moves[i].Run(args.stream, args.operands[0], args.results[i]);
    }
  });
}

// What is at its place already stays there; the rest of the result is zero.
absl::StatusOr<PlannedKernel> PlanPack(const KernelRequest& request) {
  struct Part {
    Move move;
    size_t operand;
    int64_t first;  // bytes
  };
  struct Gap {
    int64_t first, elements;  // bytes, elements
  };
  const Type& y = request.results[0];
  const int64_t size = SizeOf(y.dtype);
  const Ints& offsets = request.attributes->IntList("offsets");
  std::vector<Part> parts;
  std::vector<Gap> gaps;
  int64_t end = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const int64_t elements = request.operands[i].elements();
    if (elements == 0) continue;
    ASSIGN_OR_RETURN(Move move, PlanMove({elements}, {1}, y.dtype, {1}, y.dtype, 0, offsets[i]));
    parts.push_back({move, i, offsets[i] * size});
    if (offsets[i] > end) gaps.push_back({end * size, offsets[i] - end});
    end = offsets[i] + elements;
  }
  if (y.elements() > end) gaps.push_back({end * size, y.elements() - end});
  return Runs([=](const KernelArgs& args) {
    char* const out = static_cast<char*>(args.results[0]);
    for (const Gap& gap : gaps) {
      ForEachUnit(args.stream, gap.elements,
                  FillBits{out + gap.first, static_cast<int>(size), 0});
    }
    for (const Part& part : parts) {
      const void* src = args.operands[part.operand];
      if (src != out + part.first) part.move.Run(args.stream, src, out);
    }
  });
}

}  // namespace

void Move::Run(void* stream, const void* src, void* dst) const {
  StridedMove filled = move;
  filled.src.data = src;
  filled.dst.data = dst;
  ForEachUnit(stream, elements, filled);
}

absl::StatusOr<Move> PlanMove(const Dims& dims, const Dims& src_strides, DType src,
                              const Dims& dst_strides, DType dst, int64_t src_first,
                              int64_t dst_first) {
  if (src != dst && !(IsSmallFloat(src) && IsSmallFloat(dst))) {
    return Decline("moves convert between f32, bf16 and f16 only");
  }
  Move move;
  move.elements = ElementCount(dims);
  ASSIGN_OR_RETURN(move.move.index, MergeDims<2>(dims, {dst_strides, src_strides}));
  move.move.src.dtype = src;
  move.move.dst.dtype = dst;
  move.move.width = src == dst ? static_cast<int>(SizeOf(src)) : 0;
  move.move.src_first = src_first;
  move.move.dst_first = dst_first;
  return move;
}

absl::Status CheckSmallFloats(const KernelRequest& request) {
  for (const Type& type : request.operands) {
    if (type.dtype == DType::kF64) return Decline("computes in f32; an operand is f64");
  }
  for (const Type& type : request.results) {
    if (type.dtype == DType::kF64) return Decline("computes in f32; a result is f64");
  }
  return absl::OkStatus();
}

CallDTypes::CallDTypes(const KernelRequest& request) {
  for (const Type& type : request.operands) operands.push_back(type.dtype);
  for (const Type& type : request.results) results.push_back(type.dtype);
}

absl::StatusOr<PlannedKernel> PlanShape(const KernelRequest& request) {
  const absl::string_view op = request.op->name();
  if (op == "pad") return PlanPad(request);
  if (op == "concat") return PlanConcat(request);
  if (op == "stack") return PlanStack(request, true);
  if (op == "unstack") return PlanStack(request, false);
  if (op == "pack") return PlanPack(request);
  if (op == "unpack") return PlanUnpack(request);
  const Type& x = request.operands[0];
  const Type& y = request.results[0];
  const Dims in = RowMajorStrides(x.dims);
  Dims dims = y.dims, strides(y.dims.size(), 0);
  int64_t first = 0;
  if (op == "reshape") {
    dims = {x.elements()};
    strides = {1};
  } else if (op == "transpose") {
    const Ints& perm = request.attributes->IntList("perm");
    for (size_t d = 0; d < perm.size(); ++d) strides[d] = in[perm[d]];
  } else if (op == "slice") {
    strides = in;
    first = Offset(request.attributes->IntList("starts"), in);
  } else {  // broadcast
    const size_t skip = y.dims.size() - x.dims.size();
    for (size_t d = 0; d < x.dims.size(); ++d) strides[d + skip] = x.dims[d] == 1 ? 0 : in[d];
  }
  ASSIGN_OR_RETURN(Move move,
                   PlanMove(dims, strides, x.dtype, RowMajorStrides(dims), x.dtype, first));
  return Runs([=](const KernelArgs& args) {
    move.Run(args.stream, args.operands[0], args.results[0]);
  });
}

absl::StatusOr<PlannedKernel> PlanConstant(const KernelRequest& request) {
  const Type& y = request.results[0];
  const bool floats = IsFloat(y.dtype);
  const Floats no_floats;
  const Ints no_ints;
  const Floats& reals = floats ? request.attributes->FloatList("floats") : no_floats;
  const Ints& ints = floats ? no_ints : request.attributes->IntList("ints");
  const int64_t size = SizeOf(y.dtype), count = static_cast<int64_t>(floats ? reals.size()
                                                                             : ints.size());
  // Shared: planned kernels are copied, and the bytes must stay until they went to the device.
  auto bytes = std::make_shared<std::vector<char>>(static_cast<size_t>(count * size));
  for (int64_t i = 0; i < count; ++i) {
    if (floats) StoreFromDouble(y.dtype, bytes->data(), i, reals[i]);
    else StoreAs<int64_t>(y.dtype, bytes->data(), i, ints[i]);
  }
  if (count != 1) {
    return Runs([=](const KernelArgs& args) {
      CopyFromHost(args.stream, args.results[0], bytes->data(),
                   static_cast<int64_t>(bytes->size()));
    });
  }
  FillBits fill{nullptr, static_cast<int>(size), 0};
  std::memcpy(&fill.bits, bytes->data(), static_cast<size_t>(size));
  return Runs([fill, elements = y.elements()](const KernelArgs& args) {
    FillBits all = fill;
    all.data = args.results[0];
    ForEachUnit(args.stream, elements, all);
  });
}

absl::StatusOr<PlannedKernel> PlanIota(const KernelRequest& request) {
  const Type& y = request.results[0];
  const int64_t dim = request.attributes->Int("dim");
  const int64_t inner = RowMajorStrides(y.dims)[dim], extent = y.dims[dim];
  const int64_t start = request.attributes->IntOr("start", 0), elements = y.elements();
  return Runs([=, dtype = y.dtype](const KernelArgs& args) {
    ForEachUnit(args.stream, elements, Iota{{args.results[0], dtype}, extent, inner, start});
  });
}

namespace {

template <class T>
PlannedKernel ConvertBy(const KernelRequest& request) {
  const CallDTypes dtypes(request);
  return Runs([=, elements = request.operands[0].elements()](const KernelArgs& args) {
    ForEachUnit(args.stream, elements, ConvertElement<T>{dtypes.x(args, 0), dtypes.y(args, 0)});
  });
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanConvert(const KernelRequest& request) {
  const DType from = request.operands[0].dtype, to = request.results[0].dtype;
  if (!IsFloat(from) && !IsFloat(to)) return ConvertBy<int64_t>(request);
  if (IsSmallFloat(from) && (IsSmallFloat(to) || to == DType::kBool)) {
    return ConvertBy<float>(request);
  }
  return ConvertBy<double>(request);
}

absl::StatusOr<PlannedKernel> PlanCacheAppend(const KernelRequest& request) {
  const Type& cache = request.operands[0];
  const Type& rows = request.operands[1];
  const int64_t size = SizeOf(cache.dtype), bytes = rows.bytes();
  CacheRows append;
  append.t = cache.dims[1];
  append.s = rows.dims[1];
  append.width = cache.dims[2] * cache.dims[3] * size;
  ASSIGN_OR_RETURN(Move copy, PlanMove({cache.elements()}, {1}, cache.dtype, {1}, cache.dtype));
  return Runs([=](const KernelArgs& args) {
    if (args.operands[0] != args.results[0]) {
      copy.Run(args.stream, args.operands[0], args.results[0]);
    }
    CacheRows filled = append;
    filled.rows = args.operands[1];
    filled.lengths = static_cast<const int32_t*>(args.operands[2]);
    filled.cache = args.results[0];
    ForEachUnit(args.stream, bytes, filled);
  });
}

}  // namespace colossus::cuda
