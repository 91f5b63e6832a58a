#include "collectives/mpi/monitor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace colossus {
namespace {

constexpr int kLookMilliseconds = 50;
constexpr int kRelayMilliseconds = 250;
// After SIGTERM: how long another process's end may take to be seen.
constexpr int kTerminationLooks = 4;

std::atomic<int> wake_on_termination{-1};
std::atomic<bool> terminated{false};

extern "C" void OnTermination(int) {
  const int saved = errno;
  terminated.store(true);
  const uint64_t one = 1;
  if (write(wake_on_termination.load(), &one, sizeof(one)) < 0) {
    // The thread looks up by itself soon.
  }
  errno = saved;
}

int OpenPid(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

// Where there are no pidfds: whether the process is gone, or a zombie.
bool IsGone(pid_t pid) {
  if (kill(pid, 0) != 0) return errno == ESRCH;
  const std::string path = absl::StrCat("/proc/", pid, "/stat");
  FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return true;
  char text[512] = {};
  const size_t read = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  const std::string stat(text, read);
  const size_t end = stat.rfind(") ");
  return end != std::string::npos && (stat[end + 2] == 'Z' || stat[end + 2] == 'X');
}

}  // namespace

Monitor::Monitor(RankTable& table, int rank, std::vector<Peer> peers,
                 std::atomic<uint32_t>& printed, std::function<void()> relay)
    : table_(table),
      rank_(rank),
      peers_(std::move(peers)),
      printed_(printed),
      relay_(std::move(relay)) {
  for (const Peer& peer : peers_) ends_.push_back(OpenPid(peer.pid));
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction now = {};
  if (sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    wake_on_termination.store(wake_);
    struct sigaction own = {};
    own.sa_handler = OnTermination;
    own.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &own, nullptr);
  }
  thread_ = std::thread([this] { Loop(); });
}

Monitor::~Monitor() {
  stop_.store(true);
  const uint64_t one = 1;
  if (write(wake_, &one, sizeof(one)) < 0) std::perror("eventfd");
  thread_.join();
  struct sigaction now = {};
  if (sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler == OnTermination) {
    signal(SIGTERM, SIG_DFL);
  }
  for (int end : ends_) {
    if (end >= 0) close(end);
  }
  close(wake_);
}

void Monitor::TellOfFailure() {
  if (!table_.failed() || printed_.exchange(1) != 0) return;
  // In one write, so that lines of several processes do not mix.
  const std::string text = absl::StrCat("FAILURE: ", table_.failure().message, "\n");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n <= 0 && errno != EINTR) return;
    done += n > 0 ? static_cast<size_t>(n) : 0;
  }
}

// A peer's process has ended: in good order it has said so before.
void Monitor::NoteEnded(int rank) {
  RankRow& row = table_.row(rank);
  if (row.life() == RankLife::kLeft || row.life() == RankLife::kFailed) return;
  row.SetLife(RankLife::kLost);
  table_.Fail(MakeFailure(
      rank, absl::StatusCode::kAborted, absl::StatusCode::kAborted,
      absl::StrCat("rank ", rank, " was lost", row.WhereText(),
                   ": its process has ended without a word (killed?)", table_.Report({rank}))));
}

// SIGTERM, and nobody but this thread handles it: dies of it, after telling of a failure that may
// have been the reason.
void Monitor::HandleTermination() {
  if (table_.failed()) TellOfFailure();
  signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
}

void Monitor::Loop() {
  int since_relay = kRelayMilliseconds, termination_looks = 0;
  std::vector<pollfd> waits;
  for (int end : ends_) waits.push_back({end, POLLIN, 0});  // poll skips negative ones
  waits.push_back({wake_, POLLIN, 0});
  while (!stop_.load()) {
    const int ready = poll(waits.data(), waits.size(), kLookMilliseconds);
    since_relay += ready == 0 ? kLookMilliseconds : 0;
    for (size_t i = 0; i < peers_.size(); ++i) {
      const bool ended = ends_[i] >= 0 ? waits[i].revents != 0 : IsGone(peers_[i].pid);
      if (!ended || (ends_[i] >= 0 && waits[i].fd < 0)) continue;
      waits[i].fd = -1;
      NoteEnded(peers_[i].rank);
    }
    if (waits.back().revents != 0) {
      uint64_t count = 0;
      if (read(wake_, &count, sizeof(count)) < 0) since_relay += 1;
    }
    TellOfFailure();
    if (terminated.load() && wake_on_termination.load() == wake_ &&
        (table_.failed() || ++termination_looks >= kTerminationLooks)) {
      HandleTermination();
    }
    if (relay_ && (since_relay >= kRelayMilliseconds || table_.failed())) {
      since_relay = 0;
      relay_();
    }
  }
}

}  // namespace colossus
