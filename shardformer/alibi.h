// ALiBi: how steeply attention falls with distance, by head.
//
// Purpose: the slopes of a model without position embeddings, for any number of heads. They are an
// operand of attention (tensor/ops/attention.h), one number a head, so ranks that split heads take
// those of their heads. A head's slope depends on the number of heads of the whole model.
// Thread-safety: a plain function.
//
//   AlibiSlopes(6);   // 0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125
#ifndef COLOSSUS_SHARDFORMER_ALIBI_H_
#define COLOSSUS_SHARDFORMER_ALIBI_H_

#include <cstdint>
#include <vector>

namespace colossus {

// With n the largest power of two that is not above `heads`: 2^(-8 i / n) for i = 1 .. n, then
// every other slope of 2n heads. REQUIRES: heads > 0.
std::vector<float> AlibiSlopes(int64_t heads);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_ALIBI_H_
