// What a trainer says while it runs: one line each on stderr, results apart.
//
// Thread-safe: every method may be called from any thread; a line is written whole. Only rank 0
// makes an enabled log, so nothing is said twice.
//
//   Log log(Log::Stderr(), /*terminal=*/isatty(2));
//   log.Info("batch: global 16 = ...");
//   log.Progress("step 12/100 ...");    // one line that is overwritten on a terminal
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_LOG_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_LOG_H_

#include <functional>
#include <mutex>
#include <string>

#include "absl/strings/string_view.h"

namespace colossus {

class Log {
 public:
  // Receives finished text, newlines included. Called under the log's lock.
  using Sink = std::function<void(absl::string_view)>;

  // `terminal`: progress is drawn over itself; else it is not shown at all, so that a log file
  // holds only lines worth keeping. A log with a null sink says nothing.
  Log(Sink sink, bool terminal) : sink_(std::move(sink)), terminal_(terminal) {}
  // Ends a progress line that still stands.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Writes to file descriptor 2.
  static Sink Stderr();

  // Line breaks inside `text` become "; ": one message is one line.
  void Info(absl::string_view text) { Line("", text); }
  void Warning(absl::string_view text) { Line("warning: ", text); }
  void Error(absl::string_view text) { Line("error: ", text); }
  void Progress(absl::string_view text);

 private:
  void Line(absl::string_view kind, absl::string_view text);
  void Clear();  // REQUIRES: mutex_ held

  const Sink sink_;
  const bool terminal_;
  std::mutex mutex_;
  bool progress_stands_ = false;  // guarded by mutex_
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_LOG_H_
