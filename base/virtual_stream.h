// VirtualStream: a stream in virtual time; work takes the seconds it is said to take and never
// runs.
//
// Purpose: what the null device and simulated communicators share: programs run in order, with
// events, and only time passes.
// Thread-safety: as Stream. Ownership: the clock outlives the stream and its events.
//
//   VirtualClock host;
//   std::unique_ptr<VirtualStream> stream = NewVirtualStream(host);
//   stream->Advance(0.5);
//   RETURN_IF_ERROR(stream->Synchronize());   // host.Seconds() is 0.5
#ifndef COLOSSUS_BASE_VIRTUAL_STREAM_H_
#define COLOSSUS_BASE_VIRTUAL_STREAM_H_

#include <memory>

#include "base/clock.h"
#include "base/stream.h"

namespace colossus {

// Launch counts work in the order but takes no time. Waiting, by an event or Synchronize, moves the
// clock of whoever waits to when the work has finished.
class VirtualStream : public Stream {
 public:
  // Adds work that takes so long. It begins when all before it has finished, and not before the
  // clock's present time.
  virtual void Advance(double seconds) = 0;
};

// A stream whose time is known at once. Its events serve streams of the same clock only.
std::unique_ptr<VirtualStream> NewVirtualStream(VirtualClock& clock);

}  // namespace colossus

#endif  // COLOSSUS_BASE_VIRTUAL_STREAM_H_
