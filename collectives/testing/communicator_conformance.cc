#include "collectives/testing/communicator_conformance.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/stream.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "collectives/testing/random_operation.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr DType kReduced[] = {DType::kF32, DType::kF64, DType::kBF16,
                              DType::kF16, DType::kI32, DType::kI64};
constexpr int64_t kLengths[] = {0, 1, 2, 3, 16, 17, 63, 257};

// An error rather than a test failure: gtest's failures are those of one process.
absl::Status Expect(bool ok, absl::string_view what) {
  return ok ? absl::OkStatus() : absl::InternalError(what);
}

class CommunicatorTest : public ::testing::Test {
 public:
  explicit CommunicatorTest(const CommunicatorBackend& backend) : backend_(backend) {}

 protected:
  // Runs one case on a rank of a live group and compares.
  absl::Status RunCase(Communicator& group, const CollectiveCase& shape, uint64_t seed) const {
    return RunAndCompare(group, shape, seed, ExpectedResults(shape, seed));
  }

  // Runs every case of `shapes` on every rank of a group of each size.
  template <class Shapes>
  void RunAll(const Shapes& shapes_of) const {
    const uint64_t seed = TestSeed();
    for (int ranks : backend_.sizes) {
      const std::vector<CollectiveCase> shapes = shapes_of(ranks);
      // Found by the first rank of this process that needs them.
      std::vector<std::vector<std::vector<char>>> expected(shapes.size());
      std::vector<std::once_flag> found(shapes.size());
      EXPECT_OK(backend_.run(ranks, [&](Communicator& group) -> absl::Status {
        for (size_t i = 0; i < shapes.size(); ++i) {
          std::call_once(found[i], [&] { expected[i] = ExpectedResults(shapes[i], seed + i); });
          absl::Status status = RunAndCompare(group, shapes[i], seed + i, expected[i]);
          if (!status.ok()) return status;
        }
        return absl::OkStatus();
      }));
    }
  }

  const CommunicatorBackend& backend_;

 private:
  absl::Status RunAndCompare(Communicator& group, const CollectiveCase& shape, uint64_t seed,
                             const std::vector<std::vector<char>>& expected) const {
    RankBuffers mine = MakeBuffers(shape, group.rank(), seed);
    if (absl::Status status = RunOn(group, mine); !status.ok()) return status;
    return Compare(shape, group.rank(), mine.Result(), expected[static_cast<size_t>(group.rank())]);
  }

  absl::Status RunOn(Communicator& group, RankBuffers& mine) const {
    if (!backend_.allocate) return group.Run(mine.operation);
    // The same through the backend's own memory: each vector has a twin there.
    Collective op = mine.operation;
    std::pair<std::vector<char>*, char*> twins[2] = {{&mine.src, nullptr}, {&mine.dst, nullptr}};
    for (auto& [host, twin] : twins) {
      const int64_t bytes = static_cast<int64_t>(host->size());
      twin = static_cast<char*>(backend_.allocate(bytes));
      backend_.copy(twin, host->data(), bytes);
      const auto move = [&](const void* p) -> char* {
        const char* at = static_cast<const char*>(p);
        const bool inside = at >= host->data() && at < host->data() + bytes;
        return inside ? twin + (at - host->data()) : nullptr;
      };
      if (char* src = move(mine.operation.src)) op.src = src;
      if (char* dst = move(mine.operation.dst)) op.dst = dst;
    }
    const absl::Status status = group.Run(op);
    for (auto& [host, twin] : twins) {
      backend_.copy(host->data(), twin, static_cast<int64_t>(host->size()));
      backend_.release(twin);
    }
    return status;
  }

  absl::Status Compare(const CollectiveCase& shape, int rank, const std::vector<char>& actual,
                       const std::vector<char>& expected) const {
    const std::string where = absl::StrCat(Describe(shape), ", rank ", rank, ": ");
    const bool sums =
        shape.kind == CollectiveKind::kAllReduce || shape.kind == CollectiveKind::kReduceScatter;
    ::testing::AssertionResult same = BitEqual<char>(actual, expected);
    if (!backend_.canonical && sums && IsFloat(shape.dtype)) {
      std::vector<double> a, e;
      for (int64_t i = 0; i * SizeOf(shape.dtype) < static_cast<int64_t>(actual.size()); ++i) {
        a.push_back(LoadAsDouble(shape.dtype, actual.data(), i));
        e.push_back(LoadAsDouble(shape.dtype, expected.data(), i));
      }
      // Each addition rounds once, in the element type at worst, and partial sums stay below
      // ranks * 128 (values are below 128): an absolute limit of ranks^2 * 128 roundings.
      const double unit = shape.dtype == DType::kF64    ? 0x1p-53
                          : shape.dtype == DType::kF32  ? 0x1p-24
                          : shape.dtype == DType::kBF16 ? 0x1p-8
                                                        : 0x1p-11;
      same = TensorNear(a, e, {.absolute = 128.0 * shape.ranks * shape.ranks * unit});
    }
    return Expect(static_cast<bool>(same), where + same.message());
  }
};

