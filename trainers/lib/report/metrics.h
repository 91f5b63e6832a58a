// The metrics file: exactly one JSON object an attempted update, every key in every line.
//
// Not thread-safe: one thread writes. The writer owns its file and holds its lock; opening it is
// FailedPrecondition when another run writes to it. A file system given to it must outlive it.
//
//   ASSIGN_OR_RETURN(auto metrics, MetricsWriter::Create(files, "run.jsonl", log));
//   RETURN_IF_ERROR(metrics->Write({.step = 1, .loss = 5.5, ...}));
#ifndef COLOSSUS_TRAINERS_LIB_REPORT_METRICS_H_
#define COLOSSUS_TRAINERS_LIB_REPORT_METRICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "trainers/lib/config/log.h"

namespace colossus {

// One line. Numbers that are not finite are written as null.
struct UpdateMetrics {
  int64_t step = 0;      // attempted updates, from 1
  double loss = 0;       // nats a counting token of the update
  double grad_norm = 0;  // before clipping
  double lr = 0;         // learning rate of the update
  int64_t tokens = 0;    // counting tokens of the update
  double step_seconds = 0;
  double tokens_per_second = 0;
  double model_flops_utilization = 0;                   // 0 to 1
  int64_t device_peak_bytes = 0;                        // planned high water, of the rank with most
  int64_t host_peak_bytes = 0;                          // resident size of a process, likewise
  std::optional<double> validation_loss = {};           // only where it was computed
  std::optional<double> validation_bits_per_byte = {};  // likewise
  std::optional<double> loss_scale = {};                // of fp16 runs: what this update had
  std::string skipped = {};  // why the update was not applied; null when it was
  // Bytes of the update that a rank sent along each axis of the mesh, and along several at once
  // ("data,sequence"); of the ranks, the one that sent most.
  std::map<std::string, int64_t> link_bytes = {};
  // Of the update, as far as states and values were moved between tiers; feeds and fetches do not
  // count. Of the ranks, the one that moved most.
  int64_t host_to_device_bytes = 0, device_to_host_bytes = 0;
  int64_t disk_read_bytes = 0, disk_write_bytes = 0;
  // Least that both directions of the link together need for parameters and gradients.
  std::optional<int64_t> traffic_lower_bound_bytes = {};
  std::optional<double> hidden_transfer_fraction = {};  // predicted; of the time of copies, 0 to 1
};

// One line without its line break. Doubles are written so that they read back exactly.
std::string ToJsonLine(const UpdateMetrics& metrics);

// `nats` summed over all targets, `bytes` of the text they stand for.
double BitsPerByte(double nats, int64_t bytes);

class MetricsWriter {
 public:
  // A new run: the file is emptied.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Create(FileSystem& files,
                                                               const std::string& path, Log& log);
  // A run resumed after update `step`: lines of later updates, and a last line that was cut off,
  // are removed; the rest stays byte for byte. A missing file is made. A line that is none of ours
  // is InvalidArgument, and the file stays as it is.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Resume(FileSystem& files,
                                                               const std::string& path,
                                                               int64_t step, Log& log);

  // Each line reaches the operating system before Write returns.
  absl::Status Write(const UpdateMetrics& metrics);

 private:
  MetricsWriter(std::unique_ptr<WritableFile> file, std::unique_ptr<FileLock> lock)
      : file_(std::move(file)), lock_(std::move(lock)) {}
  const std::unique_ptr<WritableFile> file_;
  const std::unique_ptr<FileLock> lock_;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_REPORT_METRICS_H_
