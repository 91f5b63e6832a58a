// How long collectives take among ranks of this machine: threads, or, started by mpirun, processes.
//
//   bazel build //collectives:measure_collectives
//   out/bin/collectives/measure_collectives                    # all_reduce, 2 threads
//   out/bin/collectives/measure_collectives --ranks=4 --bytes=4,65536 --seconds=0.5
//   mpirun -n 2 out/bin/collectives/measure_collectives
//   out/bin/collectives/measure_collectives --calibrate        # alpha, beta and gamma of cost.h
//
// Prints one JSON object a size: {"backend", "ranks", "bytes", "seconds" (median of all
// repetitions), "least", "repetitions"}; of f32 sums in place. The slowest rank counts.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"
#include "collectives/mpi/mpi_world.h"
#include "collectives/reduce.h"

namespace colossus {
namespace {

struct Options {
  int ranks = 2;
  std::vector<int64_t> bytes = {4, 1 << 20, 64 << 20};
  double seconds = 1;  // for each size
  bool check = true;
  bool calibrate = false;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (absl::ConsumePrefix(&flag, "--ranks=")) {
      CHECK(absl::SimpleAtoi(flag, &options.ranks)) << argv[i];
    } else if (absl::ConsumePrefix(&flag, "--bytes=")) {
      options.bytes.clear();
      const std::vector<std::string> sizes = absl::StrSplit(flag, ',');
      for (const std::string& size : sizes) {
        CHECK(absl::SimpleAtoi(size, &options.bytes.emplace_back())) << argv[i];
      }
    } else if (absl::ConsumePrefix(&flag, "--seconds=")) {
      CHECK(absl::SimpleAtod(flag, &options.seconds)) << argv[i];
    } else if (flag == "--nocheck") {
      options.check = false;
    } else if (flag == "--calibrate") {
      options.calibrate = true;
    } else {
      std::fprintf(stderr, "unknown argument %s; the file's head lists all\n", argv[i]);
      std::exit(2);
    }
  }
  return options;
}

struct Measurement {
  double median = 0, least = 0;
  int64_t repetitions = 0;
};

// Of one operation, repeated for about `seconds`; of every repetition the slowest rank's time.
absl::StatusOr<Measurement> Measure(Communicator& world, const Collective& operation,
                                    double seconds) {
  RealClock clock;
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(world.Run(operation));
  double first = clock.Seconds();
  RETURN_IF_ERROR(world.Run(operation));
  first = clock.Seconds() - first;
  RETURN_IF_ERROR(AllReduce(world, &first, 1, "first", Reduction::kMax));
  const int64_t repetitions =
      std::clamp<int64_t>(static_cast<int64_t>(seconds / std::max(first, 1e-7)), 5, 200'000);
  times.reserve(static_cast<size_t>(repetitions));
  RETURN_IF_ERROR(Barrier(world, "start"));
  for (int64_t i = 0; i < repetitions; ++i) {
    const double start = clock.Seconds();
    RETURN_IF_ERROR(world.Run(operation));
    times.push_back(clock.Seconds() - start);
  }
  RETURN_IF_ERROR(AllReduce(world, times.data(), repetitions, "times", Reduction::kMax));
  std::sort(times.begin(), times.end());
  return Measurement{times[times.size() / 2], times[0], repetitions};
}

absl::Status MeasureAllReduce(Communicator& world, const char* backend, const Options& options) {
  for (int64_t bytes : options.bytes) {
    std::vector<float> x(static_cast<size_t>(bytes / 4), 1e-30f);
    const Collective sum = {.kind = CollectiveKind::kAllReduce,
                            .src = x.data(),
                            .dst = x.data(),
                            .count = bytes / 4,
                            .site = "benchmark"};
    ASSIGN_OR_RETURN(const Measurement m, Measure(world, sum, options.seconds));
    if (world.rank() > 0) continue;
    std::printf(
        "{\"backend\": \"%s\", \"ranks\": %d, \"bytes\": %lld, \"seconds\": %.9f, "
        "\"least\": %.9f, \"repetitions\": %lld}\n",
        backend, world.size(), static_cast<long long>(bytes), m.median, m.least,
        static_cast<long long>(m.repetitions));
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

// Each rank sends to the next one: a message each way, as alpha and beta mean it.
absl::StatusOr<double> ExchangeSeconds(Communicator& world, int64_t bytes, double seconds) {
  std::vector<char> src(static_cast<size_t>(bytes)), dst(static_cast<size_t>(bytes));
  const int next = (world.rank() + 1) % world.size();
  const int last = (world.rank() + world.size() - 1) % world.size();
  const Collective exchange = {.kind = CollectiveKind::kExchange,
                               .dtype = DType::kU8,
                               .src = src.data(),
                               .dst = dst.data(),
                               .count = bytes,
                               .receive_count = bytes,
                               .to = next,
                               .from = last,
                               .site = "calibrate"};
  ASSIGN_OR_RETURN(const Measurement m, Measure(world, exchange, seconds));
  return m.median;
}

absl::Status Calibrate(Communicator& world, const char* backend, const Options& options) {
  constexpr int64_t kLong = 4 << 20;
  ASSIGN_OR_RETURN(const double alpha, ExchangeSeconds(world, 4, options.seconds));
  ASSIGN_OR_RETURN(const double whole, ExchangeSeconds(world, kLong, options.seconds));
  std::vector<float> x(kLong / 4, 1), y(kLong / 4, 1);
  const void* srcs[] = {x.data(), y.data()};
  void* dst = x.data();
  RealClock clock;
  const double start = clock.Seconds();
  constexpr int kTimes = 20;
  for (int i = 0; i < kTimes; ++i) {
    ReduceTree(DType::kF32, Reduction::kMax, srcs, {&dst, 1}, {.count = kLong / 4});
  }
  const double added = (clock.Seconds() - start) / kTimes;
  if (world.rank() > 0) return absl::OkStatus();
  std::printf(
      "{\"backend\": \"%s\", \"ranks\": %d, \"alpha\": %.3g, \"beta\": %.3g, "
      "\"gamma\": %.3g}\n",
      backend, world.size(), alpha, (whole - alpha) / kLong, added / kLong);
  return absl::OkStatus();
}

absl::Status Main(Communicator& world, const char* backend, const Options& options) {
  return options.calibrate ? Calibrate(world, backend, options)
                           : MeasureAllReduce(world, backend, options);
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  absl::Status status;
  if (MpiWorld::IsLaunched()) {
    absl::StatusOr<std::unique_ptr<MpiWorld>> mpi = MpiWorld::Init({.check = options.check});
    CHECK_OK(mpi);
    status = (*mpi)->Run([&](Communicator& world) { return Main(world, "mpi", options); });
  } else {
    status = RunRanks({.ranks = options.ranks, .check = options.check},
                      [&](Communicator& world) { return Main(world, "in_process", options); });
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace colossus

int main(int argc, char** argv) { return colossus::Main(argc, argv); }
