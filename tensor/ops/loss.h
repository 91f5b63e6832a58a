// Cross-entropy, from logits or with the output projection inside.
//
//   loss_sum = sum over counting positions of log(sum_v exp(logit_v)) - logit_label
//
// Purpose: a sum, not a mean: one place divides by the update's token count. Positions whose label
// is `ignore` add exactly zero to loss and gradients; any other label outside the classes makes
// the loss NaN, which the non-finite check finds. Columns from `classes` on are padding: they take
// no part.
//   linear_cross_entropy never makes the whole logits: it works in chunks of tokens, and computes
//   the gradients in the same loop, since the cotangent of loss_sum is known beforehand (`seed`).
// Thread-safety: stateless singletons.
//
//   LossOptions options;
//   options.seed = seed;                                     // f32[]: d(total) / d(loss_sum)
//   ValueId loss = LinearCrossEntropy(b, x, w, labels, options);
#ifndef COLOSSUS_TENSOR_OPS_LOSS_H_
#define COLOSSUS_TENSOR_OPS_LOSS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

inline constexpr int64_t kIgnoreLabel = -100;
inline constexpr int64_t kLossChunk = 1024;  // tokens; a constant, so that bits do not depend on it

// Operands: logits[.. v] float, labels[..] i32 or i64. Attributes: ignore (int, -100), classes
// (int, default v). Results: loss_sum f32[], lse f32[..] (both f64 for f64 logits).
const Op& CrossEntropyOp();

// Operands: dloss (as loss_sum), logits, labels, lse. Attributes as above and dtype (string, of the
// result, default that of logits), origin (int). With origin logits are columns of a larger matrix,
// origin the number of the first of them, classes that of the whole matrix, and lse of its rows.
// Result: dlogits.
const Op& CrossEntropyGradOp();

// Columns of logits[.. v] that are classes: all of them but padding. REQUIRES: Infer accepts.
int64_t ClassesOfPart(const OpCall& call, int64_t v);

// Operands: x[.. c], w[v c] (one float dtype), labels[..], with seed f32[], bias[v] (the same
// float dtype). Attributes: chunk (int, tokens, 1024), ignore, classes. Results: loss_sum f32[];
// with a seed also dx (x's type), dw f32[v c] and, with a bias, dbias f32[v] (f64 for f64).
// Its gradient requires the cotangent of loss_sum to be the very value given as seed.
const Op& LinearCrossEntropyOp();

struct LossOptions {
  ValueId seed = kNoValue;  // linear_cross_entropy only; without it no gradient
  ValueId bias = kNoValue;  // linear_cross_entropy only
  int64_t ignore = kIgnoreLabel;
  int64_t classes = 0;      // 0: all columns
  int64_t chunk = kLossChunk;
};

// loss_sum.
ValueId CrossEntropy(GraphBuilder& graph, ValueId logits, ValueId labels,
                     const LossOptions& options = {}, absl::string_view name = "");
ValueId LinearCrossEntropy(GraphBuilder& graph, ValueId x, ValueId w, ValueId labels,
                           const LossOptions& options = {}, absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_LOSS_H_
