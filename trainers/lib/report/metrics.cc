#include "trainers/lib/report/metrics.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/checkpoint/run_lock.h"
#include "trainers/lib/report/output_file.h"

namespace colossus {
namespace {

constexpr char kLineOpening[] = R"({"step":)";

nlohmann::ordered_json Number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

// The update a line is about, or nothing when it is no line of ours.
std::optional<int64_t> StepOf(absl::string_view line) {
  const nlohmann::json root = nlohmann::json::parse(line.begin(), line.end(), nullptr,
                                                    /*allow_exceptions=*/false);
  if (!root.is_object() || !root.contains("step") || !root["step"].is_number_integer()) {
    return std::nullopt;
  }
  return root["step"].get<int64_t>();
}

}  // namespace

std::string ToJsonLine(const UpdateMetrics& m) {
  nlohmann::ordered_json line;
  line["step"] = m.step;
  line["loss"] = Number(m.loss);
  line["grad_norm"] = Number(m.grad_norm);
  line["lr"] = Number(m.lr);
  line["tokens"] = m.tokens;
  line["step_seconds"] = Number(m.step_seconds);
  line["tokens_per_second"] = Number(m.tokens_per_second);
  line["model_flops_utilization"] = Number(m.model_flops_utilization);
  line["device_peak_bytes"] = m.device_peak_bytes;
  line["host_peak_bytes"] = m.host_peak_bytes;
  line["validation_loss"] = Number(m.validation_loss);
  line["validation_bits_per_byte"] = Number(m.validation_bits_per_byte);
  line["loss_scale"] = Number(m.loss_scale);
  line["skipped"] =
      m.skipped.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(m.skipped);
  line["link_bytes"] = nlohmann::ordered_json::object();
  for (const auto& [axes, bytes] : m.link_bytes) line["link_bytes"][axes] = bytes;
  line["host_to_device_bytes"] = m.host_to_device_bytes;
  line["device_to_host_bytes"] = m.device_to_host_bytes;
  line["disk_read_bytes"] = m.disk_read_bytes;
  line["disk_write_bytes"] = m.disk_write_bytes;
  line["traffic_lower_bound_bytes"] = m.traffic_lower_bound_bytes
                                          ? nlohmann::ordered_json(*m.traffic_lower_bound_bytes)
                                          : nlohmann::ordered_json(nullptr);
  line["hidden_transfer_fraction"] = Number(m.hidden_transfer_fraction);
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double BitsPerByte(double nats, int64_t bytes) {
  return nats / std::numbers::ln2 / static_cast<double>(bytes);
}

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Create(FileSystem& files,
                                                                     const std::string& path,
                                                                     Log& log) {
  RETURN_IF_ERROR(CheckOutsideCheckpoints(files, "--metrics", path));
  RETURN_IF_ERROR(CheckOpening(files, "--metrics", path, kLineOpening));
  // Emptied only when no other run writes to it.
  const absl::Status opened = files.OpenForAppend(path).status();
  if (!opened.ok()) return CannotWrite("--metrics", path, opened);
  ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, LockForRun(files, "--metrics", path, log));
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.Create(path));
  return std::unique_ptr<MetricsWriter>(new MetricsWriter(std::move(file), std::move(lock)));
}

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Resume(FileSystem& files,
                                                                     const std::string& path,
                                                                     int64_t step, Log& log) {
  RETURN_IF_ERROR(CheckOutsideCheckpoints(files, "--metrics", path));
  // A stream such as /dev/null keeps no lines.
  const bool stream = absl::IsFailedPrecondition(files.Map(path).status());
  if (stream || !files.Exists(path)) return Create(files, path, log);
  ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> old, LockForRun(files, "--metrics", path, log));
  ASSIGN_OR_RETURN(const std::string text, files.ReadFile(path));
  size_t kept = 0;  // bytes
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // cut off when the run was killed
    const std::optional<int64_t> found = StepOf(absl::string_view(text).substr(begin, end - begin));
    if (!found) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ":", number, ": not a metrics line; --metrics would overwrite another file"));
    }
    if (*found > step) break;
    kept = begin = end + 1;
  }
  // Written beside and renamed, so that a kill here loses no line; the open file keeps its handle.
  const std::string beside = path + ".tmp";
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.Create(beside));
  RETURN_IF_ERROR(file->Append(std::span<const char>(text.data(), kept)));
  RETURN_IF_ERROR(file->Sync());
  // Before it gets the name, so that at no moment the file of that name is free.
  ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, LockForRun(files, "--metrics", beside, log));
  RETURN_IF_ERROR(files.Rename(beside, path));
  return std::unique_ptr<MetricsWriter>(new MetricsWriter(std::move(file), std::move(lock)));
}

absl::Status MetricsWriter::Write(const UpdateMetrics& metrics) {
  const std::string line = ToJsonLine(metrics) + "\n";
  return file_->Append(std::span<const char>(line));
}

}  // namespace colossus
