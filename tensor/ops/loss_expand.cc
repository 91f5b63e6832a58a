#include "tensor/ops/loss_expand.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/loss_parts.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/shape.h"

namespace colossus {
namespace {

// Columns [origin, origin + v / parts) of `classes`, on this rank.
struct Columns {
  int64_t origin, classes, ignore;
  const AxisNames* axes;
  int64_t parts;

  static Columns Of(const ShardedCall& call, int64_t v) {
    return {call.part("v").origin, call.attributes().IntOr("classes", v),
            call.attributes().IntOr("ignore", kIgnoreLabel), &call.axes("v"), call.parts("v")};
  }
};

struct Loss {
  ValueId sum, lse;
};

Loss LossOfColumns(GraphBuilder& graph, ValueId logits, ValueId labels, const Columns& columns) {
  ValueId part = CrossEntropyPart(graph, logits, labels, columns.origin, columns.classes);
  ValueId parts = AllGather(graph, part, *columns.axes, columns.parts, 0);
  ValueIds merged = CrossEntropyMerge(graph, parts, labels, columns.classes, columns.ignore);
  return {merged[0], merged[1]};
}

class LinearLoss {
 public:
  LinearLoss(ShardedCall& call, GraphBuilder& graph)
      : call_(call),
        graph_(graph),
        columns_(Columns::Of(call, call.global().operands[1].dims[0])),
        w_(call.x(1)),
        dtype_(graph.type(w_).dtype),
        wide_(StatisticsDType(dtype_)),
        seed_(Optional("seed")),
        bias_(Optional("bias")) {}

  void Expand() {
    const Dims x_dims = graph_.type(call_.x(0)).dims;
    if (x_dims.empty()) return;  // after an error
    const int64_t tokens = LeadingElements(x_dims), width = x_dims.back();
    const std::string lead = LeadingLabels(static_cast<int>(x_dims.size()) - 1);
    const bool flat = x_dims.size() == 2;
    const std::string merge = lead.empty() ? "1" : absl::StrCat("(", lead, ")");
    x_ = flat ? call_.x(0)
              : Reshape(graph_, call_.x(0), absl::StrCat(lead, " c -> ", merge, " c"),
                        {tokens, width});
    labels_ = flat ? call_.x(2)
                   : Reshape(graph_, call_.x(2), absl::StrCat(lead, " -> ", merge), {tokens});
    if (bias_ != kNoValue) wide_bias_ = Convert(graph_, bias_, wide_);
    const int64_t chunk = call_.attributes().IntOr("chunk", kLossChunk);
    for (int64_t at = 0; at == 0 || at < tokens; at += chunk) {
      Chunk(at, std::min(tokens, at + chunk), tokens, width);
    }
    call_.Set(0, sum_, call_.LocalResult(0, {"v", "c"}));
    if (seed_ == kNoValue) return;
    ValueId dx = dx_.size() == 1 ? dx_[0] : Concat(graph_, dx_, 0);
    if (!flat) dx = Reshape(graph_, dx, absl::StrCat(merge, " c -> ", lead, " c"), x_dims);
    call_.Set(1, dx, call_.LocalResult(1, {}));
    call_.Set(2, dw_, call_.LocalResult(2, {}));
    if (bias_ != kNoValue) call_.Set(3, dbias_, call_.LocalResult(3, {"c"}));
  }

 private:
  ValueId Optional(absl::string_view role) const {
    const int i = OptionalOperand(call_.attributes(), 3, role);
    return i < 0 ? kNoValue : call_.x(i);
  }

  void AddTo(ValueId& sum, ValueId term) { sum = sum == kNoValue ? term : Add(graph_, sum, term); }

  // Tokens [begin, end).
  void Chunk(int64_t begin, int64_t end, int64_t tokens, int64_t width) {
    const bool all = begin == 0 && end == tokens;
    ValueId x = all ? x_ : Slice(graph_, x_, {begin, 0}, {end, width});
    ValueId labels = all ? labels_ : Slice(graph_, labels_, {begin}, {end});
    ValueId logits = Matmul(graph_, "n c, v c -> n v", x, w_, wide_);
    logits = AllReduce(graph_, logits, call_.axes("c"), call_.parts("c"));
    if (bias_ != kNoValue) logits = Add(graph_, logits, wide_bias_);
    const Loss loss = LossOfColumns(graph_, logits, labels, columns_);
    AddTo(sum_, loss.sum);
    if (seed_ == kNoValue) return;
    ValueId dlogits = CrossEntropyGradOfPart(graph_, seed_, logits, labels, loss.lse,
                                             columns_.origin, columns_.classes, columns_.ignore,
                                             bias_ == kNoValue ? dtype_ : wide_);
    if (bias_ != kNoValue) AddTo(dbias_, ReduceSum(graph_, dlogits, {0}, /*keep=*/false));
    dlogits = Convert(graph_, dlogits, dtype_);
    dx_.push_back(Matmul(graph_, "n v, v c -> n c", dlogits, w_, dtype_));
    AddTo(dw_, Matmul(graph_, "n v, n c -> v c", dlogits, x, wide_));
  }

  ShardedCall& call_;
  GraphBuilder& graph_;
  const Columns columns_;
  const ValueId w_;
  const DType dtype_, wide_;
  const ValueId seed_, bias_;
  ValueId x_ = kNoValue, labels_ = kNoValue, wide_bias_ = kNoValue;
  ValueId sum_ = kNoValue, dw_ = kNoValue, dbias_ = kNoValue;
  ValueIds dx_;
};

}  // namespace

absl::Status ExpandCrossEntropy(ShardedCall& call, GraphBuilder& graph) {
  const Columns columns = Columns::Of(call, call.global().operands[0].dims.back());
  const Loss loss = LossOfColumns(graph, call.x(0), call.x(1), columns);
  call.Set(0, loss.sum, call.LocalResult(0, {"v"}));
  call.Set(1, loss.lse, call.LocalResult(1, {"v"}));
  return graph.status();
}

absl::Status ExpandLinearCrossEntropy(ShardedCall& call, GraphBuilder& graph) {
  LinearLoss(call, graph).Expand();
  return graph.status();
}

}  // namespace colossus
