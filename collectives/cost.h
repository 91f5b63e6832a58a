// What collectives cost: seconds, bytes and messages of every algorithm, and the choice by them.
//
// Purpose: one model for the mpi backend's choice, for planners and for the null device. A message
// costs alpha seconds and beta a byte, sending and receiving at the same time; adding costs gamma a
// byte of one operand. The formulas stand in the algorithms' headers; the benchmark
// (collectives_benchmark.cc) measures rates.
// Thread-safe: functions of their arguments. Nothing is owned.
//
//   const Collective op = {.kind = CollectiveKind::kAllReduce, .count = n};
//   CostOf(ChooseAlgorithm(op, 8, rates), op, 8, rates).seconds;
//   CollectiveSeconds(CollectiveKind::kAllGather, DType::kBF16, n, 8, rates);   // n in all parts
#ifndef COLOSSUS_COLLECTIVES_COST_H_
#define COLOSSUS_COLLECTIVES_COST_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "collectives/communicator.h"

namespace colossus {

enum class Algorithm : uint8_t {
  kDirect,    // in_process: peers' buffers are read and written (direct.h)
  kPairwise,  // algorithms/pairwise.h
  kHalving,   // algorithms/recursive.h: halving, for all_reduce doubling after it
  kDoubling,  // algorithms/recursive.h: doubling alone
  kTree,      // algorithms/tree.h
};
inline constexpr Algorithm kMessageAlgorithms[] = {Algorithm::kTree, Algorithm::kDoubling,
                                                   Algorithm::kHalving, Algorithm::kPairwise};
absl::string_view Name(Algorithm algorithm);  // "pairwise exchange", ...

// Of the links of one group. The defaults are of processes on one machine (MPI, shared memory).
struct LinkRates {
  double alpha = 1.5e-6;      // seconds a message
  double beta = 1.0 / 5e9;    // seconds a byte
  double gamma = 1.0 / 2e10;  // seconds a byte that is added
};

struct CollectiveCost {
  double seconds = 0;  // from when all ranks have come
  // Sent by the rank that sends most.
  int64_t messages = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};

// Whether the algorithm can do the operation in a group of `size`. The answer is the same on all
// ranks of the group; kDirect can do all.
bool CanDo(Algorithm algorithm, const Collective& operation, int size);
// REQUIRES: CanDo. Of uneven all_to_alls, what this rank's counts say.
CollectiveCost CostOf(Algorithm algorithm, const Collective& operation, int size,
                      const LinkRates& rates);
// What one rank sends: exact, in the algorithms' own units.
CollectiveCounts CountsOf(Algorithm algorithm, const Collective& operation, int rank, int size);
// The fastest of kMessageAlgorithms, of equal ones the first; the same on all ranks.
Algorithm ChooseAlgorithm(const Collective& operation, int size, const LinkRates& rates);

// Seconds of an operation with equal parts and `elements` elements in the whole buffer (all parts
// together) by the best algorithm; for planners, who have no buffers. 0 in a group of one.
double CollectiveSeconds(CollectiveKind kind, DType dtype, int64_t elements, int size,
                         const LinkRates& rates = {});

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_COST_H_
