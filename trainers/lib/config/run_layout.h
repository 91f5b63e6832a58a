// RunLayout: how many ranks a run has and how they stand to each other.
//
// Purpose: the arithmetic between run.ranks, plan.mesh and the launcher, before anything is read.
// Thread-safe: a plain value and a pure function.
//
//   ASSIGN_OR_RETURN(RunLayout layout, PlanRanks(/*ranks=*/8, "data=4,tensor=2", /*world=*/0));
//   layout.Size("data");   // 4
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_RUN_LAYOUT_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_RUN_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/mesh.h"
#include "parallel/plan.h"
#include "trainers/lib/config/options.h"

namespace colossus {

struct RunLayout {
  int ranks = 1;
  // Sizes multiply to `ranks`; empty: one rank. Of stages of different meshes the axis stage alone.
  std::vector<MeshAxis> mesh;
  std::vector<std::vector<MeshAxis>> stages = {};  // their meshes, if they differ
  bool processes = false;      // ranks are processes that a launcher has started; else threads
  // 1 for an axis that the mesh does not have. Where stages differ, that of the first.
  int64_t Size(absl::string_view axis) const;
  // The largest of all stages.
  int64_t LargestSize(absl::string_view axis) const;
  // "4 ranks, data=2,tensor=2".
  std::string ToString() const;
};

// `ranks`: run.ranks, 0 if not given. `mesh`: plan.mesh, empty if not given: all ranks along data.
// `world`: processes that a launcher started as ranks; 0: none. InvalidArgument where they do not
// agree, with what would do.
absl::StatusOr<RunLayout> PlanRanks(int64_t ranks, absl::string_view mesh, int world);

// That of a configuration.
absl::StatusOr<RunLayout> LayoutOf(const Options& options);

// A plan with that layout and what plan.* keys say of it; the batch is the caller's. REQUIRES:
// LayoutOf was ok with them.
Plan PlanOf(const RunLayout& layout, const Options::Plan& options);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_RUN_LAYOUT_H_
