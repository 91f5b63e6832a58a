// Program: what one rank executes: a step's instructions with every buffer's place fixed.
//
// Purpose: compiles a step for a device, refuses it when it cannot run or fit, then runs its
// phases as often as wanted. The same Program runs for real, or on the null device in virtual time.
// Collectives and calls of link segments run beside compute, on a second stream. With a placer,
// states and values have places on device, host and disk, copies between them and work of the host
// run on further streams, and the bits are the same.
// Thread-safety: one thread. Ownership: owns step, kernels, plan and arenas; the device must
// outlive it.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Program::Compile(step, *device, {}));
//   RETURN_IF_ERROR(program->Allocate());
//   RETURN_IF_ERROR(program->WriteState("w", w));
//   ASSIGN_OR_RETURN(Fetched out, program->RunPhase(0, feeds));
#ifndef COLOSSUS_TENSOR_EXEC_PROGRAM_H_
#define COLOSSUS_TENSOR_EXEC_PROGRAM_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stream.h"
#include "tensor/cost/device_rates.h"
#include "tensor/exec/device.h"
#include "tensor/exec/disk_tier.h"
#include "tensor/exec/executable.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/placement.h"
#include "tensor/exec/step.h"
#include "tensor/host_tensor.h"

namespace colossus {

// The host's value of a feed for a micro-batch (-1: once per step); nullptr if there is none. The
// tensor must stay valid until the phase returns. Not called on the null device.
using FeedFunction = std::function<const HostTensor*(absl::string_view feed, int micro_batch)>;

// Fetched outputs by (output name, micro-batch). On the null device: zeros.
using Fetched = std::map<std::pair<std::string, int>, HostTensor>;

// Sees every instruction of a run: profiles, dumps, fault injection, the search for a non-finite
// value. With an observer the program waits for each instruction, unless it does not ask for that.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // False: After is called when the instruction is on its way, whether it has run or not.
  virtual bool waits() const { return true; }
  virtual void Before(size_t instruction) { (void)instruction; }
  virtual absl::Status After(size_t instruction) {
    (void)instruction;
    return absl::OkStatus();
  }
};

struct ProgramOptions {
  DeviceRates rates;
  // Fills memory with NaN before the first use and after the last use of every buffer: whoever
  // reads a dead range computes NaN. For tests.
  bool poison = false;
  // Communication runs on a stream of its own, beside compute, where the device's streams run
  // beside each other. Changes no bit, only time and memory.
  bool overlap = true;

  // Decides what lies where, when; nullptr: everything is on the device.
  std::shared_ptr<const Placer> placer;
  // Does not ask it where everything fits the device.
  bool place_only_what_does_not_fit = false;
  // What a placement may use of the host, staging of feeds and of the disk included.
  int64_t host_memory_bytes = INT64_MAX;
  // And of the disk; 0: there is none. What `disk` can have is the limit too.
  int64_t disk_memory_bytes = 0;
  // The null device needs none.
  std::shared_ptr<DiskTier> disk;
  // Of what runs on the host, and of copies: for predictions. (The null device's link has its own.)
  DeviceRates host_rates;
  TransferRates transfer_rates;
};

class Program {
 public:
  // Chooses kernels and plans memory; takes none. Error: Unimplemented (no kernel),
  // ResourceExhausted (does not fit, with contributors), InvalidArgument (a step that is wrong, or
  // a disk that is missing).
  static absl::StatusOr<std::unique_ptr<Program>> Compile(Step step, Device& device,
                                                          const ProgramOptions& options);

  // Takes the arenas, and the disk's bytes. Error: ResourceExhausted.
  absl::Status Allocate();

  // Asks the system to keep the host arena of a placed plan out of swap. Error: what LockPages
  // says; the program runs all the same. REQUIRES: allocated.
  absl::Status LockHostPages();
  // Places again by what was measured, in the memory that was taken, and with every state where it
  // is. Whether that changed the plan: false where it does not fit so. Error: what is no matter of
  // room. REQUIRES: allocated, with a placer; between updates, since only states are kept.
  absl::StatusOr<bool> PlaceAgain(const StepTimes& times);
  // What PlaceAgain was given last; empty vectors: nothing yet.
  const StepTimes& measured() const { return measured_; }

  const Step& step() const { return step_; }
  const MemoryPlan& plan() const { return plan_; }
  const std::vector<Executable>& executables() const { return executables_; }
  Device& device() { return device_; }
  const ProgramOptions& options() const { return options_; }

