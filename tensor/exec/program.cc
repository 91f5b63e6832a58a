#include "tensor/exec/program.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/exec/disk/page_lock.h"

namespace colossus {
namespace {

constexpr unsigned char kPoison = 0xFF;  // all ones: NaN in every float type

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> Program::Compile(Step step, Device& device,
                                                          const ProgramOptions& options) {
  std::unique_ptr<Program> program(new Program(std::move(step), device, options));
  const bool overlap = options.overlap && device.overlaps();
  RETURN_IF_ERROR(program->CompileSegments(overlap));
  RETURN_IF_ERROR(program->Plan(overlap));
  program->FindAwaited();
  return program;
}

absl::Status Program::CompileSegments(bool overlap) {
  for (const StepSegment& segment : step_.segments) {
    KernelCache& own = overlap && segment.link ? link_kernels_ : kernels_;
    HostKernels host;
    if (options_.placer != nullptr && segment.may_run_on_host) {
      host = {&host_kernels_, options_.host_rates};
    }
    ASSIGN_OR_RETURN(Executable executable,
                     colossus::Compile(segment.segment, own, options_.rates,
                                       overlap ? &link_kernels_ : nullptr, host));
    executables_.push_back(std::move(executable));
  }
  return absl::OkStatus();
}

TierBytes Program::Tiers() const {
  TierBytes tiers{device_.capacity_bytes(), options_.host_memory_bytes, options_.disk_memory_bytes};
  if (options_.disk != nullptr) {
    tiers.staging = options_.disk->staging_bytes();
    tiers.host -= tiers.staging;
    tiers.disk = std::min(tiers.disk, options_.disk->capacity_bytes());
  }
  return tiers;
}

absl::Status Program::Plan(bool overlap) {
  if (options_.placer == nullptr) {
    ASSIGN_OR_RETURN(plan_, PlanMemory(step_, executables_, overlap));
    return CheckFits(plan_, device_.capacity_bytes());
  }
  if (options_.disk_memory_bytes > 0 && options_.disk == nullptr && device_.computes()) {
    return absl::InvalidArgumentError("a placement that may use the disk needs one");
  }
  if (options_.disk != nullptr && kDiskAlignment % options_.disk->alignment_bytes() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the disk's blocks of ",
                                                   options_.disk->alignment_bytes(),
                                                   " bytes do not divide ", kDiskAlignment));
  }
  if (options_.place_only_what_does_not_fit) {
    ASSIGN_OR_RETURN(plan_, PlanMemory(step_, executables_, overlap));
    if (CheckFits(plan_, device_.capacity_bytes()).ok()) return absl::OkStatus();
  }
  const TierBytes tiers = Tiers();
  ASSIGN_OR_RETURN(plan_, PlanPlacedMemory(step_, executables_, overlap, *options_.placer, tiers));
  return CheckFits(plan_, tiers);
}

void Program::FindAwaited() {
  awaited_.assign(plan_.instructions.size(), false);
  for (const Instruction& instruction : plan_.instructions) {
    if (instruction.wait >= 0) awaited_[static_cast<size_t>(instruction.wait)] = true;
    for (int late : instruction.late_waits) awaited_[static_cast<size_t>(late)] = true;
    for (int wait : instruction.waits) awaited_[static_cast<size_t>(wait)] = true;
  }
}

absl::Status Program::LockHostPages() {
  if (!plan_.placed || !device_.computes()) return absl::OkStatus();
  return LockPages(host_arena_->base(), host_arena_->bytes());
}

absl::Status Program::Allocate() {
  // Whole blocks, so that the arena begins at one.
  const int64_t host_bytes = plan_.placed ? DiskBytes(plan_.host_bytes) : plan_.host_bytes;
  ASSIGN_OR_RETURN(device_arena_, device_.NewArena(Tier::kDevice, plan_.device_bytes));
  ASSIGN_OR_RETURN(host_arena_, device_.NewArena(Tier::kHost, host_bytes));
  if (plan_.disk_bytes > 0 && options_.disk != nullptr) {
    RETURN_IF_ERROR(options_.disk->Reserve(plan_.disk_bytes));
  }
  disk_reserved_ = plan_.disk_bytes;
  StartStreams();
  if (options_.poison) {
    device_.Fill(compute(), device_arena_->base(), kPoison, plan_.device_bytes);
    if (plan_.placed && device_.computes()) {
      std::memset(host_arena_->base(), kPoison, static_cast<size_t>(host_bytes));
    }
  }
  return compute().Synchronize();
}

void Program::StartStreams() {
  auto start = [this](StepStream which) {
    std::unique_ptr<Stream>& stream = streams_[static_cast<size_t>(which)];
    if (stream != nullptr) return;
    stream = which >= StepStream::kHost ? device_.NewHostStream(Name(which))
                                        : device_.NewStream(Name(which));
  };
  start(StepStream::kCompute);
  for (const Instruction& instruction : plan_.instructions) start(StreamOf(instruction));
  events_.assign(plan_.instructions.size(), nullptr);
}

