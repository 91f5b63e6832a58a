// "Equal" between layouts, as DESIGN.md section 11 says it.
//
// Per tensor ‖a − b‖₂ <= 1e-5 ‖b‖₂, with a floor of 1e-7 of the model's largest gradient (its
// norm); losses and norms within 1e-5.
//
//   ExpectEqual(result, on_one_rank);
#ifndef COLOSSUS_TESTS_LAYOUTS_COMPARE_H_
#define COLOSSUS_TESTS_LAYOUTS_COMPARE_H_

#include "tests/layouts/layout_run.h"

namespace colossus {

struct Tolerance {
  double relative = 1e-5;
  double floor = 1e-7;
  bool states = true;
};

// Non-fatal failures that name tensor and error.
void ExpectEqual(const LayoutResult& actual, const LayoutResult& expected,
                 const Tolerance& tolerance = {});

// Narrow types: other layouts round other sums, so losses of the first four steps differ by no more
// than three times what rounding costs on one rank, or 1e-3. `exact`: of one rank in f32. That is a
// promise about models as they are trained, so runs begin with FirstValues: large ones make logits
// of a few elements whose rounding errors nothing averages.
void ExpectNearLosses(const LayoutResult& actual, const LayoutResult& one_rank,
                      const LayoutResult& exact);

// The same bits: losses, norms, gradients and states.
void ExpectSameBits(const LayoutResult& actual, const LayoutResult& expected);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_LAYOUTS_COMPARE_H_
