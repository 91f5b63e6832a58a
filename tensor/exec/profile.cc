#include "tensor/exec/profile.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace colossus {
namespace {

std::string Table(absl::string_view title, const std::map<std::string, Profile::Sum>& sums,
                  double total) {
  std::vector<std::pair<std::string, Profile::Sum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  std::string text = absl::StrFormat("%12s %6s %8s  %s\n", "seconds", "share", "count", title);
  for (const auto& [name, sum] : rows) {
    absl::StrAppendFormat(&text, "%12.6f %5.1f%% %8d  %s\n", sum.seconds,
                          total > 0 ? 100 * sum.seconds / total : 0.0, sum.count, name);
  }
  return text;
}

}  // namespace

void Profile::Before(size_t) { start_ = program_.device().clock().Seconds(); }

absl::Status Profile::After(size_t t) {
  const double seconds = program_.device().clock().Seconds() - start_;
  const Instruction& instruction = program_.plan().instructions[t];
  const Step& step = program_.step();
  const Call& call = step.calls[instruction.call];
  std::string op(Name(instruction.kind)), block = step.segments[call.segment].segment.name;
  if (instruction.kind == InstructionKind::kKernel) {
    const Node& node = step.graph_of(call).node(instruction.node);
    op = std::string(node.op->name());
    if (!node.block.empty()) block = node.block;
  }
  for (Sum* sum : {&by_op_[op], &by_block_[block]}) {
    sum->seconds += seconds;
    ++sum->count;
  }
  seconds_ += seconds;
  return absl::OkStatus();
}

std::string Profile::ToText() const {
  return Table("op", by_op_, seconds_) + "\n" + Table("block", by_block_, seconds_);
}

}  // namespace colossus
