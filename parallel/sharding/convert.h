// From one sharding of a value to another, by the cheapest chain of collectives.
//
// Purpose: where a node needs an operand otherwise than its producer left it, the partitioner calls
// this and nothing else. The chain is found by a search over shardings with these steps:
//   all_reduce      partial axes are added up
//   reduce_scatter  partial axes are added up and split a dim
//   all_gather      the minor axes of a dim no longer split it
//   all_to_all      the minor axes of a dim split another dim instead
//   slice           axes along which the value is the same on all ranks split a dim; no traffic
// The cost of a chain is its seconds (collectives/cost.h); of equal ones the shorter, then the
// first in a fixed order, so that all ranks find the same. Thread-safety: pure functions.
// Ownership: none.
//
//   ASSIGN_OR_RETURN(ValueId whole, ConvertSharding(graph, part, {DType::kF32, {8, 6}},
//                                                   {{{"data"}, {}}, {}}, Replicated(2), mesh,
//                                                   rank));
#ifndef COLOSSUS_PARALLEL_SHARDING_CONVERT_H_
#define COLOSSUS_PARALLEL_SHARDING_CONVERT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/mesh.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/types.h"

namespace colossus {

enum class ConversionKind : uint8_t { kSlice, kAllReduce, kReduceScatter, kAllGather, kAllToAll };
absl::string_view Name(ConversionKind kind);  // "slice", "all_reduce", ...

struct ConversionStep {
  ConversionKind kind = ConversionKind::kSlice;
  AxisNames axes;  // of the group, major to minor
  int dim = -1;    // gathered, split, or (all_to_all) put together; -1: all_reduce
  int split = -1;  // all_to_all: the dim that is split instead
  Sharding after;  // of the value when it is done
  double seconds = 0;
  double bytes = 0;  // that a rank sends, at the bound: (P - 1)/P of the buffer, twice to add up
};

struct Conversion {
  std::vector<ConversionStep> steps;  // empty: nothing to do
  double seconds = 0, bytes = 0;
};

// The chain, for a value of the global type. Axes of size 1 split nothing and do not count.
// Error: InvalidArgument if one of the shardings does not fit the type and the mesh
// (CheckSharding), or `to` is partial over an axis over which `from` is not.
absl::StatusOr<Conversion> PlanConversion(const Type& global, const Sharding& from,
                                          const Sharding& to, const Mesh& mesh);

// Adds the chain to `rank`'s graph: `local` is its part of the value, sharded as `from`; the result
// is its part as `to`. Errors: those of PlanConversion.
absl::StatusOr<ValueId> ConvertSharding(GraphBuilder& graph, ValueId local, const Type& global,
                                        const Sharding& from, const Sharding& to, const Mesh& mesh,
                                        int rank);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_SHARDING_CONVERT_H_
