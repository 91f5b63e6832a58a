// Arithmetic of a model, counted once for every run: what utilisation is measured against.
//
// Thread-safe: functions of their arguments. Recomputation never counts: it is work of the plan,
// not of the model.
//
//   double flops = ModelFlopsPerToken({.matmul_parameters = 10'000'000});
//   double share = Utilization(flops, tokens_per_second_per_device, peak_flops_per_second);
#ifndef COLOSSUS_TRAINERS_LIB_REPORT_FLOPS_H_
#define COLOSSUS_TRAINERS_LIB_REPORT_FLOPS_H_

#include <cstdint>
#include <string>

namespace colossus {

struct ModelSize {
  int64_t matmul_parameters = 0;  // weights of products, the head included, lookups not
  int64_t frozen_matmul_parameters = 0;  // those of them that are not trained
  int64_t layers = 0;             // of self-attention; 0 leaves the attention term out
  int64_t sequence_length = 0;    // tokens a row
  int64_t hidden = 0;             // query heads x head size
};

// Floating point operations a token, forward and backward:
// 6 x matmul parameters - 2 x frozen ones + 6 x layers x sequence length x hidden (causal
// attention). Gradients of what lies below everything that is trained are counted, though not made.
double ModelFlopsPerToken(const ModelSize& model);

// The formula with its numbers, for the log.
std::string FlopsFormula(const ModelSize& model);

// Share of `peak` (flop/s of one device) that `tokens_per_second` (of one device) makes use of.
// 0 when the peak is not known (0).
double Utilization(double flops_per_token, double tokens_per_second, double peak);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_REPORT_FLOPS_H_
