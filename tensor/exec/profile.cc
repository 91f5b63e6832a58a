#include "tensor/exec/profile.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"
#include "tensor/ops/op.h"

namespace colossus {
namespace {

// Operands named in a call's row; ops over many tensors only say how many more there are.
constexpr size_t kMostOperands = 4;

std::string CallText(const Node& node, const Types& operands) {
  std::string text(node.op->name());
  const AttributeValue* spec = node.attributes.Find("spec");
  if (spec != nullptr) absl::StrAppend(&text, " (", node.attributes.String("spec"), ")");
  for (size_t i = 0; i < std::min(operands.size(), kMostOperands); ++i) {
    absl::StrAppend(&text, " ", ToString(operands[i]));
  }
  if (operands.size() > kMostOperands) {
    absl::StrAppend(&text, " and ", operands.size() - kMostOperands, " more");
  }
  return text;
}

}  // namespace

Profile::Profile(Program& program) : program_(program) {
  rows_.reserve(program.plan().instructions.size());
  for (size_t t = 0; t < program.plan().instructions.size(); ++t) rows_.push_back(RowOf(t));
}

Profile::Row Profile::RowOf(size_t t) {
  const Instruction& instruction = program_.plan().instructions[t];
  const Step& step = program_.step();
  const Call& call = step.calls[instruction.call];
  std::string op(Name(instruction.kind)), block = step.segments[call.segment].segment.name;
  std::string called = op;
  double flops = 0, bytes = 0;
  if (instruction.kind == InstructionKind::kKernel) {
    const Graph& graph = step.graph_of(call);
    const Node& node = graph.node(instruction.node);
    const Types operands = graph.OperandTypes(node);
    const Cost cost = node.op->CostOf({operands, node.attributes});
    flops = cost.flops;
    bytes = cost.bytes;
    op = std::string(node.op->name());
    called = CallText(node, operands);
    if (!node.block.empty()) block = node.block;
  } else {
    const auto& moved =
        instruction.results.empty() ? instruction.operands : instruction.results;
    bytes = 2.0 * static_cast<double>(std::accumulate(
                      moved.begin(), moved.end(), int64_t{0},
                      [](int64_t sum, const BufferRange& range) { return sum + range.bytes; }));
  }
  return {&by_op_[op], &by_block_[block], &by_call_[called], flops, bytes};
}

void Profile::Before(size_t) { start_ = program_.device().clock().Seconds(); }

absl::Status Profile::After(size_t t) {
  const double seconds = program_.device().clock().Seconds() - start_;
  const Row& row = rows_[t];
  for (Sum* sum : {row.op, row.block, row.call}) {
    sum->seconds += seconds;
    ++sum->count;
    sum->flops += row.flops;
    sum->bytes += row.bytes;
  }
  seconds_ += seconds;
  return absl::OkStatus();
}

std::vector<std::pair<std::string, Profile::Sum>> LongestFirst(const Profile::Sums& sums) {
  std::vector<std::pair<std::string, Profile::Sum>> rows(sums.begin(), sums.end());
  std::erase_if(rows, [](const auto& row) { return row.second.count == 0; });
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  return rows;
}

}  // namespace colossus
