// SharedValue: a value that one thread writes while others, of any process, read it.
//
// Purpose: what ranks tell about themselves for reports. Neither side ever blocks, so a writer that
// was killed in the middle harms nobody; memory of any kind will do, also shared with processes.
// Thread-safety: one writer at a time, any readers. A reader gets a whole value, but for one whose
// writer died while writing.
//
//   SharedValue<Where> where;
//   where.Store({.step = 3});  ...  where.Load().step
#ifndef COLOSSUS_COLLECTIVES_WATCH_SHARED_VALUE_H_
#define COLOSSUS_COLLECTIVES_WATCH_SHARED_VALUE_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace colossus {

template <class T>
class SharedValue {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SharedValue() { Store(T{}); }

  // A release on each word keeps it after the odd version, an acquire keeps it before the second
  // look at the version: a reader that saw the same even version twice saw no other words.
  void Store(const T& value) {
    uint64_t words[kWords] = {};
    std::memcpy(words, &value, sizeof(T));
    const uint32_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    for (int i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }

  T Load() const {
    uint64_t words[kWords];
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const uint32_t before = version_.load(std::memory_order_acquire);
      for (int i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (version_.load(std::memory_order_relaxed) == before && before % 2 == 0) break;
    }
    T value;
    std::memcpy(&value, words, sizeof(T));
    return value;
  }

 private:
  static constexpr int kWords = (sizeof(T) + 7) / 8;
  static constexpr int kAttempts = 1000;

  std::atomic<uint32_t> version_{0};
  std::atomic<uint64_t> words_[kWords] = {};
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_WATCH_SHARED_VALUE_H_
