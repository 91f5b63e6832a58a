#include "tensor/ops/attention_expand.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/attention_merge.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/shape.h"

namespace colossus {
namespace {

// The keys of one rank, and where they are from.
struct Block {
  ValueIds values;  // what travels, in the order of the ring's operands
  int64_t index = 0;
};

// A ring of P steps. At step i rank r has block (r - i) mod P.
class Ring {
 public:
  // `fixed`: operands before the optional ones, 3 or 6.
  Ring(ShardedCall& call, GraphBuilder& graph, int fixed)
      : call_(call),
        graph_(graph),
        problem_(DescribeAttention(call.global(), fixed)),
        axes_(call.axes("t")),
        size_(call.parts("t")),
        keys_(call.part("t").extent) {
    const int k = fixed == 3 ? 1 : 2;
    travellers_ = {k, k + 1};
    for (int operand : {problem_.k_segments, problem_.k_positions}) {
      if (operand >= 0) travellers_.push_back(operand);
    }
    for (int operand : travellers_) at_.values.push_back(call.x(operand));
    at_.index = call.index("t");
  }

  absl::Status Check() {
    if (call_.axes("s") != axes_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "attention: keys are split over ", absl::StrJoin(axes_, ", "), ", queries over ",
          call_.axes("s").empty() ? "none" : absl::StrJoin(call_.axes("s"), ", "),
          "; a ring needs the same axes"));
    }
    ASSIGN_OR_RETURN(attributes_, call_.LocalAttributes({"t"}));
    return absl::OkStatus();
  }

  int64_t size() const { return size_; }
  bool has_bias() const { return problem_.bias >= 0; }
  int64_t block() const { return at_.index; }

  // The op on the block at hand. The next block is on its way before.
  ValueIds Step(bool last) {
    Block next;
    if (!last) next = {Move(at_.values), (at_.index + size_ - 1) % size_};
    ValueIds operands = call_.operands();
    for (size_t i = 0; i < travellers_.size(); ++i) operands[travellers_[i]] = at_.values[i];
    if (has_bias()) operands[problem_.bias] = BiasOfBlock();
    Attributes attributes = attributes_;
    attributes.Set("key_origin", problem_.key_origin + at_.index * keys_);
    attributes.Set("key_global", problem_.key_global);
    ValueIds results = graph_.Apply(call_.op(), std::move(operands), std::move(attributes));
    if (!last) at_ = std::move(next);
    return results;
  }

  // To the next rank.
  ValueIds Move(ValueIds values) { return Shift(graph_, std::move(values), axes_, size_, 1); }

 private:
  ValueId BiasOfBlock() const {
    ValueId bias = call_.x(problem_.bias);
    const Dims& dims = graph_.type(bias).dims;
    if (dims.empty()) return bias;  // after an error
    Ints starts(dims.size(), 0), limits(dims.begin(), dims.end());
    starts.back() = at_.index * keys_;
    limits.back() = starts.back() + keys_;
    return Slice(graph_, bias, std::move(starts), std::move(limits));
  }

  ShardedCall& call_;
  GraphBuilder& graph_;
  const AttentionProblem problem_;  // of the whole op
  const AxisNames axes_;
  const int64_t size_, keys_;  // ranks; keys of a block
  Attributes attributes_;
  std::vector<int> travellers_;  // operands
  Block at_;
};

void AddTo(GraphBuilder& graph, ValueId& sum, ValueId term, DType wide) {
  term = Convert(graph, term, wide);
  sum = sum == kNoValue ? term : Add(graph, sum, term);
}

}  // namespace

absl::Status ExpandAttention(ShardedCall& call, GraphBuilder& graph) {
  Ring ring(call, graph, 3);
  RETURN_IF_ERROR(ring.Check());
  const DType dtype = graph.type(call.x(0)).dtype, wide = StatisticsDType(dtype);
  ValueId out = kNoValue, lse = kNoValue;
  for (int64_t i = 0; i < ring.size(); ++i) {
    const ValueIds block = ring.Step(i + 1 == ring.size());
    if (i == 0) {
      out = Convert(graph, block[0], wide);
      lse = block[1];
      continue;
    }
    const ValueIds merged = AttentionMerge(graph, out, lse, block[0], block[1]);
    out = merged[0];
    lse = merged[1];
  }
  call.Set(0, Convert(graph, out, dtype), call.LocalResult(0, {"t"}));
  call.Set(1, lse, call.LocalResult(1, {"t"}));
  return graph.status();
}

absl::Status ExpandAttentionGrad(ShardedCall& call, GraphBuilder& graph) {
  Ring ring(call, graph, 6);
  RETURN_IF_ERROR(ring.Check());
  const DType dtype = graph.type(call.x(1)).dtype, wide = StatisticsDType(dtype);
  ValueId dq = kNoValue;
  ValueIds own, others{kNoValue, kNoValue}, dbias(ring.size(), kNoValue);
  for (int64_t i = 0; i < ring.size(); ++i) {
    const int64_t block = ring.block();
    const ValueIds gradients = ring.Step(i + 1 == ring.size());
    AddTo(graph, dq, gradients[0], wide);
    if (ring.has_bias()) dbias[block] = gradients[3];
    if (i == 0) {
      own = {gradients[1], gradients[2]};
      continue;
    }
    // What the ranks before found for this block comes after it.
    if (i > 1) others = ring.Move(others);
    for (int side : {0, 1}) AddTo(graph, others[side], gradients[1 + side], wide);
  }
  if (ring.size() > 1) {
    others = ring.Move(others);  // home
    for (int side : {0, 1}) {
      AddTo(graph, others[side], own[side], wide);
      own[side] = Convert(graph, others[side], dtype);
    }
  }
  call.Set(0, Convert(graph, dq, dtype), call.LocalResult(0, {"t"}));
  for (int side : {0, 1}) {
    // The ring sums over the queries of all ranks.
    Sharding sharding = call.LocalResult(1 + side, {"s", "t"});
    sharding.dims[1] = call.axes("t");
    call.Set(1 + side, own[side], sharding);
  }
  if (ring.has_bias() && graph.status().ok()) {
    const int last = graph.type(dbias[0]).rank() - 1;
    call.Set(3, Concat(graph, dbias, last), call.LocalResult(3, {"t"}));
  }
  return graph.status();
}

}  // namespace colossus
