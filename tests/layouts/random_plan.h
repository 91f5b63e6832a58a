// RandomPlan: a small model of odd sizes with a plan that suits it, mostly.
//
// Purpose: seeded draws for the fuzzer of plans (random_plans_test.cc): stages, data, tensor and
// sequence ranks, meshes of stages, ZeRO, micro-batches, recomputation, precision. Sizes are what
// people give: lengths, vocabularies and widths that divide by nothing; heads that often do. Some
// plans have a mistake, which must be refused. A new choice is a draw in one of the Draw functions
// and a word in PlanLine; if it changes a bit, random_plans_test.cc has to take it to one rank too.
// Thread-safety: pure functions. Ownership: plain values.
//
//   const LayoutRun run = RandomPlan(7);
//   LOG(INFO) << PlanLine(run);
#ifndef COLOSSUS_TESTS_LAYOUTS_RANDOM_PLAN_H_
#define COLOSSUS_TESTS_LAYOUTS_RANDOM_PLAN_H_

#include <cstdint>
#include <string>

#include "tests/layouts/layout_run.h"

namespace colossus {

LayoutRun RandomPlan(uint64_t seed);

// All that was drawn, in one line.
std::string PlanLine(const LayoutRun& run);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_LAYOUTS_RANDOM_PLAN_H_
