#include "tensor/testing/run_on_ranks.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "collectives/in_process.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/reference/interpreter.h"

namespace colossus {
namespace {

// Calls fn(offset in the whole, offset in the part) for every element of a slice.
template <typename Fn>
void ForEachElement(const Slice& slice, Fn fn) {
  int64_t at = 0;
  ForEachIndex(slice.extent, [&](Dims index) {
    for (size_t d = 0; d < index.size(); ++d) index[d] += slice.origin[d];
    fn(OffsetOf(index, slice.global), at++);
  });
}

Slice SliceFor(const Dims& dims, const Sharding& sharding, const Mesh& mesh, int rank) {
  absl::StatusOr<Slice> slice = SliceOf(dims, sharding, mesh, rank);
  CHECK_OK(slice.status());
  return *std::move(slice);
}

// The lowest rank with the same coordinates along all axes that the sharding uses.
int Original(const Sharding& sharding, const Mesh& mesh, int rank) {
  AxisNames free;
  for (const MeshAxis& axis : mesh.axes()) {
    auto uses = [&](const AxisNames& axes) {
      return std::find(axes.begin(), axes.end(), axis.name) != axes.end();
    };
    if (!uses(sharding.partial) && std::none_of(sharding.dims.begin(), sharding.dims.end(), uses)) {
      free.push_back(axis.name);
    }
  }
  const std::vector<int> group = mesh.Group(rank, free);
  return *std::min_element(group.begin(), group.end());
}

}  // namespace

absl::Status RunOnRanks(const Mesh& mesh,
                        const std::function<absl::Status(MeshCommunicators&)>& body) {
  return RunRanks({.ranks = mesh.ranks()}, [&](Communicator& world) {
    MeshCommunicators communicators(mesh, world);
    return body(communicators);
  });
}

absl::StatusOr<std::vector<RankRun>> RunGraphsOnRanks(const Mesh& mesh,
                                                      absl::Span<const Graph> graphs,
                                                      absl::Span<const HostTensors> inputs,
                                                      KernelList kernels) {
  CHECK_EQ(graphs.size(), static_cast<size_t>(mesh.ranks()));
  CHECK_EQ(inputs.size(), graphs.size());
  std::vector<RankRun> runs(graphs.size());
  RETURN_IF_ERROR(RunOnRanks(mesh, [&](MeshCommunicators& communicators) {
    const int rank = communicators.rank();
    CollectiveKernels list(communicators, kernels);
    ASSIGN_OR_RETURN(runs[rank].outputs, Interpret(graphs[rank], inputs[rank], list.list()));
    runs[rank].counts = communicators.counts();
    return absl::OkStatus();
  }));
  return runs;
}

std::vector<HostTensor> OutputOf(absl::Span<const RankRun> ranks, absl::string_view name) {
  std::vector<HostTensor> parts;
  for (const RankRun& run : ranks) {
    auto found = run.outputs.find(std::string(name));
    CHECK(found != run.outputs.end()) << name;
    parts.push_back(found->second);
  }
  return parts;
}

HostTensor CutSlice(const HostTensor& whole, const Slice& slice) {
  HostTensor part(Type{whole.type().dtype, slice.extent});
  const int64_t bytes = SizeOf(whole.type().dtype);
  ForEachElement(slice, [&](int64_t from, int64_t to) {
    std::copy_n(static_cast<const char*>(whole.raw()) + from * bytes, bytes,
                static_cast<char*>(part.raw()) + to * bytes);
  });
  return part;
}

std::vector<HostTensor> TakeApart(const HostTensor& whole, const Sharding& sharding,
                                  const Mesh& mesh, std::mt19937_64& random, bool integers) {
  std::uniform_real_distribution<double> uniform(-4, 4);
  std::vector<HostTensor> parts(mesh.ranks());
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const Slice slice = SliceFor(whole.type().dims, sharding, mesh, rank);
    if (Original(sharding, mesh, rank) != rank) {
      parts[rank] = parts[Original(sharding, mesh, rank)];
      continue;
    }
    parts[rank] = CutSlice(whole, slice);
    const std::vector<int> sum = mesh.Group(rank, sharding.partial);
    const bool last = *std::max_element(sum.begin(), sum.end()) == rank;
    for (int64_t i = 0; i < parts[rank].type().elements() && sum.size() > 1; ++i) {
      const double value = uniform(random);
      if (!last)
        parts[rank].Set(i, integers ? static_cast<double>(static_cast<int>(value)) : value);
      for (int other : sum) {
        if (last && other != rank) parts[rank].Set(i, parts[rank].Get(i) - parts[other].Get(i));
      }
    }
  }
  return parts;
}

absl::StatusOr<HostTensor> PutTogether(const Type& global, const Sharding& sharding,
                                       const Mesh& mesh, absl::Span<const HostTensor> parts) {
  CHECK_EQ(parts.size(), static_cast<size_t>(mesh.ranks()));
  ASSIGN_OR_RETURN(Type local, LocalType(global, sharding, mesh));
  HostTensor whole(sharding.partial.empty() ? global : Type{DType::kF64, global.dims});
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (parts[rank].type() != local) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", rank, " has ", ToString(parts[rank].type()), ", not ", ToString(local)));
    }
    const int original = Original(sharding, mesh, rank);
    if (original != rank) {
      if (parts[rank] == parts[original]) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("ranks ", original, " and ", rank, " differ in a value ", ToText(sharding)));
    }
    const Slice slice = SliceFor(global.dims, sharding, mesh, rank);
    ForEachElement(slice, [&](int64_t to, int64_t from) {
      whole.Set(to, whole.Get(to) + parts[rank].Get(from));
    });
  }
  return whole;
}

}  // namespace colossus
