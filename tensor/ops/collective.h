// Collectives as ops: what the ranks of a group do together, in a rank's local graph.
//
//   all_reduce      sum (or max, min) of the values of all ranks
//   all_gather      the parts of all ranks beside each other along a dim
//   reduce_scatter  a rank's part, along a dim, of the sum
//   all_to_all      splits one dim over the ranks and puts together another
//   shift           every rank's values move to the rank `by` places further, around the ring
//   send, receive   one value from one rank of a group to another; the others take no part
//
// Purpose: after partitioning a rank's graph is an ordinary graph in which these are ordinary
// nodes. The group is the ranks of the mesh that differ along `axes` only, numbered along these
// axes, the first slowest; `parts` is their number. All ranks of a group have the same collectives
// in the same order, on values of the same types; of send and receive that holds for each pair of
// ranks and direction, and a send ends when its receive does. Reductions add in the canonical order
// of collectives/communicator.h. A rank's own part of a value that it has whole is a `slice`.
//   There is no gradient (differentiation comes before partitioning), no factor may be split, and
// no reference kernel: kernels need a communicator (tensor/kernels/collective), and what they
// compute is defined over the values of all ranks (tensor/testing/collective_definition.h).
// Thread-safety: stateless singletons.
//
//   ValueId sum = AllReduce(b, partial, {"tensor"}, 4);
//   ValueId rows = AllGather(b, part, {"data", "sequence"}, 8, /*dim=*/0);
#ifndef COLOSSUS_TENSOR_OPS_COLLECTIVE_H_
#define COLOSSUS_TENSOR_OPS_COLLECTIVE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/sharding.h"
#include "tensor/ops/op.h"

namespace colossus {

// All: operand x of type f64, f32, bf16, f16, i64 or i32 (send: of any). Attributes: axes (strings,
// the group), parts (int, its size), site (string, optional: where in the program, for reports).

// Attribute reduction (string: "sum", "max" or "min"). Result: as x.
const Op& AllReduceOp();
// Attributes dim (int), index (int, optional: this rank's place in the group; where it is given and
// nothing comes before dim, x may be made at its place in the result). Result: x with dims[dim] *
// parts.
const Op& AllGatherOp();
// Attribute dim (int), whose extent parts divides. Result: x with dims[dim] / parts.
const Op& ReduceScatterOp();
// Attributes split, join (ints, two dims); parts divides the extent of split. Result: x with
// dims[split] / parts and dims[join] * parts.
const Op& AllToAllOp();
// One or more operands. Attribute by (int). Results: one per operand, of its type: the operand of
// the rank `by` places before.
const Op& ShiftOp();
// Attribute to (int), the receiver's place in the group. Result: i32[1] that says
// nothing, there when x was taken.
const Op& SendOp();
// No operands. Attributes from (int), the sender's place; dtype (string) and dims (ints) of the
// result.
const Op& ReceiveOp();

bool IsCollective(const Op& op);

// For send and receive, in place of axes of the mesh: all ranks of the job, in the job's order.
inline constexpr char kWorldAxis[] = "world";

// In a group of one these return x itself (the operands).
ValueId AllReduce(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts,
                  absl::string_view reduction = "sum", absl::string_view name = "");
ValueId AllGather(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts, int dim,
                  absl::string_view name = "");
// The same along dim 0, with the rank's place in the group.
ValueId AllGatherInPlace(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts,
                         int64_t index, absl::string_view name = "");
ValueId ReduceScatter(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts, int dim,
                      absl::string_view name = "");
ValueId AllToAll(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts, int split,
                 int join, absl::string_view name = "");
ValueIds Shift(GraphBuilder& graph, ValueIds x, const AxisNames& axes, int64_t parts, int64_t by,
               absl::string_view name = "");

// The group's other end must do the reverse.
ValueId Send(GraphBuilder& graph, ValueId x, const AxisNames& axes, int64_t parts, int64_t to,
             absl::string_view name);
ValueId Receive(GraphBuilder& graph, const Type& type, const AxisNames& axes, int64_t parts,
                int64_t from, absl::string_view name);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_COLLECTIVE_H_
