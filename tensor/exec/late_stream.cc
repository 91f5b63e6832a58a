#include "tensor/exec/late_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace colossus {

class LateEvent final : public Event {
 public:
  explicit LateEvent(LateScheduler& scheduler) : scheduler_(scheduler) {}
  bool Done() const override {
    std::lock_guard<std::mutex> lock(scheduler_.mutex_);
    return done_;
  }
  absl::Status Wait() override {
    scheduler_.RunUntil(*this);
    std::lock_guard<std::mutex> lock(scheduler_.mutex_);
    return status_;
  }

 private:
  friend class LateScheduler;
  LateScheduler& scheduler_;
  bool done_ = false;
  absl::Status status_;
};

class LateStream final : public Stream {
 public:
  explicit LateStream(LateScheduler& scheduler) : scheduler_(scheduler) {
    std::lock_guard<std::mutex> lock(scheduler_.mutex_);
    scheduler_.queues_.push_back(&queue_);
  }
  ~LateStream() override {
    scheduler_.RunUntil(*RecordLate());
    scheduler_.Remove(queue_);
  }
  void Launch(std::function<absl::Status()> work) override {
    scheduler_.Push(queue_, {std::move(work), nullptr, nullptr});
  }
  std::shared_ptr<Event> Record() override { return RecordLate(); }
  void WaitFor(std::shared_ptr<Event> event) override {
    CHECK(event != nullptr);
    scheduler_.Push(queue_, {nullptr, std::move(event), nullptr});
  }
  absl::Status Synchronize() override { return Record()->Wait(); }

 private:
  std::shared_ptr<LateEvent> RecordLate() {
    auto event = std::make_shared<LateEvent>(scheduler_);
    scheduler_.Push(queue_, {nullptr, nullptr, event});
    return event;
  }

  LateScheduler& scheduler_;
  LateScheduler::Queue queue_;
};

std::unique_ptr<Stream> LateScheduler::NewStream() { return std::make_unique<LateStream>(*this); }

void LateScheduler::Push(Queue& queue, Item item) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue.items.push_back(std::move(item));
  changed_.notify_all();
}

void LateScheduler::Remove(Queue& queue) {
  std::lock_guard<std::mutex> lock(mutex_);
  queues_.erase(std::find(queues_.begin(), queues_.end(), &queue));
}

void LateScheduler::RunUntil(const LateEvent& event) {
  std::unique_lock<std::mutex> lock(mutex_);
  CHECK(runner_ != std::this_thread::get_id()) << "work waits for an event of its own scheduler";
  while (!event.done_) {
    if (runner_ != std::thread::id()) {
      changed_.wait(lock);
    } else {
      RunOne(lock);
    }
  }
}

// The event as one of this scheduler's, or nullptr.
const LateEvent* LateScheduler::Own(const Event* event) const {
  const auto* own = dynamic_cast<const LateEvent*>(event);
  return own != nullptr && &own->scheduler_ == this ? own : nullptr;
}

// Whether the head can run at once.
bool LateScheduler::Ready(const Queue& queue) const {
  const Event* awaited = queue.items.front().awaited.get();
  if (awaited == nullptr) return true;
  const LateEvent* own = Own(awaited);
  return own != nullptr ? own->done_ : awaited->Done();
}

// A head that is ready, at random; else one that waits for an event of somebody else.
LateScheduler::Queue& LateScheduler::Choose() {
  std::vector<Queue*> ready, foreign;
  for (Queue* queue : queues_) {
    if (queue->items.empty()) continue;
    if (Ready(*queue)) {
      ready.push_back(queue);
    } else if (Own(queue->items.front().awaited.get()) == nullptr) {
      foreign.push_back(queue);
    }
  }
  std::vector<Queue*>& from = ready.empty() ? foreign : ready;
  CHECK(!from.empty()) << "an event is awaited that no stream reaches";
  return *from[random_() % from.size()];
}

void LateScheduler::RunOne(std::unique_lock<std::mutex>& lock) {
  Queue& queue = Choose();
  Item item = std::move(queue.items.front());
  queue.items.pop_front();
  if (item.recorded != nullptr) {
    item.recorded->done_ = true;
    item.recorded->status_ = queue.status;
    return;
  }
  const LateEvent* own = Own(item.awaited.get());
  absl::Status status;
  if (own != nullptr) {
    status = own->status_;
  } else if (item.awaited != nullptr || queue.status.ok()) {
    runner_ = std::this_thread::get_id();
    lock.unlock();
    status = item.awaited != nullptr ? item.awaited->Wait() : item.work();
    item = {};  // what the work captured goes without the lock
    lock.lock();
    runner_ = std::thread::id();
    changed_.notify_all();
  }
  if (queue.status.ok()) queue.status = status;
}

}  // namespace colossus
