// LazyStream: a stream whose work is done by whoever waits for it, or by a thread of its own.
//
// Purpose: communication beside compute that costs no switch of threads where nothing is beside it.
// Work is queued. Who waits for an event of the stream does the work up to there himself. Who goes
// to do something else for longer than a switch takes says so before, and then the stream's thread
// does what is queued.
// Thread-safety: as base/stream.h; Leave by any thread. Ownership: the thread ends with the stream,
// after all work; events may outlive it.
//
//   LazyStream link(/*threads=*/2);
//   link.Launch(send);
//   link.queue()->Leave(0.001);      // what follows takes a millisecond: `send` runs meanwhile
//   RETURN_IF_ERROR(link.Record()->Wait());
#ifndef COLOSSUS_TENSOR_EXEC_LAZY_STREAM_H_
#define COLOSSUS_TENSOR_EXEC_LAZY_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "base/stream.h"

namespace colossus {

class LazyEvent;

// What a stream has still to do.
class LazyQueue {
 public:
  // The caller does something else for about so many seconds, and waits for nothing meanwhile.
  void Leave(double seconds);

 private:
  friend class LazyStream;
  friend class LazyEvent;

  // Exactly one of the three is set.
  struct Item {
    std::function<absl::Status()> work;
    std::shared_ptr<Event> awaited;
    std::shared_ptr<LazyEvent> recorded;
  };

  void Push(Item item);
  void RunUntil(const LazyEvent& event);
  // Runs items until the event is done (none: until no item is left). REQUIRES: nobody else does.
  void Run(std::unique_lock<std::mutex>& lock, const LazyEvent* event);
  void Work(int threads);  // of the stream's thread

  std::mutex mutex_;
  std::condition_variable changed_;  // an awaited event is done, or nobody runs items any more
  std::condition_variable left_to_thread_;
  // Guarded by mutex_: all below and the state of every LazyEvent.
  std::deque<Item> items_;
  bool running_ = false;  // somebody runs items
  int sleeping_ = 0;      // who waits for changed_
  bool left_ = false;     // the thread runs what is there, once nobody else does
  bool closing_ = false;
  absl::Status status_;                          // the first error
  std::chrono::steady_clock::time_point since_;  // items_ is not empty
};

class LazyStream final : public Stream {
 public:
  // `threads`: the team of the stream's thread (SetThreads). REQUIRES: threads >= 1.
  explicit LazyStream(int threads);
  ~LazyStream() override;

  void Launch(std::function<absl::Status()> work) override;
  std::shared_ptr<Event> Record() override;
  void WaitFor(std::shared_ptr<Event> event) override;
  absl::Status Synchronize() override;

  const std::shared_ptr<LazyQueue>& queue() const { return queue_; }

 private:
  const std::shared_ptr<LazyQueue> queue_;
  std::jthread thread_;  // last: starts when the rest is there
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_LAZY_STREAM_H_
