// Random pipelines for tests of the search.
//
// Purpose: what several tests draw. Thread-safety: functions of their arguments. Ownership: none.
#ifndef COLOSSUS_PARALLEL_PIPELINE_SEARCH_TESTING_H_
#define COLOSSUS_PARALLEL_PIPELINE_SEARCH_TESTING_H_

#include <random>

#include "parallel/pipeline/costs.h"

namespace colossus {

// Times in quarters, so that sums of them are exact; parts may differ.
inline PipelineCosts RandomPartCosts(const PipelineShape& shape, std::mt19937& random) {
  auto draw = [&random](int most) { return static_cast<double>(random() % most) / 4; };
  double weight = random() % 2 == 0 ? 1 : 0.25;
  PipelineCosts costs;
  bool uniform = random() % 2 == 0;
  for (int part = 0; part < shape.parts(); ++part) {
    PartCosts c{0.25 + draw(12), 0.25 + draw(12), draw(12), 1, weight};
    costs.parts.push_back(uniform && part > 0 ? costs.parts[0] : c);
  }
  costs.communication = draw(5);
  return costs;
}

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SEARCH_TESTING_H_
