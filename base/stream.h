// Streams and events: the order of asynchronous work, as an interface that fits CPU queues and
// device queues alike.
//
// A Stream runs the work launched on it in order, one after another, now or later. An Event marks
// a place in a stream; other streams and the host wait for it. Streams are used by one thread at a
// time; events by any. Work keeps alive what it captures; a stream never owns more than its work.
//
//   stream.Launch([=] { return Multiply(a, b, c); });
//   std::shared_ptr<Event> done = stream.Record();
//   copies.WaitFor(done);            // work launched on `copies` from here on runs after `done`
//   RETURN_IF_ERROR(done->Wait());   // the host waits
#ifndef COLOSSUS_BASE_STREAM_H_
#define COLOSSUS_BASE_STREAM_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"

namespace colossus {

class Event {
 public:
  virtual ~Event() = default;
  // True once everything before the event has finished, well or not. Does not block.
  virtual bool Done() const = 0;
  // Blocks until Done; the stream's first error before the event, or ok.
  virtual absl::Status Wait() = 0;
};

// After the first error of its work a stream skips all work after it, so that nothing runs on
// unfinished data; the error stays and every later event and Synchronize reports it.
class Stream {
 public:
  virtual ~Stream() = default;
  // Adds work. It runs after all work added before; it may be running when Launch returns.
  virtual void Launch(std::function<absl::Status()> work) = 0;
  // An event after all work added so far.
  virtual std::shared_ptr<Event> Record() = 0;
  // Work added from here on runs after `event`, of this or another stream. An error of the event
  // becomes this stream's error. REQUIRES: event is not null.
  virtual void WaitFor(std::shared_ptr<Event> event) = 0;
  // Blocks until all work added so far has finished; the first error, or ok.
  virtual absl::Status Synchronize() = 0;
};

// Runs everything at once on the calling thread: the stream of plain host code and of tests.
class InlineStream : public Stream {
 public:
  void Launch(std::function<absl::Status()> work) override;
  std::shared_ptr<Event> Record() override;
  void WaitFor(std::shared_ptr<Event> event) override;  // blocks
  absl::Status Synchronize() override;

 private:
  absl::Status status_;  // the first error
};

}  // namespace colossus

#endif  // COLOSSUS_BASE_STREAM_H_
