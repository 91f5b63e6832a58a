#include "base/virtual_stream.h"

#include <algorithm>

#include "base/check.h"

namespace colossus {
namespace {

class KnownEvent final : public Event {
 public:
  KnownEvent(VirtualClock& clock, double seconds) : clock_(clock), seconds_(seconds) {}
  bool Done() const override { return clock_.Seconds() >= seconds_; }
  absl::Status Wait() override {
    clock_.AdvanceTo(seconds_);
    return absl::OkStatus();
  }
  double seconds() const { return seconds_; }

 private:
  VirtualClock& clock_;
  const double seconds_;
};

// The stream's time is when all its work so far will have finished.
class KnownStream final : public VirtualStream {
 public:
  explicit KnownStream(VirtualClock& clock) : clock_(clock), seconds_(clock.Seconds()) {}

  void Launch(std::function<absl::Status()>) override { Advance(0); }
  void Advance(double seconds) override {
    seconds_ = std::max(seconds_, clock_.Seconds()) + seconds;
  }
  std::shared_ptr<Event> Record() override {
    return std::make_shared<KnownEvent>(clock_, seconds_);
  }
  void WaitFor(std::shared_ptr<Event> event) override {
    auto* other = dynamic_cast<KnownEvent*>(event.get());
    CHECK(other != nullptr) << "an event of another device";
    seconds_ = std::max(seconds_, other->seconds());
  }
  absl::Status Synchronize() override {
    clock_.AdvanceTo(seconds_);
    return absl::OkStatus();
  }

 private:
  VirtualClock& clock_;
  double seconds_;
};

}  // namespace

std::unique_ptr<VirtualStream> NewVirtualStream(VirtualClock& clock) {
  return std::make_unique<KnownStream>(clock);
}

}  // namespace colossus
