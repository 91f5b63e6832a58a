// A program in a workspace of its own that uses libraries of Colossus:
//
//   cd examples/consumer && bazel run //:main

#include <cstdio>

#include "absl/status/status.h"
#include "base/status.h"

namespace {

absl::Status Refuse() { return absl::InvalidArgumentError("a refusal"); }

absl::Status Run() {
  RETURN_IF_ERROR(Refuse());
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = colossus::Annotate(Run(), "consumer");
  std::printf("%s\n", status.ToString().c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? 0 : 1;
}
