#include "trainers/lib/run/stop_signal.h"

#include <atomic>

#include "base/check.h"

namespace colossus {
namespace {

// A handler can reach nothing but static data.
std::atomic<int> received_signal{0};
std::atomic<bool> installed{false};
static_assert(std::atomic<int>::is_always_lock_free);

// The second signal, of either kind, ends a process that does not reach its next look.
void Remember(int signal) {
  int none = 0;
  if (received_signal.compare_exchange_strong(none, signal)) return;
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  raise(signal);  // arrives when this handler ends
}

void Install(int signal, struct sigaction* old) {
  struct sigaction action = {};
  action.sa_handler = Remember;
  action.sa_flags = SA_RESTART;
  CHECK_EQ(sigaction(signal, &action, old), 0);
}

}  // namespace

StopSignal::StopSignal() {
  CHECK(!installed.exchange(true)) << "two StopSignals";
  received_signal = 0;
  Install(SIGINT, &old_interrupt_);
  Install(SIGTERM, &old_terminate_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
  installed = false;
}

int StopSignal::received() const { return received_signal; }

}  // namespace colossus
