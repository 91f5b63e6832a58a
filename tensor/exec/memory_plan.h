// MemoryPlan: every buffer of a whole step, placed.
//
// Purpose: turns a step and its executables into one list of instructions with every operand,
// result and workspace at a fixed offset of one arena per tier. States keep their homes at the
// front of the device arena; everything else lives from its first to its last instruction and
// shares memory with whatever does not live then: micro-batches in flight, accumulators, carried
// values, library workspaces. The plan is exact: its peak is the arena's size, to the last byte
// that a run touches.
// In place: a result takes over an operand's memory where the op allows it and nothing reads the
// operand afterwards; the end value of a state is written at home under the same condition, and
// copied home at the end of the call otherwise. A view, whole or of a part, has no memory of its
// own; a view of a state that a later call reads after the state's update is copied when it is
// made. Operands of a pack are made at their places in its result, if only the pack reads them
// last.
// Two streams: with overlap, calls of link segments and collectives run on a stream of their own.
// They start when all compute before them has finished; compute waits for them where it reads what
// they make, or needs their memory, which stays theirs until compute waits for them or for later
// ones. What no compute of its phase waits for goes on when the phase has ended, and compute of the
// next one waits for it where it meets its memory.
// Several tiers: where a placer (placement.h) is asked, states have homes on device, host or disk,
// everything has stays, and copies between tiers are instructions on streams of their own.
// Thread-safety: plain values. Ownership: owns everything; refers to executables by index.
//
//   ASSIGN_OR_RETURN(MemoryPlan plan, PlanMemory(step, executables));
//   plan.device_bytes;    // the device arena
#ifndef COLOSSUS_TENSOR_EXEC_MEMORY_PLAN_H_
#define COLOSSUS_TENSOR_EXEC_MEMORY_PLAN_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/exec/executable.h"
#include "tensor/exec/placement.h"
#include "tensor/exec/step.h"

namespace colossus {

inline constexpr int64_t kBufferAlignment = 64;
// Of what the disk holds, and of host memory that goes to or comes from it, in place and size.
inline constexpr int64_t kDiskAlignment = 4096;

inline constexpr int64_t AlignedBytes(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}
inline constexpr int64_t DiskBytes(int64_t bytes) {
  return (bytes + kDiskAlignment - 1) / kDiskAlignment * kDiskAlignment;
}

// A range of a tier's arena, in bytes. Offsets are aligned, `bytes` is exactly what the value has;
// of copies from and to disk, whole blocks.
struct BufferRange {
  int64_t offset = 0;
  int64_t bytes = 0;
  Tier tier = Tier::kDevice;
};

struct StateHome {
  StateInfo info;
  Type type;
  BufferRange range;  // at home
};

enum class InstructionKind : uint8_t {
  kFeed,    // host value `name` → results[0], through `staging`; once per micro-batch
  kKernel,  // node of an executable
  kCopy,    // operands[0] → results[0]: an end value goes home, or a view is kept
  kFetch,   // operands[0] → host value `name`, through `staging`
  // operands[0] → results[0], of placed plans:
  kLoad,       // host → device
  kStore,      // device → host
  kReadDisk,   // disk → host
  kWriteDisk,  // host → disk
};

// "feed", "kernel", "copy", "fetch", "load", "store", "read", "write".
absl::string_view Name(InstructionKind kind);

// What a copy between tiers is counted as.
enum class Moved : uint8_t {
  kParameters,
  kGradients,    // accumulators, and what phases leave to later ones
  kStates,       // masters, moments, and other states
  kActivations,  // what lives within a phase
};
inline constexpr size_t kMovedKinds = 4;
absl::string_view Name(Moved moved);

// Bytes by what they are (index: Moved).
using MovedBytes = std::array<int64_t, kMovedKinds>;
int64_t Total(const MovedBytes& bytes);

// What copies between tiers move. Feeds and fetches are not among them; the disk's bytes are those
// of whole blocks.
struct TierTraffic {
  MovedBytes host_to_device{}, device_to_host{}, disk_read{}, disk_written{};

  TierTraffic& operator+=(const TierTraffic& other);
};

struct Instruction {
  InstructionKind kind = InstructionKind::kKernel;
  int call = 0;           // in Step::calls
  NodeId node = kNoNode;  // kKernel
  std::string name;       // of the feed, first result, state copied to, or output
  int micro_batch = -1;   // the call's
  Type type;              // kFeed, kFetch
  std::vector<BufferRange> operands, results;
  BufferRange workspace;  // 0 bytes if none
  BufferRange staging;    // host arena; kFeed, kFetch
  bool link = false;      // runs on the link stream, the others on the compute stream
  // The instruction of the other stream, the latest before this one, that must have finished when
  // this one starts; -1: none but what an earlier one waited for. A phase starts when all compute
  // of earlier ones has finished.
  int wait = -1;
  // Link instructions of phases whose link outlasts them (MemoryPlan::outlasts) that must have
  // finished, if such a phase ran before: of each phase the latest. Compute only.
  std::vector<int> late_waits;

