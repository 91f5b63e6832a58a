// A program in a workspace of its own that uses the collectives of Colossus and nothing else of it:
// four ranks, threads of this process, add up what they have.
//
//   cd examples/consumer && bazel run //:ranks

#include <cstdint>
#include <cstdio>

#include "absl/status/status.h"
#include "base/status.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"

namespace {

absl::Status Add(colossus::Communicator& world) {
  int64_t sum = world.rank() + 1;
  RETURN_IF_ERROR(colossus::AllReduce(world, &sum, 1, "sum"));
  if (world.rank() == 0) std::printf("%lld\n", static_cast<long long>(sum));
  return sum == 10 ? absl::OkStatus() : absl::InternalError("1 + 2 + 3 + 4 is not 10");
}

}  // namespace

int main() {
  const absl::Status status = colossus::RunRanks({.ranks = 4}, Add);
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
