// A program in a workspace of its own that uses the tensor library of Colossus and nothing else of
// it: builds a graph and runs it.
//
//   cd examples/consumer && bazel run //:main

#include <cstdio>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/graph.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/ops/matmul.h"

namespace {

using colossus::Graph;
using colossus::GraphBuilder;
using colossus::HostTensor;
using colossus::HostTensors;
using colossus::ValueId;

// The matrix product of x, [m,k], and w, [k,n].
absl::StatusOr<HostTensor> Multiply(const HostTensor& x, const HostTensor& w) {
  GraphBuilder builder("example");
  const ValueId x_id = builder.Feed("x", x.type());
  const ValueId w_id = builder.Feed("w", w.type());
  builder.Output("y", colossus::Matmul(builder, "m k, k n -> m n", x_id, w_id));
  ASSIGN_OR_RETURN(const Graph graph, std::move(builder).Build());
  ASSIGN_OR_RETURN(const HostTensors results, colossus::Interpret(graph, {{"x", x}, {"w", w}}));
  return results.at("y");
}

}  // namespace

int main() {
  const HostTensor x = HostTensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const HostTensor w = HostTensor::Of<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  const absl::StatusOr<HostTensor> y = Multiply(x, w);
  if (!y.ok()) {
    std::printf("%s\n", y.status().ToString().c_str());
    return 1;
  }
  for (const double value : y->ToDoubles()) std::printf("%g ", value);
  std::printf("\n");
  return y->ToDoubles() == std::vector<double>{4, 5, 10, 11} ? 0 : 1;
}
