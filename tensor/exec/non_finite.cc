#include "tensor/exec/non_finite.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status.h"

namespace colossus {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;

template <class T>
BadElement FindAs(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const double value = ToDouble(x[i]);
    if (std::isfinite(value)) continue;
    return {i, std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf"};
  }
  return {n, ""};
}

Type TypeOf(const Program& program, const Instruction& instruction, size_t result) {
  if (instruction.kind != InstructionKind::kKernel) return instruction.type;
  const Graph& graph = program.step().graph_of(program.step().calls[instruction.call]);
  return graph.value(graph.node(instruction.node).results[result]).type;
}

NonFinite Describe(const Program& program, const Instruction& instruction, size_t result) {
  NonFinite found;
  found.value = instruction.name;
  found.op = std::string(Name(instruction.kind));
  found.type = TypeOf(program, instruction, result);
  found.micro_batch = instruction.micro_batch;
  if (instruction.kind != InstructionKind::kKernel) return found;
  const Graph& graph = program.step().graph_of(program.step().calls[instruction.call]);
  const Node& node = graph.node(instruction.node);
  found.value = graph.value(node.results[result]).name;
  found.op = std::string(node.op->name());
  found.block = node.block;
  return found;
}

}  // namespace

std::string ToText(const NonFinite& found) {
  return absl::StrCat(found.kind, " in ", found.value, " (", found.op, ", ", ToString(found.type),
                      ", element ", found.element, ")");
}

BadElement FindNonFinite(DType dtype, const void* data, int64_t n) {
  switch (dtype) {
    case DType::kF64:
      return FindAs(static_cast<const double*>(data), n);
    case DType::kF32:
      return FindAs(static_cast<const float*>(data), n);
    case DType::kBF16:
      return FindAs(static_cast<const BF16*>(data), n);
    case DType::kF16:
      return FindAs(static_cast<const F16*>(data), n);
    default:
      return {n, ""};
  }
}

void NonFiniteSearch::Before(size_t t) {
  if (inner_ != nullptr) inner_->Before(t);
}

absl::Status NonFiniteSearch::After(size_t t) {
  if (inner_ != nullptr) RETURN_IF_ERROR(inner_->After(t));
  if (found_) return absl::OkStatus();
  const Instruction& instruction = program_.plan().instructions[t];
  // Copies and fetches move values that were seen when they were made.
  if (instruction.kind != InstructionKind::kKernel && instruction.kind != InstructionKind::kFeed) {
    return absl::OkStatus();
  }
  for (size_t r = 0; r < instruction.results.size(); ++r) {
    const Type type = TypeOf(program_, instruction, r);
    if (!IsFloat(type.dtype)) continue;
    values_.resize(static_cast<size_t>(type.bytes()));
    BufferRange range = instruction.results[r];
    range.bytes = type.bytes();
    RETURN_IF_ERROR(program_.ReadRange(range, values_.data()));
    const BadElement bad = FindNonFinite(type.dtype, values_.data(), type.elements());
    if (bad.index == type.elements()) continue;
    found_ = Describe(program_, instruction, r);
    found_->element = bad.index;
    found_->kind = std::string(bad.kind);
    found_->instruction = static_cast<int64_t>(t);
    return go_on_ ? absl::OkStatus() : absl::AbortedError(ToText(*found_));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<NonFinite>> FindNonFiniteState(Program& program) {
  std::vector<char> piece(static_cast<size_t>(kPieceBytes));
  for (const StateHome& home : program.plan().states) {
    if (!IsFloat(home.type.dtype)) continue;
    const int64_t size = SizeOf(home.type.dtype);
    for (int64_t at = 0; at < home.type.bytes(); at += kPieceBytes) {
      const int64_t bytes = std::min(kPieceBytes, home.type.bytes() - at);
      RETURN_IF_ERROR(program.ReadStateBytes(home.info.name, at, piece.data(), bytes));
      const BadElement bad = FindNonFinite(home.type.dtype, piece.data(), bytes / size);
      if (bad.index == bytes / size) continue;
      NonFinite found;
      found.value = home.info.name;
      found.op = "state";
      found.type = home.type;
      found.element = at / size + bad.index;
      found.kind = std::string(bad.kind);
      return std::optional<NonFinite>(found);
    }
  }
  return std::optional<NonFinite>();
}

}  // namespace colossus
