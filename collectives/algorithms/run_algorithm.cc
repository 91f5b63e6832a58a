#include "collectives/algorithms/run_algorithm.h"

#include "base/check.h"
#include "collectives/algorithms/pairwise.h"
#include "collectives/algorithms/recursive.h"
#include "collectives/algorithms/tree.h"

namespace colossus {
namespace {

absl::Status RunAllReduce(Algorithm algorithm, PointToPoint& link, const Collective& op) {
  switch (algorithm) {
    case Algorithm::kHalving:
      return HalvingAllReduce(link, op);
    case Algorithm::kDoubling:
      return DoublingAllReduce(link, op);
    case Algorithm::kTree:
      return TreeAllReduce(link, op);
    default:
      return PairwiseAllReduce(link, op);
  }
}

}  // namespace

absl::Status RunAlgorithm(Algorithm algorithm, PointToPoint& link, const Collective& op) {
  CHECK(algorithm != Algorithm::kDirect && CanDo(algorithm, op, link.size())) << Name(algorithm);
  switch (op.kind) {
    case CollectiveKind::kAllReduce:
      return RunAllReduce(algorithm, link, op);
    case CollectiveKind::kAllGather:
      return algorithm == Algorithm::kDoubling ? DoublingAllGather(link, op)
                                               : PairwiseAllGather(link, op);
    case CollectiveKind::kReduceScatter:
      return algorithm == Algorithm::kHalving ? HalvingReduceScatter(link, op)
                                              : PairwiseReduceScatter(link, op);
    case CollectiveKind::kAllToAll:
      return PairwiseAllToAll(link, op);
    case CollectiveKind::kBroadcast:
      return TreeBroadcast(link, op);
    case CollectiveKind::kExchange:
      return PairwiseExchange(link, op);
    case CollectiveKind::kBarrier:
      return DisseminationBarrier(link);
  }
  CHECK(false);
  return absl::OkStatus();
}

}  // namespace colossus
