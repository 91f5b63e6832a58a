// WaitWord: a counter that threads wait for, spinning for a while and then asleep.
//
// Purpose: the waiting of the in-process communicator. A sleeper costs no time of the cores, and
// looks up now and then, so that whoever wants to end all waiting only sets a flag.
// Thread-safe. Values are compared modulo 2^32, so they may run over.
//
//   word.Add(1); word.Wake();                                   // one side
//   word.WaitFor(target, spins, [&] { return aborted.load(); });   // the other
#ifndef COLOSSUS_COLLECTIVES_WAIT_WORD_H_
#define COLOSSUS_COLLECTIVES_WAIT_WORD_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace colossus {

class WaitWord {
 public:
  uint32_t Load() const { return value_.load(std::memory_order_seq_cst); }
  // The value after the change. Does not wake anybody.
  uint32_t Add(uint32_t n) { return value_.fetch_add(n, std::memory_order_seq_cst) + n; }
  void Store(uint32_t value) { value_.store(value, std::memory_order_seq_cst); }
  // Wakes all sleepers; free when there are none.
  void Wake();

  // Returns true once the value is `target` or later; false if stop() came true first. `stop` is
  // asked now and then, at least every 20 ms. `spins`: how often to look before sleeping.
  bool WaitFor(uint32_t target, int spins, absl::FunctionRef<bool()> stop);

 private:
  bool Reached(uint32_t target) const { return static_cast<int32_t>(Load() - target) >= 0; }

  std::atomic<uint32_t> value_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_WAIT_WORD_H_
