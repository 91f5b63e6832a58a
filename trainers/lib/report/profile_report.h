// ProfileReport: a profile of some updates as a table to read and as JSON.
//
// Purpose: which updates of a run are profiled, what the time outside of the program's
// instructions went to, and the rates of ops against the measured peak of products.
// Thread-safety: one thread. Ownership: the program must outlive the profiler.
//
//   UpdateProfiler profiler(program, /*updates=*/30);
//   StepObserver* observer = profiler.Next();      // nullptr: this update warms up
//   ... run the update with it ...
//   profiler.Done({.seconds = 0.9, .data_seconds = 0.01});
//   for (const std::string& line : ProfileLines(profiler.profile(), figures)) log.Info(line);
#ifndef COLOSSUS_TRAINERS_LIB_REPORT_PROFILE_REPORT_H_
#define COLOSSUS_TRAINERS_LIB_REPORT_PROFILE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/exec/profile.h"
#include "tensor/exec/program.h"

namespace colossus {

struct UpdateSeconds {
  double seconds = 0;       // of the whole update, data included
  double data_seconds = 0;  // making rows and feeds
};

class UpdateProfiler {
 public:
  // `updates`: how many the run still has. The first two touch memory for the first time and fill
  // caches, so they are left out, as far as that leaves one; then at most ten are profiled.
  UpdateProfiler(Program& program, int64_t updates);

  // The observer of the next update; nullptr: it is not profiled.
  StepObserver* Next() { return Profiled(seen_) ? &profile_ : nullptr; }
  void Done(const UpdateSeconds& seconds);

  const Profile& profile() const { return profile_; }
  int64_t warm_up() const { return warm_up_; }
  int64_t updates() const { return updates_; }           // profiled so far
  const UpdateSeconds& sums() const { return sums_; }    // of those

 private:
  bool Profiled(int64_t update) const;

  Profile profile_;
  const int64_t warm_up_;
  int64_t seen_ = 0, updates_ = 0;
  UpdateSeconds sums_;
};

struct ProfileFigures {
  int64_t warm_up = 0;  // updates before the profiled ones
  int64_t updates = 0;  // profiled; below 1 there is nothing to report
  UpdateSeconds sums;   // over `updates`
  int64_t tokens_per_update = 0;
  double flops_per_token = 0;        // of the model, see flops.h
  double peak_flops_per_second = 0;  // measured product; 0: not known
  int threads = 1;
};

// Share of the updates' time that instructions account for.
double AccountedShare(const Profile& profile, const ProfileFigures& figures);

// Tables by op, by block and by call (the longest), per update, and what is not in them.
// REQUIRES (both): figures.updates >= 1.
std::vector<std::string> ProfileLines(const Profile& profile, const ProfileFigures& figures);

inline constexpr absl::string_view kProfileJsonOpening = "{\n \"updates\"";

// One object: "updates", "warm_up_updates", "threads", "tokens_per_update", "step_seconds",
// "tokens_per_second", "model_flops_utilization", "peak_flops_per_second", "accounted",
// "data_seconds", "other_seconds", and the lists "by_op", "by_block", "by_call" of objects with
// "name", "seconds", "calls", "flops", "bytes". All per update.
// Begins with kProfileJsonOpening.
std::string ProfileJson(const Profile& profile, const ProfileFigures& figures);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_REPORT_PROFILE_REPORT_H_
