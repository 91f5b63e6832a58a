// The kernels of a rank: its device's, and those of collectives, bound to its communicators.
//
// Purpose: a rank's list is made once, before its device: the collective kernel, then the device's
// list. Buffers are read and written where they lie; all_to_all of a dim that is not the outermost
// packs it first, in a workspace. A planned collective says how long it takes (collectives/cost.h);
// without ranks, for the null device, that is all it does.
// Thread-safety: as MeshCommunicators when planning; a planned kernel runs on one thread at a time,
// and those of one group and channel on the same stream. Ownership: the communicators and the
// device's kernels outlive the list, the list outlives the device.
//
//   CollectiveKernels kernels(communicators, CpuKernels());
//   std::unique_ptr<Device> device = NewHostDevice({.threads = 2, .kernels = kernels.list()});
#ifndef COLOSSUS_TENSOR_KERNELS_COLLECTIVE_COLLECTIVE_KERNELS_H_
#define COLOSSUS_TENSOR_KERNELS_COLLECTIVE_COLLECTIVE_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "collectives/cost.h"
#include "collectives/mesh.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/kernels/kernel.h"

namespace colossus {

class CollectiveKernels {
 public:
  CollectiveKernels(MeshCommunicators& communicators, KernelList device,
                    absl::string_view channel = "", const LinkRates& rates = {});
  // Plans collectives over the axes of a mesh; they cannot run.
  CollectiveKernels(const Mesh& mesh, KernelList device, const LinkRates& rates = {});
  ~CollectiveKernels();

  KernelList list() const { return list_; }

 private:
  std::unique_ptr<Kernel> collective_;
  std::vector<const Kernel*> list_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_COLLECTIVE_COLLECTIVE_KERNELS_H_