  // Of placed plans, where `wait` and `late_waits` are not used.
  bool on_host = false;               // runs on host memory; then so is all it touches
  std::vector<int> waits;             // instructions of other streams that must have finished
  int traced = -1;                    // in the trace (placement.h); of no copy between tiers
  Moved moved = Moved::kActivations;  // kLoad ... kWriteDisk
};

// Streams of a program, in the order of this list where all are named.
enum class StepStream : uint8_t {
  kCompute,
  kLink,  // collectives
  kIn,    // loads
  kOut,   // stores
  kHost,  // instructions on host memory
  kDiskIn,
  kDiskOut,
};
inline constexpr size_t kStepStreams = 7;
StepStream StreamOf(const Instruction& instruction);
absl::string_view Name(StepStream stream);
// Whether what the stream does may go on when a phase ends that another one follows: copies for it.
inline bool OutlastsPhase(StepStream stream) {
  return stream == StepStream::kIn || stream == StepStream::kDiskIn;
}

// One of the largest things alive at the peak.
struct Contributor {
  std::string what;  // value or state name, or "workspace of ..."
  int64_t bytes = 0;
};

// What a placer was asked and what it answered.
struct PlacedStep {
  StepTrace trace;
  TierBytes tiers;  // all that there is; of the host without staging
  Placement placement;
};

struct MemoryPlan {
  std::vector<StateHome> states;          // in first-use order within (role, dtype)
  std::vector<Instruction> instructions;  // of all phases, in running order
  std::vector<size_t> phase_end;          // per phase: one past its last instruction
  std::vector<bool> follows;              // per phase: Step::follows
  // Per phase: what its link does last is not waited for by its compute, and may go on while the
  // next phase runs.
  std::vector<bool> outlasts;
  int64_t state_bytes = 0;                // front of the device arena, aligned
  int64_t device_bytes = 0;               // the planned peak: states and everything live
  int64_t host_bytes = 0;                 // the host arena: staging, homes and stays
  std::vector<Contributor> contributors;  // five largest at the peak, largest first
  // Per instruction: device ranges whose last use it is (for poisoning in tests).
  std::vector<std::vector<BufferRange>> freed;

  bool placed = false;           // by a placer: the rest is of such plans
  int64_t staging_bytes = 0;     // front of the host arena
  int64_t host_state_bytes = 0;  // behind it
  int64_t disk_bytes = 0;        // states, then what is put there for a while
  int64_t disk_state_bytes = 0;
  std::vector<Contributor> host_contributors, disk_contributors;
  std::shared_ptr<const PlacedStep> placed_step;

  const StateHome* FindState(absl::string_view name) const;
};

// executables[i] belongs to step.segments[i]. Without overlap there is one stream. Error:
// InvalidArgument for a state with two types or roles, a feed with two types, or a state that ends
// as what another held before its own update.
absl::StatusOr<MemoryPlan> PlanMemory(const Step& step, const std::vector<Executable>& executables,
                                      bool overlap = false);

// How long things took. Negative or 0: not measured.
struct StepTimes {
  std::vector<double> device, host;  // seconds per instruction of the trace, where it ran
  // Bytes per second of copies.
  double link = 0, disk_read = 0, disk_write = 0;
};

// What a plan that is made again keeps: its states' homes, and what was measured.
struct PlannedBefore {
  const MemoryPlan* plan = nullptr;
  const StepTimes* times = nullptr;
};

// The same with what `placer` says for `tiers`. It is asked again, with less, where what it places
// does not fit side by side. Error: what PlanMemory and the placer say, ResourceExhausted if that
// fails several times.
absl::StatusOr<MemoryPlan> PlanPlacedMemory(const Step& step,
                                            const std::vector<Executable>& executables,
                                            bool overlap, const Placer& placer,
                                            const TierBytes& tiers,
                                            const PlannedBefore& before = {});

// Of one run of a phase.
TierTraffic TrafficOf(const MemoryPlan& plan, int phase);

// One message: need, capacity, the five largest contributors and what would make it fit.
absl::Status CheckFits(const MemoryPlan& plan, int64_t capacity_bytes);
// The same of all tiers; staging counts as host memory.
absl::Status CheckFits(const MemoryPlan& plan, const TierBytes& tiers);

// One line per state and instruction with offsets and bytes, after a line with the totals:
//   device 18432 bytes, 16384 of state; host 1088 bytes
//   state w parameter f32[64,64] [0,16384)
//   phase 0
//   0 feed x.2 -> [16384,17408)
//   1 kernel y.2 [16384,17408) [0,16384) -> [17408,18432)
// where 2 is the micro-batch; a workspace, "on link" and "after 7", what is waited for, stand at
// the end of a line. Ranges of other tiers are named: host [0,64).
std::string ToText(const MemoryPlan& plan);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_MEMORY_PLAN_H_
