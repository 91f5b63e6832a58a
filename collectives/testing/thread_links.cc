#include "collectives/testing/thread_links.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

struct Mailboxes {
  explicit Mailboxes(int ranks)
      : ranks(ranks),
        changed(static_cast<size_t>(ranks)),
        boxes(static_cast<size_t>(ranks * ranks)) {}
  std::deque<std::vector<char>>& box(int from, int to) {
    return boxes[static_cast<size_t>(from * ranks + to)];
  }
  const int ranks;
  std::mutex mutex;
  std::vector<std::condition_variable> changed;      // of what each rank receives
  std::vector<std::deque<std::vector<char>>> boxes;  // guarded by mutex
  bool failed = false;                               // guarded by mutex
};

class ThreadLink final : public PointToPoint {
 public:
  ThreadLink(Mailboxes& mail, int rank) : mail_(mail), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return mail_.ranks; }
  const CollectiveCounts& sent() const { return sent_; }

  void Send(int to, const ConstBlock& block, DType dtype) override {
    EXPECT_NE(to, rank_);
    std::vector<char> message;
    for (int64_t row = 0; row < block.rows && block.bytes > 0; ++row) {
      const char* begin = block.data + row * block.stride;
      message.insert(message.end(), begin, begin + block.bytes);
    }
    ++sent_.messages;
    sent_.bytes += block.total();
    sent_.elements += block.total() / SizeOf(dtype);
    std::lock_guard<std::mutex> lock(mail_.mutex);
    mail_.box(rank_, to).push_back(std::move(message));
    mail_.changed[static_cast<size_t>(to)].notify_one();
  }
  void Receive(int from, const Block& block) override { receives_.push_back({from, block}); }

  absl::Status Wait() override {
    for (const auto& [from, block] : std::exchange(receives_, {})) {
      std::unique_lock<std::mutex> lock(mail_.mutex);
      std::deque<std::vector<char>>& box = mail_.box(from, rank_);
      mail_.changed[static_cast<size_t>(rank_)].wait(lock,
                                                     [&] { return !box.empty() || mail_.failed; });
      if (mail_.failed) return absl::AbortedError("another rank failed");
      const std::vector<char> message = std::move(box.front());
      box.pop_front();
      if (static_cast<int64_t>(message.size()) != block.total()) {
        return absl::InternalError(absl::StrCat("rank ", rank_, " receives ", block.total(),
                                                " bytes of ", message.size(), " from ", from));
      }
      for (int64_t row = 0; row < block.rows && block.bytes > 0; ++row) {
        std::memcpy(block.data + row * block.stride, message.data() + row * block.bytes,
                    static_cast<size_t>(block.bytes));
      }
    }
    return absl::OkStatus();
  }

  char* Scratch(int64_t bytes) override {
    if (static_cast<int64_t>(scratch_.size()) < bytes + 64) {
      scratch_.resize(static_cast<size_t>(bytes + 64));
    }
    const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
    return scratch_.data() + (64 - address % 64);
  }

 private:
  Mailboxes& mail_;
  const int rank_;
  std::vector<std::pair<int, Block>> receives_;
  std::vector<char> scratch_;
  CollectiveCounts sent_;
};

}  // namespace

std::vector<CollectiveCounts> RunOnThreadLinks(
    int ranks, const std::function<absl::Status(PointToPoint& link)>& rank) {
  Mailboxes mail(ranks);
  std::vector<CollectiveCounts> sent(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      ThreadLink link(mail, r);
      const absl::Status status = rank(link);
      sent[static_cast<size_t>(r)] = link.sent();
      std::lock_guard<std::mutex> lock(mail.mutex);
      EXPECT_TRUE(status.ok()) << "rank " << r << ": " << status;
      mail.failed |= !status.ok();
      for (std::condition_variable& changed : mail.changed) changed.notify_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& box : mail.boxes) EXPECT_TRUE(box.empty()) << "a message nobody took";
  return sent;
}

}  // namespace colossus
