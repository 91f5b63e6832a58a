// Propagation: from a few pinned shardings to one for every value.
//
// Purpose: one function decides a node, over its factor rule alone: which mesh axes split which
// factors, how operands must lie and how results come out. No op is known here by name but those
// through which a pending sum may pass.
// The decision, in order; an axis serves one factor of a node, and what comes first wins:
//   1 operands that are states: parameters do not move
//   2 gradients of parameters, which lie as their parameters
//   3 the other operands, the largest first: what lies well is not moved
//   4 pinned and wished results, where axes are left
// Of 3 and 4 another order is taken where it splits as much and its conversions move fewer bytes:
// results first, or another operand first.
// A factor takes an axis only if its kind allows it and its extent divides. An operand with a
// pending sum is summed before it is used, unless the node passes sums on (adds of values with the
// same pending sum, ops that only move elements).
// Thread-safety: plain functions. Ownership: plain values.
//
//   NodeSharding s = ShardNode(request);
//   s.operands[1];     // what operand 1 must be converted to
//   s.results[0];      // how result 0 comes out, perhaps as a pending sum
#ifndef COLOSSUS_PARALLEL_SHARDING_PROPAGATE_H_
#define COLOSSUS_PARALLEL_SHARDING_PROPAGATE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/mesh.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/ops/factor_rule.h"

namespace colossus {

// How a value should lie.
struct Want {
  Sharding sharding;      // partial is not used
  bool pinned = false;    // else a wish: what its readers would like
  bool gradient = false;  // of a parameter: pending sums stay
};

struct ShardRequest {
  const Node* node = nullptr;
  const FactorRule* rule = nullptr;  // bound to the global types
  Types operand_types;               // global
  std::vector<Sharding> operands;    // as they lie
  std::vector<bool> states;          // which operands are states
  std::vector<std::optional<Want>> results;
  const Mesh* mesh = nullptr;
};

struct NodeSharding {
  std::vector<AxisNames> factors;  // axes of each factor, major to minor
  std::vector<Sharding> operands;  // as the local node reads them
  std::vector<Sharding> results;   // as it makes them; for expand factors the lowering says how
  bool expands = false;            // an expand factor is split: Op::Expand lowers the node
  std::vector<Sharding> wanted;    // of results, for lowerings that have a choice; may be empty
};

NodeSharding ShardNode(const ShardRequest& request);

// For each value how it should lie, if anybody cares: annotations of the graph are pins, and so are
// `gradients`, the shardings of the outputs that are gradients of parameters; through ops that keep
// the shape, a pin is a wish of their operands.
std::vector<std::optional<Want>> WantsOf(const Graph& annotated,
                                         const std::map<std::string, Sharding>& gradients);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_SHARDING_PROPAGATE_H_
