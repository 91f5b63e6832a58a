// GuardedBuffer: memory for one tensor between guard bytes.
//
// Purpose: a kernel that writes beside its result, or leaves part of it unwritten, is found.
// Thread-safety: as a std::vector. Ownership: owns its bytes; data() is 64-byte aligned.
//
//   GuardedBuffer y(bytes, /*garbage=*/0xa5);
//   kernel.run({x, {y.data()}});
//   EXPECT_TRUE(y.intact());
#ifndef COLOSSUS_TENSOR_TESTING_GUARDED_BUFFER_H_
#define COLOSSUS_TENSOR_TESTING_GUARDED_BUFFER_H_

#include <cstdint>
#include <cstring>
#include <vector>

namespace colossus {

class GuardedBuffer {
 public:
  // `bytes` of `garbage` between two guards.
  GuardedBuffer(int64_t bytes, uint8_t garbage)
      : bytes_(bytes), memory_(static_cast<size_t>(bytes) + 3 * kGuard, kGuardByte) {
    auto address = reinterpret_cast<uintptr_t>(memory_.data());
    start_ = kGuard + (kGuard - address % kGuard) % kGuard;
    std::memset(data(), garbage, static_cast<size_t>(bytes));
  }
  // A copy of `bytes` bytes at `source`.
  GuardedBuffer(int64_t bytes, const void* source) : GuardedBuffer(bytes, uint8_t{0}) {
    if (bytes > 0) std::memcpy(data(), source, static_cast<size_t>(bytes));
  }
  GuardedBuffer(GuardedBuffer&&) = default;

  void* data() { return memory_.data() + start_; }
  const void* data() const { return memory_.data() + start_; }
  int64_t bytes() const { return bytes_; }

  // Whether the guards are as they were.
  bool intact() const {
    size_t end = start_ + static_cast<size_t>(bytes_);
    for (size_t i = 0; i < memory_.size(); ++i) {
      if ((i < start_ || i >= end) && memory_[i] != kGuardByte) return false;
    }
    return true;
  }
  bool Holds(const void* expected) const {
    return bytes_ == 0 || std::memcmp(data(), expected, static_cast<size_t>(bytes_)) == 0;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kGuardByte = 0xc3;
  int64_t bytes_;
  size_t start_ = 0;
  std::vector<uint8_t> memory_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_GUARDED_BUFFER_H_
