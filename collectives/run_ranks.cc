#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/parallel_for.h"
#include "collectives/in_process.h"

namespace colossus {
namespace {

absl::Status CallCatching(const std::function<absl::Status(Communicator&)>& rank,
                          Communicator& world) {
  try {
    return rank(world);
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("an exception: ", e.what()));
  } catch (...) {
    return absl::InternalError("an exception of unknown type");
  }
}

// ResourceExhausted: the system has no more threads.
absl::Status StartThread(const std::function<void()>& body, std::vector<std::thread>* threads) {
  try {
    threads->emplace_back(body);
    return absl::OkStatus();
  } catch (const std::system_error& e) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system starts no more than ", threads->size(),
                     " threads of ranks here (", e.what(), "); use fewer ranks"));
  }
}

// Which ranks have come back.
class Roll {
 public:
  explicit Roll(int ranks) : back_(static_cast<size_t>(ranks)) {}

  void CameBack(int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    back_[static_cast<size_t>(rank)] = true;
    changed_.notify_all();
  }

  // Waits until all are back, or for `seconds` once the world has failed; those still missing.
  std::vector<int> WaitForAll(const InProcessWorld& world, double seconds) {
    using Clock = std::chrono::steady_clock;
    std::unique_lock<std::mutex> lock(mutex_);
    Clock::time_point limit = Clock::time_point::max();
    while (true) {
      std::vector<int> missing;
      for (size_t r = 0; r < back_.size(); ++r) {
        if (!back_[r]) missing.push_back(static_cast<int>(r));
      }
      if (missing.empty() || Clock::now() >= limit) return missing;
      if (limit == Clock::time_point::max() && !world.status().ok()) {
        limit = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
      }
      changed_.wait_for(lock, std::chrono::milliseconds(100));
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> back_;  // guarded by mutex_
};

[[noreturn]] void EndProcess(const InProcessWorld& world, const std::vector<int>& missing) {
  const std::string text = absl::StrCat(
      world.status().ToString(), "\nrank ", absl::StrJoin(missing, ", "),
      " did not come back after that; ending the process. Ranks:", world.Report(), "\n");
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(1);
}

}  // namespace

absl::Status RunRanks(const InProcessOptions& options,
                      const std::function<absl::Status(Communicator& world)>& rank,
                      double come_back_seconds) {
  InProcessWorld world(options);
  Roll roll(options.ranks);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int r = 0; r < options.ranks; ++r) communicators.push_back(world.Join(r));
  const auto come_back = [&](int r, const absl::Status& status) {
    const std::unique_ptr<Communicator> own = std::move(communicators[static_cast<size_t>(r)]);
    if (!status.ok()) own->Abort(status);
  };
  std::vector<std::thread> threads;
  absl::Status started;
  for (int r = 0; r < options.ranks; ++r) {
    const auto body = [&, r] {
      SetThreads(options.threads);
      come_back(r, CallCatching(rank, *communicators[static_cast<size_t>(r)]));
      roll.CameBack(r);
    };
    if (started.ok()) started = StartThread(body, &threads);
    if (started.ok()) continue;
    come_back(r, started);
    roll.CameBack(r);
  }
  const std::vector<int> missing = roll.WaitForAll(world, come_back_seconds);
  if (!missing.empty()) EndProcess(world, missing);
  for (std::thread& thread : threads) thread.join();
  return world.status();
}

}  // namespace colossus
