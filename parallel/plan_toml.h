// A Plan as TOML: prints and parses exactly.
//
//   [plan]
//   micro_batch = 2                 # rows, of each rank along data (of the first stage)
//   micro_batches = 8
//   sequence_length = 1024
//   compute = "bf16"                # fp32, bf16, fp16 or fp64
//   gradient = "bf16"
//   recompute = "block"             # none, cheap, selective, block, optimal or auto
//   recompute_budget = 0            # bytes, of optimal; 0: the fastest as predicted
//   packed = false
//   dropout = false
//   zero = 3
//   chunk_elements = 67108864       # of parameters that ranks share, at most together
//   sequence = "ring"               # or "all_to_all"
//   tensor_layout = "1d"            # or "2d"
//   norms = "auto"                  # or "sharded", "replicated"
//   accumulation_order = "auto"     # or "horizontal", "vertical"
//   update = "whole"                # or "layerwise"
//   placement = "none"              # or "auto", "static", "cpu"
//   schedule = "zb-v"               # of several stages, and the next two too
//   chunks = 2                      # parts of the model a stage holds
//   borders = ["h.2", "h.5"]        # first block of each part but the first
//
//   [[stage]]                       # one for each; meshes may differ
//   ranks = "0-7"                   # "0-3,8" and the like
//   mesh = "data=2,tensor=4"
//
//   [[override]]
//   states = "*.mlp.c_fc.weight"    # of their names: "*" any text, "?" one character
//   dims = [[], ["tensor"]]         # axes of each dim
//
// A key that is absent has the default of Plan. Trainers take it as --plan=FILE. Thread-safe: pure
// functions.
//
//   ASSIGN_OR_RETURN(Plan plan, ParsePlan(text, "best.toml"));
//   PlanToml(plan);   // the whole of it
#ifndef COLOSSUS_PARALLEL_PLAN_TOML_H_
#define COLOSSUS_PARALLEL_PLAN_TOML_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "parallel/plan.h"

namespace colossus {

std::string PlanToml(const Plan& plan);

// "fp32", "bf16", "fp16" or "fp64", as plans and flags write it.
absl::string_view PrecisionText(DType dtype);

// InvalidArgument names `name` and line, the key, and the nearest one where there is none of that
// name. Whether the plan fits a model is for Validate to say. If `lines` is not null it gets the
// line of each key that is there: "zero", "stage", "override".
absl::StatusOr<Plan> ParsePlan(absl::string_view text, absl::string_view name,
                               std::map<std::string, int>* lines = nullptr);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PLAN_TOML_H_
