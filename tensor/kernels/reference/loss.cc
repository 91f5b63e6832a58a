#include "tensor/ops/loss.h"

#include <limits>
#include <vector>

#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

template <class S>
S LogSumExp(const std::vector<S>& logits) {
  S maximum(-std::numeric_limits<double>::infinity()), sum(0);
  for (const S& logit : logits) maximum = Max(maximum, logit);
  for (const S& logit : logits) sum += Exp(logit - maximum);
  return maximum + Log(sum);
}

// A label outside the classes that is not `ignore` is an error of the data: NaN.
template <class S>
S LossOf(const std::vector<S>& logits, S lse, int64_t label) {
  if (label < 0 || label >= static_cast<int64_t>(logits.size())) {
    return S(std::numeric_limits<double>::quiet_NaN());
  }
  return lse - logits[label];
}

// Cotangents of the logits of one position.
template <class S>
std::vector<S> LogitGradients(const std::vector<S>& logits, S lse, int64_t label, S seed) {
  std::vector<S> dlogits;
  for (size_t j = 0; j < logits.size(); ++j) {
    S difference = Exp(logits[j] - lse);
    if (static_cast<int64_t>(j) == label) difference -= S(1);
    dlogits.push_back(difference * seed);
  }
  return dlogits;
}

template <class S>
std::vector<S> RowOf(const TensorView& values, int64_t row, int64_t count) {
  std::vector<S> out;
  for (int64_t j = 0; j < count; ++j) out.push_back(S(values.Get(row * values.dims().back() + j)));
  return out;
}

}  // namespace

template <class S>
void CrossEntropyReference(const ReferenceCall& call) {
  TensorView logits = call.x(0), labels = call.x(1);
  int64_t classes = call.attributes().IntOr("classes", logits.dims().back());
  int64_t ignore = call.attributes().IntOr("ignore", kIgnoreLabel);
  S sum(0);
  for (int64_t n = 0; n < labels.elements(); ++n) {
    std::vector<S> row = RowOf<S>(logits, n, classes);
    S lse = LogSumExp(row);
    call.y(1).Set(n, ToDouble(lse));
    if (labels.GetInt(n) != ignore) sum += LossOf(row, lse, labels.GetInt(n));
  }
  call.y(0).Set(0, ToDouble(sum));
}
COLOSSUS_INSTANTIATE_REFERENCE(CrossEntropyReference)

template <class S>
void CrossEntropyGradReference(const ReferenceCall& call) {
  TensorView logits = call.x(1), labels = call.x(2);
  int64_t v = logits.dims().back(), classes = ClassesOfPart(call.op_call(), v);
  int64_t ignore = call.attributes().IntOr("ignore", kIgnoreLabel);
  int64_t origin = call.attributes().IntOr("origin", 0);
  S seed(call.x(0).Get(0));
  for (int64_t n = 0; n < labels.elements(); ++n) {
    std::vector<S> dlogits(v);
    if (labels.GetInt(n) != ignore) {
      dlogits = LogitGradients(RowOf<S>(logits, n, classes), S(call.x(3).Get(n)),
                               labels.GetInt(n) - origin, seed);
      dlogits.resize(v);
    }
    for (int64_t j = 0; j < v; ++j) call.y(0).Set(n * v + j, ToDouble(dlogits[j]));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(CrossEntropyGradReference)

template <class S>
void CrossEntropyPartReference(const ReferenceCall& call) {
  TensorView logits = call.x(0), labels = call.x(1);
  int64_t classes = ClassesOfPart(call.op_call(), logits.dims().back());
  int64_t origin = call.attributes().Int("origin"), count = labels.elements();
  for (int64_t n = 0; n < count; ++n) {
    std::vector<S> row = RowOf<S>(logits, n, classes);
    int64_t label = labels.GetInt(n) - origin;
    call.y(0).Set(n, ToDouble(LogSumExp(row)));
    call.y(0).Set(count + n, label >= 0 && label < classes ? ToDouble(row[label]) : 0);
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(CrossEntropyPartReference)

template <class S>
void CrossEntropyMergeReference(const ReferenceCall& call) {
  TensorView parts = call.x(0), labels = call.x(1);
  int64_t classes = call.attributes().Int("classes"), count = labels.elements();
  int64_t ignore = call.attributes().IntOr("ignore", kIgnoreLabel);
  S sum(0);
  for (int64_t n = 0; n < count; ++n) {
    std::vector<S> found;
    S logit(0);
    for (int64_t p = 0; p < parts.dim(0); p += 2) {
      found.push_back(S(parts.Get(p * count + n)));
      logit += S(parts.Get((p + 1) * count + n));
    }
    S lse = LogSumExp(found);
    call.y(1).Set(n, ToDouble(lse));
    int64_t label = labels.GetInt(n);
    if (label == ignore) continue;
    sum +=
        label >= 0 && label < classes ? lse - logit : S(std::numeric_limits<double>::quiet_NaN());
  }
  call.y(0).Set(0, ToDouble(sum));
}
COLOSSUS_INSTANTIATE_REFERENCE(CrossEntropyMergeReference)

template <class S>
void LinearCrossEntropyReference(const ReferenceCall& call) {
  TensorView x = call.x(0), w = call.x(1), labels = call.x(2);
  int64_t c = w.dim(1), classes = call.attributes().IntOr("classes", w.dim(0));
  int64_t ignore = call.attributes().IntOr("ignore", kIgnoreLabel);
  int seed = OptionalOperand(call.attributes(), 3, "seed");
  int bias = OptionalOperand(call.attributes(), 3, "bias");
  S sum(0);
  std::vector<S> dx(x.elements()), dw(w.elements()), dbias(w.dim(0));
  for (int64_t n = 0; n < labels.elements(); ++n) {
    if (labels.GetInt(n) == ignore) continue;
    std::vector<S> logits(classes);
    for (int64_t v = 0; v < classes; ++v) {
      for (int64_t j = 0; j < c; ++j) logits[v] += S(x.Get(n * c + j)) * S(w.Get(v * c + j));
      if (bias >= 0) logits[v] += S(call.x(bias).Get(v));
    }
    S lse = LogSumExp(logits);
    sum += LossOf(logits, lse, labels.GetInt(n));
    if (seed < 0) continue;
    std::vector<S> dlogits =
        LogitGradients(logits, lse, labels.GetInt(n), S(call.x(seed).Get(0)));
    for (int64_t v = 0; v < classes; ++v) {
      for (int64_t j = 0; j < c; ++j) {
        dx[n * c + j] += dlogits[v] * S(w.Get(v * c + j));
        dw[v * c + j] += dlogits[v] * S(x.Get(n * c + j));
      }
      if (bias >= 0) dbias[v] += dlogits[v];
    }
  }
  call.y(0).Set(0, ToDouble(sum));
  if (seed < 0) return;
  for (int64_t i = 0; i < x.elements(); ++i) call.y(1).Set(i, ToDouble(dx[i]));
  for (int64_t i = 0; i < w.elements(); ++i) call.y(2).Set(i, ToDouble(dw[i]));
  for (int64_t v = 0; bias >= 0 && v < w.dim(0); ++v) call.y(3).Set(v, ToDouble(dbias[v]));
}
COLOSSUS_INSTANTIATE_REFERENCE(LinearCrossEntropyReference)

}  // namespace colossus
