// Runs an operation by one of the algorithms.
//
// Purpose: the one list from (algorithm, operation) to the function that does it.
// Thread-safe: a function of its arguments; the link is one thread's.
//
//   RETURN_IF_ERROR(RunAlgorithm(ChooseAlgorithm(op, link.size(), rates), link, op));
#ifndef COLOSSUS_COLLECTIVES_ALGORITHMS_RUN_ALGORITHM_H_
#define COLOSSUS_COLLECTIVES_ALGORITHMS_RUN_ALGORITHM_H_

#include "absl/status/status.h"
#include "collectives/algorithms/point_to_point.h"
#include "collectives/communicator.h"
#include "collectives/cost.h"

namespace colossus {

// REQUIRES: a valid operation, CanDo(algorithm, operation, link.size()), not kDirect.
absl::Status RunAlgorithm(Algorithm algorithm, PointToPoint& link, const Collective& operation);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_ALGORITHMS_RUN_ALGORITHM_H_