absl::StatusOr<bool> Program::PlaceAgain(const StepTimes& times) {
  CHECK(plan_.placed && device_arena_ != nullptr);
  const TierBytes taken{device_arena_->bytes(), host_arena_->bytes(), disk_reserved_};
  absl::StatusOr<MemoryPlan> again =
      PlanPlacedMemory(step_, executables_, options_.overlap && device_.overlaps(),
                       *options_.placer, taken, {&plan_, &times});
  measured_ = times;
  if (absl::IsResourceExhausted(again.status())) return false;
  if (!again.ok()) return again.status();
  for (size_t i = 0; i < plan_.states.size(); ++i) {
    if (again->states[i].range.offset != plan_.states[i].range.offset) return false;
  }
  RETURN_IF_ERROR(Synchronize());
  plan_ = *std::move(again);
  FindAwaited();
  StartStreams();
  return true;
}

absl::StatusOr<const StateHome*> Program::Home(absl::string_view name, int64_t offset,
                                               int64_t bytes) const {
  CHECK(device_arena_ != nullptr) << "Allocate() comes first";
  const StateHome* home = plan_.FindState(name);
  if (home == nullptr) return absl::NotFoundError(absl::StrCat("no state '", name, "'"));
  if (offset < 0 || bytes < 0 || offset + bytes > home->range.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("state '", name, "' has ", home->range.bytes,
                                                   " bytes; asked for [", offset, ", ",
                                                   offset + bytes, ")"));
  }
  return home;
}

absl::Status Program::WriteStateBytes(absl::string_view name, int64_t offset, const void* src,
                                      int64_t bytes) {
  ASSIGN_OR_RETURN(const StateHome* home, Home(name, offset, bytes));
  return WriteRange({home->range.offset + offset, bytes, home->range.tier}, src);
}

absl::Status Program::ReadStateBytes(absl::string_view name, int64_t offset, void* dst,
                                     int64_t bytes) {
  ASSIGN_OR_RETURN(const StateHome* home, Home(name, offset, bytes));
  return ReadRange({home->range.offset + offset, bytes, home->range.tier}, dst);
}

absl::Status Program::ReadRange(const BufferRange& range, void* dst) {
  RETURN_IF_ERROR(Synchronize());
  if (range.tier == Tier::kDevice) {
    device_.CopyOut(compute(), dst, Address(range), range.bytes);
    return compute().Synchronize();
  }
  if (!device_.computes()) return absl::OkStatus();
  if (range.tier == Tier::kDisk) return options_.disk->Read(range.offset, dst, range.bytes);
  std::memcpy(dst, Address(range), static_cast<size_t>(range.bytes));
  return absl::OkStatus();
}

absl::Status Program::WriteRange(const BufferRange& range, const void* src) {
  RETURN_IF_ERROR(Synchronize());
  if (range.tier == Tier::kDevice) {
    device_.CopyIn(compute(), Address(range), src, range.bytes);
    return compute().Synchronize();
  }
  if (!device_.computes()) return absl::OkStatus();
  if (range.tier == Tier::kDisk) return options_.disk->Write(range.offset, src, range.bytes);
  std::memcpy(Address(range), src, static_cast<size_t>(range.bytes));
  return absl::OkStatus();
}

absl::Status Program::WriteState(absl::string_view name, const HostTensor& value) {
  ASSIGN_OR_RETURN(const StateHome* home, Home(name, 0, 0));
  if (home->type != value.type()) {
    return absl::InvalidArgumentError(absl::StrCat("state '", name, "' is ", ToString(home->type),
                                                   ", given ", ToString(value.type())));
  }
  return WriteStateBytes(name, 0, value.raw(), value.type().bytes());
}

absl::StatusOr<HostTensor> Program::ReadState(absl::string_view name) {
  ASSIGN_OR_RETURN(const StateHome* home, Home(name, 0, 0));
  HostTensor value(home->type);
  RETURN_IF_ERROR(ReadStateBytes(name, 0, value.raw(), value.type().bytes()));
  return value;
}

absl::Status Program::CheckFeeds(size_t begin, size_t end, const FeedFunction& feeds,
                                 std::vector<const HostTensor*>& values) const {
  values.assign(end - begin, nullptr);
  if (!device_.computes()) return absl::OkStatus();
  for (size_t t = begin; t < end; ++t) {
    const Instruction& instruction = plan_.instructions[t];
    if (instruction.kind != InstructionKind::kFeed) continue;
    const HostTensor* value = feeds(instruction.name, instruction.micro_batch);
    if (value == nullptr || value->type() != instruction.type) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feed '", instruction.name, "' of type ", ToString(instruction.type), " for micro-batch ",
          instruction.micro_batch, " is ", value == nullptr ? "missing" : ToString(value->type())));
    }
    values[t - begin] = value;
  }
  return absl::OkStatus();
}

