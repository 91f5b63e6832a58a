#include "parallel/place_again.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"
#include "tensor/ops/collective.h"

namespace colossus {
namespace {

// FNV-1a.
void Mix(absl::string_view text, uint64_t& hash) {
  for (char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
}

// Whether all ranks have this value.
absl::StatusOr<bool> IsShared(Communicator& ranks, int64_t value) {
  int64_t least = value, most = value;
  RETURN_IF_ERROR(AllReduce(ranks, &least, 1, "place_again", Reduction::kMin));
  RETURN_IF_ERROR(AllReduce(ranks, &most, 1, "place_again", Reduction::kMax));
  return least == most;
}

absl::Status TakeMost(Communicator& ranks, std::vector<double>& seconds) {
  return AllReduce(ranks, seconds.data(), static_cast<int64_t>(seconds.size()), "place_again",
                   Reduction::kMax);
}

// Seconds per byte, so that the most is the slowest.
absl::Status TakeSlowest(Communicator& ranks, StepTimes& times) {
  RETURN_IF_ERROR(TakeMost(ranks, times.device));
  RETURN_IF_ERROR(TakeMost(ranks, times.host));
  std::vector<double> per_byte;
  for (double rate : {times.link, times.disk_read, times.disk_write}) {
    per_byte.push_back(rate > 0 ? 1 / rate : 0);
  }
  RETURN_IF_ERROR(TakeMost(ranks, per_byte));
  auto rate = [&](size_t i) { return per_byte[i] > 0 ? 1 / per_byte[i] : 0; };
  times.link = rate(0);
  times.disk_read = rate(1);
  times.disk_write = rate(2);
  return absl::OkStatus();
}

}  // namespace

uint64_t CollectiveHash(const Program& program) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const Instruction& instruction : program.plan().instructions) {
    if (instruction.kind != InstructionKind::kKernel) continue;
    const Graph& graph = program.step().graph_of(program.step().calls[instruction.call]);
    const Node& node = graph.node(instruction.node);
    if (!IsCollective(*node.op)) continue;
    Mix(absl::StrCat(node.op->name(), node.attributes.ToString(), " ", instruction.name, ".",
                     instruction.micro_batch),
        hash);
    for (const Type& type : graph.OperandTypes(node)) Mix(ToString(type), hash);
  }
  return hash;
}

absl::StatusOr<bool> PlaceAgain(Program& program, const StepTimes& times, Communicator* ranks) {
  StepTimes slowest = times;
  if (ranks != nullptr && ranks->size() > 1) {
    const uint64_t hash = CollectiveHash(program) ^ times.device.size();
    ASSIGN_OR_RETURN(const bool same, IsShared(*ranks, static_cast<int64_t>(hash)));
    if (!same) {
      return absl::InternalError(
          "ranks that should run the same step have other collectives, or another number of "
          "instructions");
    }
    if (program.plan().placed) RETURN_IF_ERROR(TakeSlowest(*ranks, slowest));
  }
  if (!program.plan().placed) return false;
  return program.PlaceAgain(slowest);
}

}  // namespace colossus
