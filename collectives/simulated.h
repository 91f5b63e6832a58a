// The simulated backend: collectives in virtual time, for programs on null devices.
//
// Purpose: predicts a job of any number of ranks without them. A collective takes the seconds of
// cost.h after all ranks that take part have come to it. Ranks that behave alike form a class, of
// which one stands for all: one rank for a data-parallel job of 4096, one for each stage of a
// pipeline. Members of a group that are not present come when those present come.
// Time is kept in streams (NewStream): each adds to a graph of moments, which are found as soon as
// all that they depend on are known, whichever rank is asked first; nothing waits for real time.
// Counts are those of the algorithm that cost.h chooses.
// Thread-safety: each present rank is one thread; with one present, the calling thread will do.
// Ownership: communicators and streams share their world; clocks outlive them.
//
//   SimulatedWorld world({.ranks = 4096});
//   VirtualClock clock;
//   std::unique_ptr<Communicator> all = world.Join(0, clock);
//   std::unique_ptr<VirtualStream> stream = world.NewStream(clock);
//   stream->Advance(0.010);
//   all->Launch(*stream, gradients);
//   RETURN_IF_ERROR(stream->Synchronize());     // clock: 0.010 and the seconds of the collective
#ifndef COLOSSUS_COLLECTIVES_SIMULATED_H_
#define COLOSSUS_COLLECTIVES_SIMULATED_H_

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/virtual_stream.h"
#include "collectives/communicator.h"
#include "collectives/cost.h"

namespace colossus {

struct SimulatedOptions {
  int ranks = 1;
  std::vector<int> present = {0};  // ranks that run; each joins once
  LinkRates rates = {};
  // All ranks are present and their buffers are real: data moves, too. For tests.
  bool moves_data = false;
};

class SimulatedWorld {
 public:
  explicit SimulatedWorld(const SimulatedOptions& options);
  ~SimulatedWorld();

  // The communicator of a present rank, whose host has this clock. Its Run waits in virtual time;
  // its Launch takes streams of this world only. If all present ranks wait for one another, all of
  // them get DeadlineExceeded.
  std::unique_ptr<Communicator> Join(int rank, VirtualClock& clock);
  std::unique_ptr<VirtualStream> NewStream(VirtualClock& clock);

  class State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_SIMULATED_H_
