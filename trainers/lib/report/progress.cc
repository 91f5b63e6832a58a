#include "trainers/lib/report/progress.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trainers/lib/report/flops.h"

namespace colossus {

Progress ComputeProgress(const ProgressInput& in) {
  Progress p = {};
  p.step = in.step;
  p.last_step = in.last_step;
  p.loss = in.loss;
  p.tokens_per_update = in.rows * in.sequence_length;
  const double tokens = static_cast<double>(p.tokens_per_update);
  p.tokens_per_second = in.seconds > 0 ? tokens / in.seconds : 0;
  p.tokens_per_second_device = p.tokens_per_second / static_cast<double>(in.devices);
  p.utilization =
      Utilization(in.flops_per_token, p.tokens_per_second_device, in.peak_flops_per_second);
  p.padding_share = tokens > 0 ? 1 - static_cast<double>(in.counting_tokens) / tokens : 0;
  p.step_seconds = in.seconds;
  p.updates_left = std::max<int64_t>(in.last_step - in.step, 0);
  const double each = in.seconds_left_per_update > 0 ? in.seconds_left_per_update : in.seconds;
  p.seconds_left = each * static_cast<double>(p.updates_left);
  p.device_peak_bytes = in.device_peak_bytes;
  p.host_peak_bytes = in.host_peak_bytes;
  return p;
}

std::string ProgressLine(const Progress& p) {
  return absl::StrFormat(
      "step %d/%d  loss %.4f  %.0f tok/s  peak use %.1f %%  padding %.1f %%  %.3f s  device %s  "
      "host %s  %d left, %s",
      p.step, p.last_step, p.loss, p.tokens_per_second, 100 * p.utilization, 100 * p.padding_share,
      p.step_seconds, BytesText(p.device_peak_bytes), BytesText(p.host_peak_bytes), p.updates_left,
      DurationText(p.seconds_left));
}

std::string DurationText(double seconds) {
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return absl::StrFormat("%d h %d m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return absl::StrFormat("%d m %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d s", whole);
}

std::string BytesText(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return absl::StrFormat("%.2f GiB", value / (1 << 30));
  if (bytes >= int64_t{1} << 20) return absl::StrFormat("%.1f MiB", value / (1 << 20));
  return absl::StrFormat("%.1f KiB", value / 1024);
}

int64_t HostPeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace colossus
