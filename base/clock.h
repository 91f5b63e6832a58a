// Time, as an interface: the real clock, or a virtual one that moves only when told.
//
// Whatever measures, waits or predicts takes a Clock&, so that simulations and tests never depend
// on wall-clock time. All clocks are thread-safe.
//
//   const double start = clock.Seconds();  ...  double elapsed = clock.Seconds() - start;
#ifndef COLOSSUS_BASE_CLOCK_H_
#define COLOSSUS_BASE_CLOCK_H_

#include <mutex>

namespace colossus {

class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds since some fixed moment; never decreases.
  virtual double Seconds() = 0;
};

// The machine's monotonic clock.
class RealClock : public Clock {
 public:
  double Seconds() override;
};

// Starts at 0 and stands still between calls.
class VirtualClock : public Clock {
 public:
  double Seconds() override;
  // Moves to `seconds` if that is later than now; an earlier time changes nothing, so that several
  // events that end at different times may report in any order. REQUIRES: seconds is no NaN.
  void AdvanceTo(double seconds);
  // Moves on. REQUIRES: seconds >= 0.
  void AdvanceBy(double seconds);

 private:
  std::mutex mutex_;
  double now_ = 0;  // guarded by mutex_
};

}  // namespace colossus

#endif  // COLOSSUS_BASE_CLOCK_H_
