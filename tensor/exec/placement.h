// Placement: which buffers of a step are on the device, the host or disk, from when to when.
//
// Purpose: the question that the memory plan asks where a step does not fit the device, and the
// answer. The question is a trace: every instruction of the step in order, with the buffers it
// touches and how long it takes. The answer gives each buffer its stays on the device and on the
// host; what is in none lies on the tier below. tensor/exec turns an answer into copies beside
// compute, and checks it; whoever answers (gemini/placement.h) needs to know nothing of graphs.
// Any answer that passes the check computes the same bits.
// Thread-safety: plain values. Ownership: plain values.
//
//   class Everything : public Placer { ... every buffer stays from its first to its last use ... };
//   ProgramOptions options;
//   options.placer = std::make_shared<Everything>();
#ifndef COLOSSUS_TENSOR_EXEC_PLACEMENT_H_
#define COLOSSUS_TENSOR_EXEC_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/graph/state.h"
#include "tensor/graph/types.h"

namespace colossus {

// Memory that one or more values share: a state, or what lives within a step.
struct TracedBuffer {
  std::string what;
  int64_t bytes = 0;
  std::optional<Role> role;  // of a state; states hold their values from step to step
  // Where a state is at home already, and has to stay so: the plan is made again.
  std::optional<Tier> home = std::nullopt;
};

struct TracedUse {
  int buffer = 0;
  bool reads = false, writes = false;
  // Writes all of it and reads nothing: what it held before is of no use.
  bool overwrites = false;
  // The buffer must stay where it is until this instruction, inclusive: communication that runs
  // beside compute touches it until then. At least the instruction itself.
  int64_t until = 0;
};

struct TracedInstruction {
  std::vector<TracedUse> uses;   // operands, results, workspace; each buffer once
  double seconds = 0;            // predicted or measured, on the device
  bool link = false;             // runs on the link stream
  bool may_run_on_host = false;  // then `host_seconds` is how long it takes there
  double host_seconds = 0;
};

// One pass over the phases in order. A phase may be left out or run twice (an update that is
// skipped, validation), so a placement holds per phase: see Placement. Phases that follow only run
// right after the one before, if they run at all.
struct StepTrace {
  std::vector<TracedBuffer> buffers;
  std::vector<TracedInstruction> instructions;
  std::vector<size_t> phase_end;  // per phase: one past its last instruction
  std::vector<bool> follows;      // per phase; empty: none does
  // Measured, of a copy; 0: not measured.
  double link_bytes_per_second = 0, disk_read_bytes_per_second = 0;
  double disk_write_bytes_per_second = 0;
};

struct TierBytes {
  int64_t device = 0;  // of the device arena
  int64_t host = 0;    // of the host arena, staging taken off
  int64_t disk = 0;
  int64_t staging = 0;  // what was taken off, so that messages can count it
  // Of the device: left free where something can be moved for it, since buffers that fit in sum
  // did not fit side by side.
  int64_t gaps = 0;
  // Gaps may be larger than what any instruction leaves free: then where one needs more than the
  // rest, nothing else is there.
  bool sparse = false;
};

// One stay of a buffer on a tier that is above its home, or, of a buffer without a home (no state),
// on the device or the host. It is there from just before instruction `first` until just after
// instruction `last`, both of one phase or of phases that follow each other, or, for a buffer that
// is no state, of any phases. Stays of a buffer on one tier are disjoint and ascending.
struct Stay {
  int buffer = 0;
  Tier tier = Tier::kDevice;  // kDevice or kHost
  int64_t first = 0, last = 0;
  // It begins by a copy from the tier below (device: from the host; host: from disk), started just
  // before `first`. Without, its first use overwrites it, or, on the host, a store from the device
  // does.
  bool load = false;
  // The instruction just after which a copy to the tier below starts; it must be done by the time
  // that somebody uses that copy, or the memory after `last`. -1: none. No use that writes comes
  // later in the stay. A stay without one whose last writer is not stored is dropped.
  int64_t store_after = -1;
};

// The states' homes hold true values at the begin and the end of every phase. A buffer that is on
// the host for a load or a store has a stay there (or its home) that covers the instructions
// `first` of the load or `store_after` of the store.
struct Placement {
  std::vector<Tier> home;     // per buffer; of no state: kDevice, without meaning
  std::vector<bool> on_host;  // per instruction: runs on the host, where its buffers then stay
  std::vector<Stay> stays;    // of buffers without a home there; by buffer, tier, first
};

class Placer {
 public:
  virtual ~Placer() = default;
  // `tiers`: what may be used. Asked again with more gaps, sparse where more changed nothing, and
  // less of the tiers below, where buffers that fit in sum cannot be placed side by side. Error:
  // ResourceExhausted naming the tier, the instruction and its need, when an instruction's own
  // buffers, or all tiers together, are too small.
  virtual absl::StatusOr<Placement> Place(const StepTrace& trace, const TierBytes& tiers) const = 0;
};

// Whether phase `p` follows the one before it.
inline bool Follows(const StepTrace& trace, size_t p) {
  return p < trace.follows.size() && trace.follows[p];
}

// Whether an answer obeys the rules above; capacities are not looked at. Error: Internal, naming
// the buffer and the rule.
absl::Status CheckPlacement(const StepTrace& trace, const Placement& placement);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_PLACEMENT_H_
