// Executable: one compiled segment: a kernel chosen for every node, nothing placed yet.
//
// Purpose: compiled once, run for every micro-batch. Compile refuses what no kernel computes;
// running never does.
// Thread-safety: one rank's thread. Ownership: shares the graph; shares planned kernels with the
// cache, in which equal requests (op, attributes, types, threads) meet.
//
//   KernelCache cache(device.kernels(), device.threads()), link(device.kernels(), ...);
//   ASSIGN_OR_RETURN(Executable executable, Compile(segment, cache, rates, &link));
#ifndef COLOSSUS_TENSOR_EXEC_EXECUTABLE_H_
#define COLOSSUS_TENSOR_EXEC_EXECUTABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "tensor/cost/device_rates.h"
#include "tensor/exec/segment.h"
#include "tensor/graph/graph.h"
#include "tensor/kernels/kernel.h"

namespace colossus {

class KernelCache {
 public:
  // `kernels` must outlive the cache.
  KernelCache(KernelList kernels, int threads) : kernels_(kernels), threads_(threads) {}
  absl::StatusOr<std::shared_ptr<const PlannedKernel>> Plan(const Node& node, const Types& operands,
                                                            const Types& results);

 private:
  KernelList kernels_;
  int threads_;
  absl::flat_hash_map<std::string, std::shared_ptr<const PlannedKernel>> planned_;
};

struct CompiledNode {
  std::shared_ptr<const PlannedKernel> kernel;  // nullptr: a view, nothing runs
  double seconds = 0;                           // predicted: by the device's rates, or the kernel
  // The same on host memory; nullptr: it may not run there.
  std::shared_ptr<const PlannedKernel> host_kernel;
  double host_seconds = 0;
  bool link = false;                  // runs on the link stream: a collective
  Aliases aliases;                    // what the op allows
  std::vector<int64_t> view_offsets;  // of a view: bytes into operand 0, per result
  // Bytes into result 0 at which each operand may be made; empty: nowhere.
  std::vector<int64_t> operand_places;
};

struct Executable {
  std::string name;
  std::shared_ptr<const Graph> graph;
  std::vector<CompiledNode> nodes;  // one per node of the graph
};

// Where kernels are planned a second time, for the host.
struct HostKernels {
  KernelCache* cache = nullptr;  // of the host stream; nullptr: nothing runs on the host
  DeviceRates rates;
};

// Collectives are planned by `link`, the cache of the stream that they run on, since a planned
// kernel runs on one stream only; nullptr: there is no such stream, and `cache` plans everything.
// What no host kernel computes may not run on the host, and neither may collectives.
// Error: Unimplemented with the node and every kernel's reason.
absl::StatusOr<Executable> Compile(const Segment& segment, KernelCache& cache,
                                   const DeviceRates& rates, KernelCache* link = nullptr,
                                   const HostKernels& host = {});

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_EXECUTABLE_H_