std::vector<CollectiveCase> ReductionCases(CollectiveKind kind, int ranks) {
  std::vector<CollectiveCase> cases;
  for (DType dtype : kReduced) {
    for (Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
      for (int64_t count : kLengths) {
        cases.push_back(
            {.kind = kind, .ranks = ranks, .dtype = dtype, .reduction = reduction, .count = count});
        cases.push_back(cases.back());
        cases.back().in_place = true;
      }
    }
  }
  return cases;
}

// Rows and uneven parts.
void AddPartCases(CollectiveKind kind, int ranks, DType dtype, std::vector<CollectiveCase>& cases) {
  for (int64_t count : {0, 1, 5, 64}) {
    for (int64_t rows : {2, 7}) {
      cases.push_back({.kind = kind, .ranks = ranks, .dtype = dtype, .count = count, .rows = rows});
    }
    cases.push_back({.kind = kind, .ranks = ranks, .dtype = dtype, .count = count, .uneven = true});
    if (kind != CollectiveKind::kAllToAll) {
      cases.push_back(cases.back());
      cases.back().in_place = true;
    }
  }
}

std::vector<CollectiveCase> MoveCases(CollectiveKind kind, int ranks) {
  std::vector<CollectiveCase> cases;
  for (DType dtype : kAllDTypes) {
    for (int64_t count : kLengths) {
      cases.push_back({.kind = kind, .ranks = ranks, .dtype = dtype, .count = count});
      if (kind == CollectiveKind::kBroadcast) {
        cases.back().root = static_cast<int>(count) % ranks;
      }
      if (kind == CollectiveKind::kExchange) cases.back().shift = static_cast<int>(count % 5);
    }
  }
  return cases;
}

class AllReduces : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    RunAll([](int ranks) {
      std::vector<CollectiveCase> cases = ReductionCases(CollectiveKind::kAllReduce, ranks);
      for (DType dtype : kReduced) {  // long enough for any algorithm's second branch
        cases.push_back({.kind = CollectiveKind::kAllReduce,
                         .ranks = ranks,
                         .dtype = dtype,
                         .count = 20000 + ranks});
      }
      return cases;
    });
  }
};

class ReduceScatters : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    RunAll([](int ranks) {
      std::vector<CollectiveCase> cases = ReductionCases(CollectiveKind::kReduceScatter, ranks);
      for (DType dtype : kReduced) {
        AddPartCases(CollectiveKind::kReduceScatter, ranks, dtype, cases);
      }
      cases.push_back({.kind = CollectiveKind::kReduceScatter, .ranks = ranks, .count = 5000});
      return cases;
    });
  }
};

class AllGathers : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    RunAll([](int ranks) {
      std::vector<CollectiveCase> cases = MoveCases(CollectiveKind::kAllGather, ranks);
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        AddPartCases(CollectiveKind::kAllGather, ranks, dtype, cases);
        cases.push_back({.kind = CollectiveKind::kAllGather,
                         .ranks = ranks,
                         .dtype = dtype,
                         .count = 5000,
                         .in_place = true});
      }
      return cases;
    });
  }
};

class AllToAlls : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    RunAll([](int ranks) {
      std::vector<CollectiveCase> cases = MoveCases(CollectiveKind::kAllToAll, ranks);
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        AddPartCases(CollectiveKind::kAllToAll, ranks, dtype, cases);
      }
      cases.push_back({.kind = CollectiveKind::kAllToAll, .ranks = ranks, .count = 5000});
      return cases;
    });
  }
};

