#include "parallel/check_copies.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/status.h"
#include "collectives/communicator.h"
#include "parallel/zero/held_ranges.h"
#include "xxhash.h"

namespace colossus {
namespace {

struct Hashes {
  std::vector<std::string> states;
  std::vector<int64_t> values;
};

}  // namespace

absl::Status CheckCopies(Program& program, const std::vector<LocalState>& states,
                         const ZeroLayout& zero, MeshCommunicators& ranks) {
  std::map<AxisNames, Hashes> by_axes;
  std::vector<char> bytes;
  for (const LocalState& state : states) {
    const int64_t size = SizeOf(state.type.dtype);
    for (const HeldRange& range : HeldRanges(zero, state, ranks.mesh(), ranks.rank())) {
      if (range.copies.empty()) continue;
      bytes.resize(static_cast<size_t>(range.count * size));
      RETURN_IF_ERROR(program.ReadStateBytes(range.home, range.home_first * size, bytes.data(),
                                             range.count * size));
      Hashes& hashes = by_axes[range.copies];
      hashes.states.push_back(state.info.name);
      hashes.values.push_back(static_cast<int64_t>(XXH3_64bits(bytes.data(), bytes.size())));
    }
  }
  absl::Status result;
  for (const auto& [axes, hashes] : by_axes) {
    std::vector<int64_t> low = hashes.values, high = hashes.values;
    const int64_t count = static_cast<int64_t>(low.size());
    ASSIGN_OR_RETURN(Communicator * group, ranks.On(axes));
    RETURN_IF_ERROR(AllReduce(*group, low.data(), count, "check_copies", Reduction::kMin));
    RETURN_IF_ERROR(AllReduce(*group, high.data(), count, "check_copies", Reduction::kMax));
    for (size_t i = 0; i < low.size() && result.ok(); ++i) {
      if (low[i] == high[i]) continue;
      result = absl::DataLossError(
          absl::StrCat("state '", hashes.states[i], "' differs between the ranks along [",
                       absl::StrJoin(axes, ", "), "], which hold the same of it"));
    }
  }
  return result;
}

}  // namespace colossus
