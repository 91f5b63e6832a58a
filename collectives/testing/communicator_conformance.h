// The communicator conformance suite: what every backend must do.
//
// Purpose: a backend's test is a capability struct and one call. It runs every collective over
// every size of group, type, reduction and many lengths (0, 1, odd, uneven, rows, in place),
// against the reference (reference.h), bit by bit; subgroups, order on streams, counts, refusals
// and the end of all ranks when one fails.
// Thread-safety: call while static variables are initialised; the tests run with RUN_ALL_TESTS.
// Ownership: copies the struct.
//
//   const bool registered = RegisterCommunicatorConformance(
//       {.name = "InProcess", .run = [](int ranks, const RankFunction& fn) {
//          return RunRanks({.ranks = ranks}, fn); }});
#ifndef COLOSSUS_COLLECTIVES_TESTING_COMMUNICATOR_CONFORMANCE_H_
#define COLOSSUS_COLLECTIVES_TESTING_COMMUNICATOR_CONFORMANCE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"

namespace colossus {

using RankFunction = std::function<absl::Status(Communicator&)>;

struct CommunicatorBackend {
  std::string name = {};  // of the test suite: letters and digits
  std::vector<int> sizes = {1, 2, 3, 4, 5, 7, 8, 16};
  // Sums are those of the canonical tree, bit by bit; false: near, within roundings.
  bool canonical = true;
  bool counts = true;  // counts() counts elements
  // What a rank sends in an operation, exactly; elements alone are checked without it.
  std::function<CollectiveCounts(const Collective& operation, int rank, int size)> counts_of = {};
  bool any_stream = true;  // Launch takes any stream
  bool at_once = true;     // several communicators of a rank wait in real time at once
  // Ranks may fail and worlds may be thrown away: tests of errors run. False where the processes of
  // all tests are one world.
  bool disposable = true;
  // Runs the function on each rank of a new group of `ranks`; returns when those of this process
  // are done, with the first error.
  std::function<absl::Status(int ranks, const RankFunction& rank)> run = {};
  // Buffers the backend can use, where plain host memory is not enough; both or none.
  std::function<void*(int64_t bytes)> allocate = {};
  std::function<void(void* buffer)> release = {};
  std::function<void(void* dst, const void* src, int64_t bytes)> copy = {};  // to and from the host
};

// Returns true, for use as an initialiser.
bool RegisterCommunicatorConformance(const CommunicatorBackend& backend);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_TESTING_COMMUNICATOR_CONFORMANCE_H_