  // States, whole or in ranges of bytes, wherever their homes are. REQUIRES: allocated. Error:
  // NotFound, or another type.
  absl::Status WriteState(absl::string_view name, const HostTensor& value);
  absl::StatusOr<HostTensor> ReadState(absl::string_view name);
  absl::Status WriteStateBytes(absl::string_view name, int64_t offset, const void* src,
                               int64_t bytes);
  absl::Status ReadStateBytes(absl::string_view name, int64_t offset, void* dst, int64_t bytes);

  // Runs one phase to its end. Phases of a step run in order; those that follow (Step::follows)
  // only right after the one before. Values that cross phases stay where they are in between.
  // Communication that no compute of the phase needs may go on after it (MemoryPlan::outlasts), and
  // copies for a phase that follows; their error is that of the next phase, or of the next state
  // that is read or written. Error: InvalidArgument for a missing or mistyped feed (before anything
  // runs), or the first error of an instruction or observer.
  absl::StatusOr<Fetched> RunPhase(int phase, const FeedFunction& feeds,
                                   StepObserver* observer = nullptr);

  // Staging, and what a placement keeps on the host. REQUIRES: allocated.
  Arena& host_arena() { return *host_arena_; }
  // What copies between tiers have moved in all phases run so far.
  const TierTraffic& traffic() const { return traffic_; }

  // Bytes of an instruction's operand or result, for observers that wait.
  absl::Status ReadRange(const BufferRange& range, void* dst);
  absl::Status WriteRange(const BufferRange& range, const void* src);
  // The same in place. Host device only.
  const char* address(const BufferRange& range) const { return Address(range); }

 private:
  friend class ProgramTestPeer;  // takes waits away, for the tests that must fail then
  Program(Step step, Device& device, const ProgramOptions& options)
      : step_(std::move(step)),
        device_(device),
        options_(options),
        kernels_(device.kernels(), device.threads()),
        link_kernels_(device.kernels(), device.threads()),
        host_kernels_(device.host_kernels(), device.host_threads()) {}

  absl::Status CheckFeeds(size_t begin, size_t end, const FeedFunction& feeds,
                          std::vector<const HostTensor*>& values) const;
  absl::Status CompileSegments(bool overlap);
  absl::Status Plan(bool overlap);
  void StartStreams();
  TierBytes Tiers() const;
  void FindAwaited();
  // Of the device or host arena.
  char* Address(const BufferRange& range) const {
    return (range.tier == Tier::kDevice ? device_arena_ : host_arena_)->base() + range.offset;
  }
  Stream& stream(StepStream which) { return *streams_[static_cast<size_t>(which)]; }
  Stream& compute() { return stream(StepStream::kCompute); }
  absl::Status RunInstructions(size_t begin, size_t end,
                               const std::vector<const HostTensor*>& values,
                               StepObserver* observer);
  void Enqueue(size_t t, bool first, const HostTensor* feed);
  void Enqueue(Stream& stream, const Instruction& instruction, const HostTensor* feed);
  void EnqueueOnHost(Stream& stream, const Instruction& instruction, const HostTensor* feed);
  void EnqueueOnDisk(Stream& stream, const Instruction& instruction);
  KernelLaunch LaunchOf(const Instruction& instruction) const;
  void Poison(size_t t);
  absl::Status PoisonPlaced(size_t t);
  // All streams; or those that do not outlast a phase that another follows.
  absl::Status Synchronize(bool all = true);
  absl::StatusOr<const StateHome*> Home(absl::string_view name, int64_t offset,
                                        int64_t bytes) const;

  Step step_;
  Device& device_;
  ProgramOptions options_;
  // Of the streams: a planned kernel runs on one only.
  KernelCache kernels_, link_kernels_, host_kernels_;
  std::vector<Executable> executables_;
  MemoryPlan plan_;
  std::unique_ptr<Arena> device_arena_, host_arena_;
  // By StepStream; nullptr if nothing runs on it.
  std::array<std::unique_ptr<Stream>, kStepStreams> streams_;
  TierTraffic traffic_;
  int64_t disk_reserved_ = 0;
  StepTimes measured_;
  std::vector<bool> awaited_;                   // by instruction: another stream waits for it
  std::vector<std::shared_ptr<Event>> events_;  // of awaited instructions, when they ran last
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_PROGRAM_H_
