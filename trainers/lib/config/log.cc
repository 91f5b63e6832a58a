#include "trainers/lib/config/log.h"

#include <unistd.h>

#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace colossus {

Log::~Log() {
  if (progress_stands_) sink_("\n");
}

Log::Sink Log::Stderr() {
  return [](absl::string_view text) {
    while (!text.empty()) {
      const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
      if (written <= 0) return;  // nowhere to say that nothing can be said
      text.remove_prefix(static_cast<size_t>(written));
    }
  };
}

void Log::Progress(absl::string_view text) {
  if (!sink_ || !terminal_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  sink_(absl::StrCat("\r", text, "\x1b[K"));
  progress_stands_ = true;
}

void Log::Line(absl::string_view kind, absl::string_view text) {
  if (!sink_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Clear();
  const std::string line =
      absl::StrReplaceAll(text, {{":\n  ", ": "}, {"\n  ", "; "}, {"\n", "; "}});
  sink_(absl::StrCat(kind, line, "\n"));
}

void Log::Clear() {
  if (progress_stands_) sink_("\r\x1b[K");
  progress_stands_ = false;
}

}  // namespace colossus
