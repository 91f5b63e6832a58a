// Chain: pointwise ops, conversions and dropout of one iteration space, computed in one pass.
//
// Purpose: what the fusion pass (tensor/passes/fusion.h) joins, so that values between the ops
// never reach memory. A chain is defined by its ops: every step rounds to its own element type as
// the op alone would, so a chain has the bits of its steps one by one.
// Thread-safety: a stateless singleton; pure functions. Ownership: a program holds plain values.
//
// A program is a list of steps, one string each: the op, its values (x0, x1, ... operands; t0, t1,
// ... earlier steps), then attributes. `results` says which steps leave the chain:
//
//   %y, %z = chain(%a, %bias) {results=[0, 1], steps=["add x0 x1", "gelu_tanh t0"]}
#ifndef COLOSSUS_TENSOR_OPS_CHAIN_H_
#define COLOSSUS_TENSOR_OPS_CHAIN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/ops/op.h"

namespace colossus {

// Bounds the tiles a kernel holds at once.
inline constexpr int kMaxChainSteps = 16, kMaxChainOperands = 16;

struct ChainStep {
  const Op* op = nullptr;
  std::vector<int> values;  // operand i of the chain is i, step j is operands + j
  Attributes attributes;
};

struct ChainProgram {
  int operands = 0;
  std::vector<ChainStep> steps;
  std::vector<int> results;  // steps, ascending

  // The attributes that say this; ParseChain gives the same program back.
  Attributes ToAttributes() const;
};

// Whether a call of the op may be a step, whatever its operands: pointwise ops, conversions, and
// dropout of a whole tensor.
bool IsChainable(const Op& op, const Attributes& attributes);

// Error: InvalidArgument citing chain_c1, chain_c2 or chain_c5.
absl::StatusOr<ChainProgram> ParseChain(const Attributes& attributes, int operands);

// The types of the chain's values: operands, then steps. Error: InvalidArgument citing chain_c3 or
// chain_c4.
absl::StatusOr<Types> ChainTypes(const ChainProgram& program, absl::Span<const Type> operands);

// Operands: as many as the steps name. Results: the steps' that `results` lists. No gradient:
// fusion comes after autodiff.
const Op& ChainOp();

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_CHAIN_H_
