#include "trainers/lib/report/flops.h"

#include <string>

#include "absl/strings/str_format.h"

namespace colossus {

double ModelFlopsPerToken(const ModelSize& m) {
  const double attention = static_cast<double>(m.layers) * static_cast<double>(m.sequence_length) *
                           static_cast<double>(m.hidden);
  return 6.0 * (static_cast<double>(m.matmul_parameters) + attention);
}

std::string FlopsFormula(const ModelSize& m) {
  return absl::StrFormat(
      "%.4g flop a token = 6 x %d matmul parameters + 6 x %d layers x %d tokens x %d hidden",
      ModelFlopsPerToken(m), m.matmul_parameters, m.layers, m.sequence_length, m.hidden);
}

double Utilization(double flops_per_token, double tokens_per_second, double peak) {
  return peak > 0 ? flops_per_token * tokens_per_second / peak : 0;
}

}  // namespace colossus
