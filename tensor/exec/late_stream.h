// LateScheduler: streams that run as late, and in as unexpected an order, as the rules allow.
//
// Purpose: finds missing waits. Work is only queued. When somebody waits for an event, the heads of
// all streams run one at a time in a seeded random order that respects nothing but the order in
// each stream and the events it waits for, until the awaited event is done; the rest stays queued.
// Nothing runs otherwise: polling Event::Done() makes no progress.
// Thread-safety: all of it; work runs on the thread that waits, one at a time, with that
// thread's team. Work must not wait for events of its own scheduler. Ownership: the scheduler
// outlives its streams; a stream runs all its work before it goes.
//
//   LateScheduler scheduler(/*seed=*/7);
//   std::unique_ptr<Stream> compute = scheduler.NewStream(), copies = scheduler.NewStream();
#ifndef COLOSSUS_TENSOR_EXEC_LATE_STREAM_H_
#define COLOSSUS_TENSOR_EXEC_LATE_STREAM_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/stream.h"

namespace colossus {

class LateEvent;

class LateScheduler {
 public:
  explicit LateScheduler(uint64_t seed) : random_(seed) {}
  std::unique_ptr<Stream> NewStream();

 private:
  friend class LateStream;
  friend class LateEvent;

  // Exactly one of the three is set.
  struct Item {
    std::function<absl::Status()> work;
    std::shared_ptr<Event> awaited;
    std::shared_ptr<LateEvent> recorded;
  };
  struct Queue {
    std::deque<Item> items;
    absl::Status status;  // the first error
  };

  void Push(Queue& queue, Item item);
  void Remove(Queue& queue);
  void RunUntil(const LateEvent& event);
  void RunOne(std::unique_lock<std::mutex>& lock);
  Queue& Choose();
  const LateEvent* Own(const Event* event) const;
  bool Ready(const Queue& queue) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_: all below and the state of every LateEvent.
  std::vector<Queue*> queues_;
  std::mt19937_64 random_;
  std::thread::id runner_;  // who runs an item now; none: the default id
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_LATE_STREAM_H_