class Broadcasts : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    RunAll([](int ranks) {
      std::vector<CollectiveCase> cases = MoveCases(CollectiveKind::kBroadcast, ranks);
      for (int root = 0; root < ranks; ++root) {
        cases.push_back(
            {.kind = CollectiveKind::kBroadcast, .ranks = ranks, .count = 9000, .root = root});
      }
      return cases;
    });
  }
};

class Exchanges : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    RunAll([](int ranks) {
      std::vector<CollectiveCase> cases = MoveCases(CollectiveKind::kExchange, ranks);
      for (int shift = 0; shift < ranks; ++shift) {
        cases.push_back(
            {.kind = CollectiveKind::kExchange, .ranks = ranks, .count = 9000, .shift = shift});
      }
      return cases;
    });
  }
};

// A value goes down the line, from rank to rank: no rank but the two ends takes part in a step.
class ExchangesAlongALine : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    for (int ranks : backend_.sizes) {
      if (backend_.allocate) return;  // plain values below
      EXPECT_OK(backend_.run(ranks, [&](Communicator& group) -> absl::Status {
        int64_t value = group.rank() == 0 ? 41 : 0;
        for (int step = 0; step + 1 < ranks; ++step) {
          Collective op;
          op.kind = CollectiveKind::kExchange;
          op.dtype = DType::kI64;
          op.site = "line";
          if (group.rank() == step) op.to = step + 1, op.src = &value, op.count = 1;
          if (group.rank() == step + 1) op.from = step, op.dst = &value, op.receive_count = 1;
          if (absl::Status status = group.Run(op); !status.ok()) return status;
          if (group.rank() == step + 1) ++value;
        }
        return Expect(value == 41 + group.rank(), absl::StrCat("value ", value));
      }));
    }
  }
};

// Rank r joins {even}, or {odd} in reverse order; and all in a group of the same members twice.
class Subgroups : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    const uint64_t seed = TestSeed();
    for (int ranks : backend_.sizes) {
      EXPECT_OK(backend_.run(ranks, [&](Communicator& group) -> absl::Status {
        std::vector<int> members;
        for (int r = group.rank() % 2; r < ranks; r += 2) members.push_back(r);
        if (group.rank() % 2 == 1) std::reverse(members.begin(), members.end());
        auto half = group.Subgroup(members, group.rank() % 2 == 0 ? "even" : "odd");
        if (!half.ok()) return half.status();
        auto again = group.Subgroup(members, group.rank() % 2 == 0 ? "even" : "odd");
        if (!again.ok()) return again.status();
        auto self = (*half)->Subgroup({(*half)->rank()}, "self");
        if (!self.ok()) return self.status();
        const int place = static_cast<int>(std::find(members.begin(), members.end(), group.rank()) -
                                           members.begin());
        absl::Status status = Expect((*half)->rank() == place && (*self)->size() == 1, "rank");
        for (int i = 0; i < 3 && status.ok(); ++i) {
          for (Communicator* part : {half->get(), again->get(), self->get()}) {
            const CollectiveCase shape = {
                .kind = CollectiveKind::kAllReduce, .ranks = part->size(), .count = 100 + i};
            if (status.ok()) status = RunCase(*part, shape, seed + static_cast<uint64_t>(i));
          }
        }
        return status.ok()
                   ? RunCase(group,
                             {.kind = CollectiveKind::kAllGather, .ranks = ranks, .count = 3}, seed)
                   : status;
      }));
    }
  }
};

// Work of a stream runs in order: each operation takes what the one before has made.
class LaunchesInOrder : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    if (backend_.allocate) return;  // plain values below
    for (int ranks : backend_.sizes) {
      EXPECT_OK(backend_.run(ranks, [&](Communicator& group) -> absl::Status {
        InlineStream stream;
        int64_t value = 1, expected = 1;
        for (int i = 0; i < 5; ++i) {
          group.Launch(stream, {.kind = CollectiveKind::kAllReduce,
                                .dtype = DType::kI64,
                                .src = &value,
                                .dst = &value,
                                .count = 1,
                                .site = "launch"});
          stream.Launch([&] { return value += 1, absl::OkStatus(); });
          expected = expected * ranks + 1;
        }
        if (absl::Status status = stream.Synchronize(); !status.ok()) return status;
        return Expect(value == expected, absl::StrCat(value, ", expected ", expected));
      }));
    }
  }
};

