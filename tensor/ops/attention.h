// attention: softmax(q k^T) v with everything that decides which key a query sees.
//
//   score = scale * q.k;  score = softcap * tanh(score / softcap);
//   score += slopes[h] * (pk - pq) + bias;  out = softmax over the visible keys (score) v
//
// Purpose: one op for causal, windowed, packed, grouped-query, biased and cached attention, so that
// every kernel either honours all of it or declines. Query head i uses key/value head i / r with
// h = g * r.
//   Key j is visible to query i iff all hold (pq, pk: positions, by default the index):
//     no segments, or q_segments[i] == k_segments[j];   not causal, or pk[j] <= pq[i];
//     window == 0, or pq[i] - pk[j] < window;           no kv_length, or j < kv_length[b].
//   A query that sees no key: out 0, lse -infinity.
//   Dropout of probabilities: element ((row * h + head) * s + pq) * t + pk, row = first_row + b,
//   all in global indices and extents (origin, global, key_origin, key_global), see dropout.h. So
//   where positions are given they name the place in the row: unique in it and, where masks are of
//   account, below its length.
// Thread-safety: stateless singletons.
//
//   AttentionOptions options;
//   options.scale = 1 / std::sqrt(64.0);
//   options.causal = true;
//   ValueId out = Attention(b, q, k, v, options);   // [b s h e]
#ifndef COLOSSUS_TENSOR_OPS_ATTENTION_H_
#define COLOSSUS_TENSOR_OPS_ATTENTION_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: q[b s h d], k[b t g d], v[b t g e] (one float dtype), with q_segments[b s] i32,
// k_segments[b t] i32, q_positions[b s] i32, k_positions[b t] i32, kv_length[b] i32,
// slopes[h] f32, bias[h s t] or [b h s t] (any float dtype), dropout_key i64[2] (seed, update),
// first_row i64[]. Attributes: scale (float), causal (bool), window (int, 0 none), softcap (float,
// 0 none), dropout_rate (float), site (string), and, where the operands are parts of larger ones,
// origin and global (ints, over the dims of result 0: [b s h e]), key_origin and key_global (int,
// over t). Results: out[b s h e] in q's dtype, lse[b h s] f32 (f64 for f64).
const Op& AttentionOp();

// Operands: dout (as out), q, k, v, out, lse, then the optional ones of attention. Attributes: the
// same. Results: dq, dk, dv, and dbias (the bias' type) if there is a bias.
const Op& AttentionGradOp();

struct AttentionOptions {
  double scale = 1;
  bool causal = false;
  int64_t window = 0;       // 0: none
  double softcap = 0;       // 0: none
  double dropout_rate = 0;  // 0: none; else dropout_key, first_row and site are needed
  std::string site;
  // Positions that a row has, where some of the keys and queries are padding behind them; needs
  // q_positions and k_positions. 0: as there are.
  int64_t row_length = 0;
  // Optional operands.
  ValueId q_segments = kNoValue, k_segments = kNoValue;
  ValueId q_positions = kNoValue, k_positions = kNoValue;
  ValueId kv_length = kNoValue, slopes = kNoValue, bias = kNoValue;
  ValueId dropout_key = kNoValue, first_row = kNoValue;
};

// out.
ValueId Attention(GraphBuilder& graph, ValueId q, ValueId k, ValueId v,
                  const AttentionOptions& options, absl::string_view name = "");

// What a kernel reads off a call: extents, operand indices (-1: absent), attributes with defaults.
struct AttentionProblem {
  int64_t b, s, t, h, g, d, e;
  int q_segments, k_segments, q_positions, k_positions, kv_length, slopes, bias, dropout_key,
      first_row;
  bool bias_per_batch;  // bias[b h s t]
  double scale, softcap, dropout_rate;
  bool causal;
  int64_t window;
  std::array<int64_t, 4> origin, global;  // b s h e
  int64_t key_origin, key_global;
};
// `fixed`: operands before the optional ones, 3 for attention and 6 for attention_grad.
// REQUIRES: Infer accepts the call.
AttentionProblem DescribeAttention(const OpCall& call, int fixed);

// Pairs (query, key) counted by CostOf, of one batch entry and head: exact with default positions
// and without segments and kv_length. Else an estimate: all pairs if there are positions and s and
// t differ, half of them for some of the keys if causal, and as with default positions if not.
int64_t AttentionPairs(const AttentionProblem& problem);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_ATTENTION_H_