// The error of whichever failed first: it is the others' too, where those waited.
absl::Status Program::Synchronize(bool all) {
  absl::Status first;
  for (size_t s = 0; s < streams_.size(); ++s) {
    const std::unique_ptr<Stream>& stream = streams_[s];
    if (stream == nullptr || (!all && OutlastsPhase(static_cast<StepStream>(s)))) continue;
    const absl::Status status = stream->Synchronize();
    if (first.ok()) first = status;
  }
  return first;
}

void Program::Poison(size_t t) {
  if (!options_.poison) return;
  for (const BufferRange& range : plan_.freed[t]) {
    device_.Fill(compute(), Address(range), kPoison, range.bytes);
  }
}

// Of placed plans, whose streams all have to be done with what is dead.
absl::Status Program::PoisonPlaced(size_t t) {
  if (!options_.poison || plan_.freed[t].empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Synchronize());
  for (const BufferRange& range : plan_.freed[t]) {
    if (range.tier == Tier::kDevice) {
      device_.Fill(compute(), Address(range), kPoison, range.bytes);
    } else if (range.tier == Tier::kHost && device_.computes()) {
      std::memset(Address(range), kPoison, static_cast<size_t>(range.bytes));
    }
  }
  return compute().Synchronize();
}

// The instruction between its waits and its event.
void Program::Enqueue(size_t t, bool first, const HostTensor* feed) {
  const Instruction& instruction = plan_.instructions[t];
  Stream& own = stream(StreamOf(instruction));
  if (instruction.wait >= 0) own.WaitFor(events_[static_cast<size_t>(instruction.wait)]);
  for (int late : instruction.late_waits) {
    const std::shared_ptr<Event>& event = events_[static_cast<size_t>(late)];
    if (event != nullptr) own.WaitFor(event);  // else that phase has not run
  }
  for (int wait : instruction.waits) own.WaitFor(events_[static_cast<size_t>(wait)]);
  if (!plan_.placed) {
    // What the link touched last is dead when compute has waited for it: now, not before.
    if (!first) Poison(t - 1);
    // And the link may use what is dead.
    if (options_.poison && instruction.link) own.WaitFor(compute().Record());
  }
  if (StreamOf(instruction) == StepStream::kHost) {
    EnqueueOnHost(own, instruction, feed);
  } else {
    Enqueue(own, instruction, feed);
  }
  if (awaited_[t]) events_[t] = own.Record();
}

KernelLaunch Program::LaunchOf(const Instruction& instruction) const {
  const Call& call = step_.calls[instruction.call];
  const CompiledNode& node = executables_[call.segment].nodes[instruction.node];
  KernelLaunch launch;
  launch.kernel = instruction.on_host ? node.host_kernel.get() : node.kernel.get();
  launch.seconds = instruction.on_host ? node.host_seconds : node.seconds;
  for (const BufferRange& range : instruction.operands) launch.operands.push_back(Address(range));
  for (const BufferRange& range : instruction.results) launch.results.push_back(Address(range));
  launch.workspace = Address(instruction.workspace);
  return launch;
}

void Program::Enqueue(Stream& stream, const Instruction& instruction, const HostTensor* feed) {
  char* staging = host_arena_->base() + instruction.staging.offset;
  switch (instruction.kind) {
    case InstructionKind::kFeed:
      if (feed != nullptr) std::memcpy(staging, feed->raw(), feed->type().bytes());
      device_.CopyIn(stream, Address(instruction.results[0]), staging, instruction.type.bytes());
      return;
    case InstructionKind::kFetch:
      device_.CopyOut(stream, staging, Address(instruction.operands[0]), instruction.type.bytes());
      return;
    case InstructionKind::kCopy:
      device_.CopyWithin(stream, Address(instruction.results[0]), Address(instruction.operands[0]),
                         instruction.results[0].bytes);
      return;
    case InstructionKind::kLoad:
      device_.CopyIn(stream, Address(instruction.results[0]), Address(instruction.operands[0]),
                     instruction.results[0].bytes);
      return;
    case InstructionKind::kStore:
      device_.CopyOut(stream, Address(instruction.results[0]), Address(instruction.operands[0]),
                      instruction.results[0].bytes);
      return;
    case InstructionKind::kReadDisk:
    case InstructionKind::kWriteDisk:
      return EnqueueOnDisk(stream, instruction);
    case InstructionKind::kKernel:
      device_.Launch(stream, LaunchOf(instruction));
      return;
  }
}