// Distinct communicators of a rank run on distinct threads at once, as streams do.
class RunsGroupsAtOnce : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    const uint64_t seed = TestSeed();
    for (int ranks : backend_.sizes) {
      EXPECT_OK(backend_.run(ranks, [&](Communicator& group) -> absl::Status {
        std::vector<int> members(static_cast<size_t>(ranks));
        std::iota(members.begin(), members.end(), 0);
        auto other = group.Subgroup(members, "other");
        if (!other.ok()) return other.status();
        const auto many = [&](Communicator& one, uint64_t first) {
          absl::Status status;
          for (uint64_t i = 0; i < 10 && status.ok(); ++i) {
            for (CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllToAll}) {
              const CollectiveCase shape = {.kind = kind, .ranks = ranks, .count = 3000};
              if (status.ok()) status = RunCase(one, shape, first + i);
            }
          }
          return status;
        };
        absl::Status beside;
        std::thread thread([&] { beside = many(**other, seed + 100); });
        const absl::Status own = many(group, seed);
        thread.join();
        return own.ok() ? beside : own;
      }));
    }
  }
};

// Elements sent are those of the formulas: equal parts, so every rank sends the same.
class CountsElements : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    for (int ranks : backend_.sizes) {
      const int64_t n = 16384 * ranks;  // long enough for the algorithms of few bytes
      const std::pair<CollectiveKind, int64_t> expected[] = {
          {CollectiveKind::kAllReduce, 2 * (ranks - 1) * (n / ranks)},
          {CollectiveKind::kAllGather, (ranks - 1) * (n / ranks)},
          {CollectiveKind::kReduceScatter, (ranks - 1) * (n / ranks)},
          {CollectiveKind::kAllToAll, (ranks - 1) * (n / ranks)},
          {CollectiveKind::kExchange, ranks == 1 ? 0 : n},
          {CollectiveKind::kBarrier, 0}};
      EXPECT_OK(backend_.run(ranks, [&](Communicator& group) -> absl::Status {
        for (const auto& [kind, elements] : expected) {
          const bool whole =
              kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kExchange;
          CollectiveCase shape = {.kind = kind, .ranks = ranks, .count = whole ? n : n / ranks};
          const CollectiveCounts before = group.counts();
          if (absl::Status status = RunCase(group, shape, 1); !status.ok()) return status;
          const CollectiveCounts after = group.counts();
          const int64_t sent = after.elements - before.elements;
          absl::Status status =
              Expect(after.operations == before.operations + 1 && sent == elements &&
                         after.bytes - before.bytes == 4 * elements,
                     absl::StrCat(Describe(shape), ": ", sent, " elements, expected ", elements));
          if (!status.ok()) return status;
        }
        return absl::OkStatus();
      }));
    }
  }
};

// Messages, elements and bytes of every operation are exactly what the backend's headers state.
class CountsMessages : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    for (int ranks : backend_.sizes) {
      EXPECT_OK(backend_.run(ranks, [&](Communicator& group) -> absl::Status {
        for (CollectiveKind kind :
             {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
              CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll, CollectiveKind::kBroadcast,
              CollectiveKind::kExchange, CollectiveKind::kBarrier}) {
          for (DType dtype : {DType::kF32, DType::kBF16}) {
            for (int64_t count : {0, 1, 100, 10'000, 400'000}) {
              if (kind == CollectiveKind::kBarrier) count = 0;
              const absl::Status status =
                  RunCounted(group, {.kind = kind, .ranks = ranks, .dtype = dtype, .count = count});
              if (!status.ok()) return status;
            }
          }
        }
        return absl::OkStatus();
      }));
    }
  }

 private:
  absl::Status RunCounted(Communicator& group, const CollectiveCase& shape) const {
    RankBuffers mine = MakeBuffers(shape, group.rank(), 1);
    const CollectiveCounts before = group.counts();
    if (absl::Status status = group.Run(mine.operation); !status.ok()) return status;
    const CollectiveCounts after = group.counts();
    const CollectiveCounts expected =
        backend_.counts_of(mine.operation, group.rank(), group.size());
    const auto text = [](const CollectiveCounts& counts) {
      return absl::StrCat(counts.operations, " operations, ", counts.messages, " messages, ",
                          counts.elements, " elements, ", counts.bytes, " bytes");
    };
    const CollectiveCounts sent = {after.operations - before.operations,
                                   after.messages - before.messages,
                                   after.elements - before.elements, after.bytes - before.bytes};
    return Expect(text(sent) == text(expected),
                  absl::StrCat(Describe(shape), ", rank ", group.rank(), ": ", text(sent),
                               "; expected ", text(expected)));
  }
};

