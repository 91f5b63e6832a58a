// PointToPoint: messages between two ranks, the ground that the algorithms stand on.
//
// Purpose: the algorithms of this folder are written once against this interface and tested on
// threads; the mpi backend gives it by MPI's messages.
// Messages from one rank to another arrive in the order sent, and a receive takes the next of them;
// sizes agree. Sends and receives are started and then waited for together, so a rank may send to
// and receive from others in any order: between two Waits at most one message to each other rank
// and one receive from it, none to itself.
// Thread-safety: one thread. Ownership: blocks stay valid and untouched until Wait has returned.
//
//   link.Send(right, {data, 1, bytes}, DType::kF32);
//   link.Receive(left, {other, 1, bytes});
//   RETURN_IF_ERROR(link.Wait());
#ifndef COLOSSUS_COLLECTIVES_ALGORITHMS_POINT_TO_POINT_H_
#define COLOSSUS_COLLECTIVES_ALGORITHMS_POINT_TO_POINT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"

namespace colossus {

// Memory as it lies: `rows` rows of `bytes` bytes, `stride` bytes from one to the next.
template <class Pointer>
struct BasicBlock {
  Pointer data = nullptr;
  int64_t rows = 1;
  int64_t bytes = 0;
  int64_t stride = 0;

  int64_t total() const { return rows * bytes; }
};
using Block = BasicBlock<char*>;
using ConstBlock = BasicBlock<const char*>;

class PointToPoint {
 public:
  virtual ~PointToPoint() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Starts a message; empty ones are sent too. `dtype` is for counting elements.
  virtual void Send(int to, const ConstBlock& block, DType dtype) = 0;
  // Starts to receive; the block has as many bytes in all as the message.
  virtual void Receive(int from, const Block& block) = 0;
  // Returns when all that was started has finished; the first error.
  virtual absl::Status Wait() = 0;

  // Memory for partial results, 64-byte aligned; the same memory at every call, made larger when
  // needed, so one operation asks once.
  virtual char* Scratch(int64_t bytes) = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_ALGORITHMS_POINT_TO_POINT_H_
