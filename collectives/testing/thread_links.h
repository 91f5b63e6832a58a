// Point-to-point links among threads: the algorithms' ground in tests.
//
// Purpose: runs an algorithm on any number of ranks in one process, and counts what each sends.
// Sends are buffered; receives wait in order, for each pair of ranks apart.
// Thread-safety: each link is one thread's. Ownership: links share their mailboxes.
//
//   std::vector<CollectiveCounts> sent =
//       RunOnThreadLinks(5, [&](PointToPoint& link) { return TreeBroadcast(link, ops[...]); });
#ifndef COLOSSUS_COLLECTIVES_TESTING_THREAD_LINKS_H_
#define COLOSSUS_COLLECTIVES_TESTING_THREAD_LINKS_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "collectives/algorithms/point_to_point.h"
#include "collectives/communicator.h"

namespace colossus {

// Runs `rank` on a thread for each rank. What each sent to others; `operations` is 0. A receive of
// another size than was sent, an error of a rank, and a message that nobody took are test failures.
std::vector<CollectiveCounts> RunOnThreadLinks(
    int ranks, const std::function<absl::Status(PointToPoint& link)>& rank);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_TESTING_THREAD_LINKS_H_
