// Figures of the progress line, as arithmetic that a test can pin.
//
// Thread-safe: functions of their arguments.
//
//   Progress p = ComputeProgress(input);
//   log.Progress(ProgressLine(p));
#ifndef COLOSSUS_TRAINERS_LIB_REPORT_PROGRESS_H_
#define COLOSSUS_TRAINERS_LIB_REPORT_PROGRESS_H_

#include <cstdint>
#include <string>

namespace colossus {

struct ProgressInput {
  int64_t step = 0;       // attempted updates so far, from 1
  int64_t last_step = 0;  // of the whole run
  double loss = 0;        // nats a token
  int64_t rows = 0;       // computed in this update by all data-parallel ranks, padding included
  int64_t sequence_length = 0;
  int64_t counting_tokens = 0;  // of this update, all ranks
  int64_t devices = 1;          // data x tensor x pipeline ranks: tokens are not counted twice
  double seconds = 0;           // of this update
  double seconds_left_per_update = 0;  // mean of recent updates; 0: `seconds`
  double flops_per_token = 0;
  double peak_flops_per_second = 0;  // of one device; 0: not known
  int64_t device_peak_bytes = 0;
  int64_t host_peak_bytes = 0;
};

struct Progress {
  int64_t step, last_step;
  double loss;
  int64_t tokens_per_update;  // rows x sequence length
  double tokens_per_second;   // of all devices
  double tokens_per_second_device;
  double utilization;    // 0 to 1
  double padding_share;  // of tokens_per_update that have no target
  double step_seconds;
  int64_t updates_left;
  double seconds_left;
  int64_t device_peak_bytes, host_peak_bytes;
};

Progress ComputeProgress(const ProgressInput& input);

// "step 12/100  loss 2.345  32768 tok/s  49.2 %  2.00 s  device 1.2 GiB  host ... left 2 m 56 s".
std::string ProgressLine(const Progress& progress);

// "3 h 12 m", "2 m 56 s", "12 s"; "1.50 GiB", "12.0 MiB".
std::string DurationText(double seconds);
std::string BytesText(int64_t bytes);

// Largest resident size of this process so far, bytes (VmHWM); 0 where the system does not tell.
int64_t HostPeakBytes();

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_REPORT_PROGRESS_H_
