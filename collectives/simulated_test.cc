#include "collectives/simulated.h"

#include <functional>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "collectives/cost.h"
#include "collectives/testing/communicator_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs the present ranks on threads; the clocks' last times.
std::vector<double> RunPresent(
    const SimulatedOptions& options,
    const std::function<absl::Status(SimulatedWorld&, Communicator&, VirtualClock&)>& rank,
    absl::Status* first_error = nullptr) {
  SimulatedWorld world(options);
  std::vector<VirtualClock> clocks(options.present.size());
  std::vector<absl::Status> statuses(clocks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clocks.size(); ++i) {
    threads.emplace_back([&, i] {
      std::unique_ptr<Communicator> own = world.Join(options.present[i], clocks[i]);
      statuses[i] = rank(world, *own, clocks[i]);
      if (!statuses[i].ok()) own->Abort(statuses[i]);
    });
  }
  std::vector<double> ends;
  for (size_t i = 0; i < clocks.size(); ++i) {
    threads[i].join();
    ends.push_back(clocks[i].Seconds());
    if (first_error != nullptr && first_error->ok()) *first_error = statuses[i];
    EXPECT_TRUE(first_error != nullptr || statuses[i].ok()) << statuses[i];
  }
  return ends;
}

CollectiveCounts ChosenCounts(const Collective& op, int rank, int size) {
  return CountsOf(ChooseAlgorithm(op, size, LinkRates{}), op, rank, size);
}

const bool kRegistered = RegisterCommunicatorConformance(
    {.name = "Simulated",
     .counts_of = ChosenCounts,
     .any_stream = false,
     .at_once = false,
     .run = [](int ranks, const RankFunction& rank) {
       SimulatedOptions options = {.ranks = ranks, .present = {}, .moves_data = true};
       for (int r = 0; r < ranks; ++r) options.present.push_back(r);
       absl::Status first;
       RunPresent(
           options, [&](SimulatedWorld&, Communicator& own, VirtualClock&) { return rank(own); },
           &first);
       return first;
     }});

constexpr LinkRates kRates = {.alpha = 0.25, .beta = 1.0 / 1024, .gamma = 0};

Collective SumOf(int64_t count) {
  return {.kind = CollectiveKind::kAllReduce, .count = count, .site = "sum"};
}

// 4096 ranks, one of them present: no buffers, no peers, the formula's time.
TEST(SimulatedTest, OneRankStandsForThousands) {
  SimulatedWorld world({.ranks = 4096, .rates = kRates});
  VirtualClock clock;
  std::unique_ptr<Communicator> all = world.Join(0, clock);
  std::unique_ptr<VirtualStream> compute = world.NewStream(clock), links = world.NewStream(clock);
  const double seconds =
      CollectiveSeconds(CollectiveKind::kAllReduce, DType::kF32, 1 << 20, 4096, kRates);
  // Ten layers; each one's reduction overlaps what is computed after it.
  for (int layer = 0; layer < 10; ++layer) {
    compute->Advance(2 * seconds);
    links->WaitFor(compute->Record());
    all->Launch(*links, SumOf(1 << 20));
  }
  EXPECT_OK(links->Synchronize());
  EXPECT_DOUBLE_EQ(clock.Seconds(), 21 * seconds);
  EXPECT_EQ(all->counts().operations, 10);
  EXPECT_EQ(all->counts().elements, 10 * 2 * 4095 * 256);
}

TEST(SimulatedTest, TheLastToComeDecides) {
  const std::vector<double> ends =
      RunPresent({.ranks = 3, .present = {0, 1, 2}, .rates = kRates},
                 [](SimulatedWorld& world, Communicator& own, VirtualClock& clock) {
                   std::unique_ptr<VirtualStream> stream = world.NewStream(clock);
                   stream->Advance(1 + own.rank());
                   own.Launch(*stream, {.kind = CollectiveKind::kBarrier, .site = "here"});
                   stream->Advance(10);
                   return stream->Synchronize();
                 });
  for (double end : ends) EXPECT_DOUBLE_EQ(end, 3 + 2 * 0.25 + 10);
}

// Two stages of a pipeline: sends run ahead of the host, so stage 0 computes while its sends
// travel.
TEST(SimulatedTest, StagesMeetInTheirOrder) {
  constexpr int kMicroBatches = 4;
  const auto stage = [](SimulatedWorld& world, Communicator& own, VirtualClock& clock) {
    std::unique_ptr<VirtualStream> compute = world.NewStream(clock), links = world.NewStream(clock);
    for (int i = 0; i < kMicroBatches; ++i) {
      Collective send = {
          .kind = CollectiveKind::kExchange, .count = 256, .receive_count = 256, .site = "border"};
      if (own.rank() == 0) {
        compute->Advance(2);
        links->WaitFor(compute->Record());
        send.to = 1;
        own.Launch(*links, send);
      } else {
        send.from = 0;
        own.Launch(*links, send);
        compute->WaitFor(links->Record());
        compute->Advance(2);
      }
    }
    RETURN_IF_ERROR(links->Synchronize());
    return compute->Synchronize();
  };
  const std::vector<double> ends =
      RunPresent({.ranks = 2, .present = {0, 1}, .rates = kRates}, stage);
  const double message = 0.25 + 1;
  EXPECT_DOUBLE_EQ(ends[0], 8 + message);
  EXPECT_DOUBLE_EQ(ends[1], 2 + message + 8);
  // The same with 512 data ranks for each stage, of which the first of each runs.
  const auto in_groups = [&](SimulatedWorld& world, Communicator& own, VirtualClock& clock) {
    absl::StatusOr<std::unique_ptr<Communicator>> line =
        own.Subgroup({own.rank() % 512, own.rank() % 512 + 512}, "stage");
    return line.ok() ? stage(world, **line, clock) : line.status();
  };
  EXPECT_EQ(RunPresent({.ranks = 1024, .present = {0, 512}, .rates = kRates}, in_groups), ends);
}

TEST(SimulatedTest, RanksThatWaitForEachOtherEnd) {
  absl::Status error;
  RunPresent(
      {.ranks = 2, .present = {0, 1}, .rates = kRates},
      [](SimulatedWorld&, Communicator& own, VirtualClock&) -> absl::Status {
        ASSIGN_OR_RETURN(auto pair, own.Subgroup({0, 1}, "pair"));
        if (own.rank() == 0) RETURN_IF_ERROR(Barrier(own, "conditional"));
        return Barrier(*pair, "next");
      },
      &error);
  EXPECT_THAT(error, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("wait for one")));
  error = absl::OkStatus();
  RunPresent(
      {.ranks = 2, .present = {0, 1}, .rates = kRates},
      [](SimulatedWorld& world, Communicator& own, VirtualClock& clock) {
        std::unique_ptr<VirtualStream> stream = world.NewStream(clock);
        own.Launch(*stream, SumOf(own.rank() == 0 ? 4 : 8));
        return stream->Synchronize();
      },
      &error);
  EXPECT_THAT(error, StatusIs(absl::StatusCode::kInvalidArgument,
                              AllOf(HasSubstr("element counts"), HasSubstr("4 elements"),
                                    HasSubstr("8 elements"))));
}

}  // namespace
}  // namespace colossus
