// Random collectives with their buffers: input for tests of communicators and algorithms.
//
// Purpose: one place that fills the buffers of all ranks and knows what must come out.
// Thread-safe: functions of their arguments. A case owns its buffers.
//
//   const CollectiveCase shape = {.kind = CollectiveKind::kAllReduce, .ranks = 3, .count = 17};
//   RankBuffers mine = MakeBuffers(shape, rank, seed);
//   EXPECT_OK(communicator.Run(mine.operation));
//   EXPECT_EQ(mine.Result(), ExpectedResult(shape, rank, seed));
#ifndef COLOSSUS_COLLECTIVES_TESTING_RANDOM_OPERATION_H_
#define COLOSSUS_COLLECTIVES_TESTING_RANDOM_OPERATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace colossus {

// One collective for all ranks of a group. Everything random follows from the seed given later.
struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::kBarrier;
  int ranks = 1;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  int64_t count = 0;
  int64_t rows = 1;
  bool uneven = false;    // random counts up to `count`, some of them 0
  bool in_place = false;  // src and dst share memory as communicator.h allows
  int root = 0;           // broadcast
  int shift = 1;          // exchange: rank r sends to r + shift, modulo ranks
};
std::string Describe(const CollectiveCase& shape);

// The operation of one rank and its buffers.
struct RankBuffers {
  Collective operation;
  std::vector<char> src, dst;  // in place: all in `dst` (reduce_scatter: in `src`)
  int64_t result_bytes = 0;
  // The bytes at operation.dst.
  std::vector<char> Result() const;
};

// Values are such that the order of additions shows in the bits. The result moves, never copies:
// operation points into src and dst.
RankBuffers MakeBuffers(const CollectiveCase& shape, int rank, uint64_t seed);

// What all ranks get, by the reference.
std::vector<std::vector<char>> ExpectedResults(const CollectiveCase& shape, uint64_t seed);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_TESTING_RANDOM_OPERATION_H_
