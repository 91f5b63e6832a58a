#include "trainers/lib/report/flops.h"

#include <string>

#include "absl/strings/str_format.h"

namespace colossus {

double ModelFlopsPerToken(const ModelSize& m) {
  const double attention = static_cast<double>(m.layers) * static_cast<double>(m.sequence_length) *
                           static_cast<double>(m.hidden);
  return 6.0 * (static_cast<double>(m.matmul_parameters) + attention) -
         2.0 * static_cast<double>(m.frozen_matmul_parameters);
}

std::string FlopsFormula(const ModelSize& m) {
  const std::string frozen =
      m.frozen_matmul_parameters > 0
          ? absl::StrFormat(" - 2 x %d frozen ones", m.frozen_matmul_parameters)
          : "";
  return absl::StrFormat(
      "%.4g flop a token = 6 x %d matmul parameters%s + 6 x %d layers x %d tokens x %d hidden",
      ModelFlopsPerToken(m), m.matmul_parameters, frozen, m.layers, m.sequence_length, m.hidden);
}

double Utilization(double flops_per_token, double tokens_per_second, double peak) {
  return peak > 0 ? flops_per_token * tokens_per_second / peak : 0;
}

}  // namespace colossus