void Program::EnqueueOnHost(Stream& stream, const Instruction& instruction,
                            const HostTensor* feed) {
  if (instruction.kind == InstructionKind::kKernel) {
    KernelLaunch launch = LaunchOf(instruction);
    const double seconds = launch.seconds;
    device_.LaunchOnHost(
        stream,
        [launch = std::move(launch)] {
          return RunKernel(*launch.kernel, {launch.operands, launch.results, launch.workspace});
        },
        seconds);
    return;
  }
  // Feeds, fetches and copies: between host memory and staging, or other host memory.
  char* staging = host_arena_->base() + instruction.staging.offset;
  if (feed != nullptr) std::memcpy(staging, feed->raw(), feed->type().bytes());
  const bool out = instruction.kind == InstructionKind::kFetch;
  const bool in = instruction.kind == InstructionKind::kFeed;
  const char* from = in ? staging : Address(instruction.operands[0]);
  char* to = out ? staging : Address(instruction.results[0]);
  const int64_t bytes = out ? instruction.type.bytes() : instruction.results[0].bytes;
  device_.LaunchOnHost(
      stream,
      [=] {
        std::memcpy(to, from, static_cast<size_t>(bytes));
        return absl::OkStatus();
      },
      static_cast<double>(bytes) / options_.host_rates.bytes_per_second);
}

void Program::EnqueueOnDisk(Stream& stream, const Instruction& instruction) {
  DiskTier* disk = options_.disk.get();
  const TransferRates& rates = options_.transfer_rates;
  if (instruction.kind == InstructionKind::kReadDisk) {
    const BufferRange from = instruction.operands[0];
    char* to = Address(instruction.results[0]);
    device_.LaunchOnHost(
        stream, [=] { return disk->Read(from.offset, to, from.bytes); },
        static_cast<double>(from.bytes) / rates.disk_read_bytes_per_second);
  } else {
    const BufferRange to = instruction.results[0];
    const char* from = Address(instruction.operands[0]);
    device_.LaunchOnHost(
        stream, [=] { return disk->Write(to.offset, from, to.bytes); },
        static_cast<double>(to.bytes) / rates.disk_write_bytes_per_second);
  }
}

absl::Status Program::RunInstructions(size_t begin, size_t end,
                                      const std::vector<const HostTensor*>& values,
                                      StepObserver* observer) {
  for (size_t t = begin; t < end; ++t) {
    if (observer != nullptr) observer->Before(t);
    if (plan_.placed && t > begin) RETURN_IF_ERROR(PoisonPlaced(t - 1));
    Enqueue(t, /*first=*/t == begin, values[t - begin]);
    if (observer == nullptr) continue;
    if (observer->waits()) RETURN_IF_ERROR(Synchronize());
    if (absl::Status status = observer->After(t); !status.ok()) {
      // What is on its way still reads the feeds.
      Synchronize().IgnoreError();
      return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Fetched> Program::RunPhase(int phase, const FeedFunction& feeds,
                                          StepObserver* observer) {
  CHECK(device_arena_ != nullptr) << "Allocate() comes first";
  size_t begin = phase == 0 ? 0 : plan_.phase_end[phase - 1], end = plan_.phase_end[phase];
  // Copies for a phase that did not come may still run.
  if (plan_.placed && !plan_.follows[phase]) RETURN_IF_ERROR(Synchronize());
  std::vector<const HostTensor*> values;
  RETURN_IF_ERROR(CheckFeeds(begin, end, feeds, values));
  RETURN_IF_ERROR(RunInstructions(begin, end, values, observer));
  // What the link still does may go on, if nobody needs to know that it is dead.
  const bool outlasts = plan_.outlasts[static_cast<size_t>(phase)] && !options_.poison;
  const size_t next = static_cast<size_t>(phase) + 1;
  const bool followed = plan_.placed && next < plan_.follows.size() && plan_.follows[next];
  RETURN_IF_ERROR(outlasts ? compute().Synchronize() : Synchronize(/*all=*/!followed));
  if (begin < end && plan_.placed) RETURN_IF_ERROR(PoisonPlaced(end - 1));
  if (begin < end && !plan_.placed) Poison(end - 1);
  RETURN_IF_ERROR(compute().Synchronize());
  if (plan_.placed) traffic_ += TrafficOf(plan_, phase);
  Fetched fetched;
  for (size_t t = begin; t < end; ++t) {
    const Instruction& instruction = plan_.instructions[t];
    if (instruction.kind != InstructionKind::kFetch) continue;
    HostTensor value(instruction.type);
    if (device_.computes()) {
      std::memcpy(value.raw(), host_arena_->base() + instruction.staging.offset,
                  value.type().bytes());
    }
    fetched.emplace(std::make_pair(instruction.name, instruction.micro_batch), std::move(value));
  }
  return fetched;
}

}  // namespace colossus
