// SIGINT and SIGTERM as a request that a loop looks at between updates.
//
// Thread-safe. One per process may live at a time: signals are the process's. A second signal, of
// either kind, ends the process as if nothing had been installed.
//
//   StopSignal stop;                       // installs handlers; the old ones return with it
//   while (... && stop.received() == 0) ...
//   return stop.received() == 0 ? 0 : 128 + stop.received();
#ifndef COLOSSUS_TRAINERS_LIB_RUN_STOP_SIGNAL_H_
#define COLOSSUS_TRAINERS_LIB_RUN_STOP_SIGNAL_H_

#include <csignal>

namespace colossus {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Number of the signal, 0 while none came.
  int received() const;

 private:
  struct sigaction old_interrupt_, old_terminate_;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_STOP_SIGNAL_H_
