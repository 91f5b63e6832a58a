// reshape, transpose, slice, pad, concat, broadcast, stack, unstack, pack and unpack: strided
// copies; constant.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/strided_copy.h"

namespace colossus {
namespace {

// One copy, with byte offsets into operand `operand` and result `result`.
struct Move {
  StridedCopy copy;
  int operand = 0, result = 0;
  int64_t src_offset = 0, dst_offset = 0;
};

PlannedKernel Moves(std::vector<Move> moves) {
  PlannedKernel planned;
  planned.run = [moves = std::move(moves)](const KernelArgs& args) {
    for (const Move& move : moves) {
      const char* src = static_cast<const char*>(args.operands[move.operand]);
      move.copy.Run(src + move.src_offset,
                    static_cast<char*>(args.results[move.result]) + move.dst_offset);
    }
  };
  return planned;
}

int64_t Offset(const Ints& index, const Dims& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

PlannedKernel PlanPad(const KernelRequest& request) {
  const Type& x = request.operands[0];
  const Type& y = request.results[0];
  const int64_t size = SizeOf(y.dtype);
  const Dims strides = RowMajorStrides(y.dims);
  StridedCopy copy(x.dims, RowMajorStrides(x.dims), x.dtype, strides, x.dtype);
  const int64_t offset = Offset(request.attributes->IntList("low"), strides) * size;
  std::vector<char> value(8);
  StoreFromDouble(y.dtype, value.data(), 0, request.attributes->Float("value"));
  PlannedKernel planned;
  planned.run = [=, n = y.elements()](const KernelArgs& args) {
    char* out = static_cast<char*>(args.results[0]);
    ParallelFor(n, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::memcpy(out + i * size, value.data(), size);
    });
    copy.Run(args.operands[0], out + offset);
  };
  return planned;
}

PlannedKernel PlanConcat(const KernelRequest& request) {
  const int64_t dim = request.attributes->Int("dim"), size = SizeOf(request.results[0].dtype);
  const Dims strides = RowMajorStrides(request.results[0].dims);
  std::vector<Move> moves;
  int64_t before = 0;
  for (size_t i = 0; i < request.operands.size(); ++i) {
    const Type& x = request.operands[i];
    StridedCopy copy(x.dims, RowMajorStrides(x.dims), x.dtype, strides, x.dtype);
    moves.push_back({.copy = std::move(copy),
                     .operand = static_cast<int>(i),
                     .dst_offset = before * strides[dim] * size});
    before += x.dims[dim];
  }
  return Moves(std::move(moves));
}

// The parts of `large` along `dim`: from them to it (stack) or back.
PlannedKernel PlanStack(const Type& large, int64_t dim, bool to_large) {
  Dims part = large.dims, strides = RowMajorStrides(large.dims);
  const int64_t count = part[dim], step = strides[dim] * SizeOf(large.dtype);
  part.erase(part.begin() + dim);
  strides.erase(strides.begin() + dim);
  const Dims dense = RowMajorStrides(part);
  std::vector<Move> moves;
  for (int64_t i = 0; i < count; ++i) {
    const int index = static_cast<int>(i);
    if (to_large) {
      moves.push_back({.copy = StridedCopy(part, dense, large.dtype, strides, large.dtype),
                       .operand = index, .dst_offset = i * step});
    } else {
      moves.push_back({.copy = StridedCopy(part, strides, large.dtype, dense, large.dtype),
                       .result = index, .src_offset = i * step});
    }
  }
  return Moves(std::move(moves));
}

PlannedKernel PlanUnpack(const KernelRequest& request) {
  const Type& x = request.operands[0];
  const Ints& offsets = request.attributes->IntList("offsets");
  std::vector<Move> moves;
  for (size_t i = 0; i < offsets.size(); ++i) {
    moves.push_back({.copy = StridedCopy({request.results[i].elements()}, {1}, x.dtype, {1},
                                         x.dtype),
                     .result = static_cast<int>(i),
                     .src_offset = offsets[i] * SizeOf(x.dtype)});
  }
  return Moves(std::move(moves));
}

// What is at its place already stays there; the rest of the result is zero.
PlannedKernel PlanPack(const KernelRequest& request) {
  const Type& y = request.results[0];
  const int64_t size = SizeOf(y.dtype);
  const Ints& offsets = request.attributes->IntList("offsets");
  std::vector<Move> moves;
  std::vector<std::pair<int64_t, int64_t>> gaps;  // bytes: first, count
  int64_t end = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const Type& x = request.operands[i];
    const int64_t first = offsets[i] * size;
    if (x.elements() == 0) continue;
    if (first > end) gaps.emplace_back(end, first - end);
    end = first + x.bytes();
    moves.push_back({.copy = StridedCopy({x.elements()}, {1}, x.dtype, {1}, x.dtype),
                     .operand = static_cast<int>(i),
                     .dst_offset = first});
  }
  if (y.bytes() > end) gaps.emplace_back(end, y.bytes() - end);
  PlannedKernel planned;
  planned.run = [moves = std::move(moves), gaps = std::move(gaps)](const KernelArgs& args) {
    char* const out = static_cast<char*>(args.results[0]);
    for (auto [first, count] : gaps) std::memset(out + first, 0, static_cast<size_t>(count));
    for (const Move& move : moves) {
      const void* src = args.operands[move.operand];
      if (src != out + move.dst_offset) move.copy.Run(src, out + move.dst_offset);
    }
  };
  return planned;
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanConstant(const KernelRequest& request) {
  const Type& y = request.results[0];
  const int64_t size = SizeOf(y.dtype), n = y.elements();
  std::vector<char> bytes;
  auto fill = [&](const auto& values, auto set) {
    bytes.resize(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) set(static_cast<int64_t>(i), values[i]);
  };
  if (IsFloat(y.dtype)) {
    fill(request.attributes->FloatList("floats"),
         [&](int64_t i, double value) { StoreFromDouble(y.dtype, bytes.data(), i, value); });
  } else if (y.dtype == DType::kI64) {
    fill(request.attributes->IntList("ints"), [&](int64_t i, int64_t value) {
      std::memcpy(bytes.data() + i * size, &value, size);
    });
  } else {
    fill(request.attributes->IntList("ints"), [&](int64_t i, int64_t value) {
      StoreFromDouble(y.dtype, bytes.data(), i, static_cast<double>(value));
    });
  }
  const bool splat = static_cast<int64_t>(bytes.size()) == size;
  PlannedKernel planned;
  planned.run = [=](const KernelArgs& args) {
    char* out = static_cast<char*>(args.results[0]);
    ParallelFor(n, 1 << 14, [&](int64_t begin, int64_t end) {
      if (!splat) {
        std::memcpy(out + begin * size, bytes.data() + begin * size, (end - begin) * size);
        return;
      }
      for (int64_t i = begin; i < end; ++i) std::memcpy(out + i * size, bytes.data(), size);
    });
  };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanShape(const KernelRequest& request) {
  const absl::string_view op = request.op->name();
  const Type& x = request.operands[0];
  const Type& y = request.results[0];
  const Dims in = RowMajorStrides(x.dims), out = RowMajorStrides(y.dims);
  if (op == "pad") return PlanPad(request);
  if (op == "concat") return PlanConcat(request);
  if (op == "stack") return PlanStack(y, request.attributes->Int("dim"), true);
  if (op == "unstack") return PlanStack(x, request.attributes->Int("dim"), false);
  if (op == "pack") return PlanPack(request);
  if (op == "unpack") return PlanUnpack(request);
  Move move;
  Dims strides(y.dims.size(), 0);
  if (op == "reshape") {
    move.copy = StridedCopy({x.elements()}, {1}, x.dtype, {1}, x.dtype);
    return Moves({std::move(move)});
  }
  if (op == "transpose") {
    const Ints& perm = request.attributes->IntList("perm");
    for (size_t d = 0; d < perm.size(); ++d) strides[d] = in[perm[d]];
  } else if (op == "slice") {
    strides = in;
    move.src_offset = Offset(request.attributes->IntList("starts"), in) * SizeOf(x.dtype);
  } else {  // broadcast
    const size_t skip = y.dims.size() - x.dims.size();
    for (size_t d = 0; d < x.dims.size(); ++d) strides[d + skip] = x.dims[d] == 1 ? 0 : in[d];
  }
  move.copy = StridedCopy(y.dims, strides, x.dtype, out, x.dtype);
  return Moves({std::move(move)});
}

}  // namespace colossus