class RefusesMalformed : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    float x[4] = {};
    const auto refused = [&](Collective op) {
      return backend_.run(1, [&](Communicator& group) { return group.Run(op); });
    };
    Collective op = {.kind = CollectiveKind::kAllReduce, .src = x, .dst = x, .count = -1};
    EXPECT_THAT(refused(op), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("below 0")));
    op = {.kind = CollectiveKind::kAllReduce, .dtype = DType::kU8, .src = x, .dst = x, .count = 1};
    EXPECT_THAT(refused(op), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("reduced")));
    op = {.kind = CollectiveKind::kBroadcast, .src = x, .dst = x, .count = 1, .root = 1};
    EXPECT_THAT(refused(op), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("root 1")));
    op = {.kind = CollectiveKind::kAllGather, .src = x, .dst = x + 1, .count = 2};
    EXPECT_THAT(refused(op), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("overlap")));
    op = {.kind = CollectiveKind::kAllGather, .src = nullptr, .dst = x, .count = 1};
    EXPECT_THAT(refused(op), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no src")));
    op = {.kind = CollectiveKind::kAllGather, .src = x, .dst = x, .count = 1, .counts = {1, 1}};
    EXPECT_THAT(refused(op), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 counts")));
    if (backend_.sizes == std::vector<int>{1}) return;
    EXPECT_THAT(backend_.run(2,
                             [&](Communicator& group) {
                               return group.Subgroup({1 - group.rank()}, "other").status();
                             }),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a member")));
  }
};

// One rank fails: every operation of every other rank ends, and names it.
class AbortEndsAll : public CommunicatorTest {
 public:
  using CommunicatorTest::CommunicatorTest;
  void TestBody() override {
    for (int ranks : backend_.sizes) {
      if (ranks == 1) continue;
      const absl::Status first = backend_.run(ranks, [&](Communicator& group) -> absl::Status {
        auto part = group.Subgroup({0, 1}, "pair");
        if (group.rank() > 1) part = group.Subgroup({group.rank()}, "alone");
        if (!part.ok()) return part.status();
        group.SetWhere(3, "update");
        if (absl::Status status = Barrier(group, "start"); !status.ok()) return status;
        if (group.rank() == 1) return absl::DataLossError("a broken shard");
        Communicator& waits = group.rank() == 0 ? **part : group;
        while (true) {
          const absl::Status status = Barrier(waits, "never");
          if (status.ok()) continue;  // rank 0 alone would go on
          EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, HasSubstr("a broken shard")));
          return status;
        }
      });
      EXPECT_THAT(first.ToString(), HasSubstr("a broken shard"));
    }
  }
};

template <typename Test>
void Register(const CommunicatorBackend* backend, const char* name) {
  ::testing::RegisterTest((backend->name + "Communicator").c_str(), name, nullptr, nullptr,
                          __FILE__, __LINE__,
                          [backend]() -> CommunicatorTest* { return new Test(*backend); });
}

}  // namespace

bool RegisterCommunicatorConformance(const CommunicatorBackend& backend) {
  const auto* kept = new CommunicatorBackend(backend);  // as long as the tests
  Register<AllReduces>(kept, "AllReduces");
  Register<ReduceScatters>(kept, "ReduceScatters");
  Register<AllGathers>(kept, "AllGathers");
  Register<AllToAlls>(kept, "AllToAlls");
  Register<Broadcasts>(kept, "Broadcasts");
  Register<Exchanges>(kept, "Exchanges");
  Register<ExchangesAlongALine>(kept, "ExchangesAlongALine");
  Register<Subgroups>(kept, "Subgroups");
  if (backend.any_stream) Register<LaunchesInOrder>(kept, "LaunchesInOrder");
  if (backend.at_once) Register<RunsGroupsAtOnce>(kept, "RunsGroupsAtOnce");
  if (backend.counts) Register<CountsElements>(kept, "CountsElements");
  if (backend.counts_of) Register<CountsMessages>(kept, "CountsMessages");
  if (backend.disposable) {
    Register<RefusesMalformed>(kept, "RefusesMalformed");
    Register<AbortEndsAll>(kept, "AbortEndsAll");
  }
  return true;
}

}  // namespace colossus
