#include "tensor/exec/testing/random_step.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/exec/segment.h"
#include "tensor/graph/builder.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/pack.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/shape.h"
#include "tensor/ops/softmax.h"

namespace colossus {
namespace {

// Matrices of f32 with at most kMaxExtent rows and columns.
constexpr int64_t kMaxExtent = 12;
constexpr int64_t kMaxFlat = 2000;

class GraphMaker {
 public:
  explicit GraphMaker(uint64_t seed) : random_(seed), b_("random") {}

  Graph Make() {
    pool_.push_back(b_.Feed("x", {DType::kF32, {Extent(), Extent()}}));
    pool_.push_back(b_.Feed("x1", {DType::kF32, {Extent(), Extent()}}));
    for (const char* name : {"rate", "one"}) b_.Feed(name, {DType::kF32, {}});
    for (int i = 0; i < 3; ++i) pool_.push_back(NewState({Extent(), Extent()}));
    const int64_t nodes = 4 + Below(24);
    for (int64_t n = 0; n < nodes; ++n) {
      b_.SetBlock(absl::StrCat("b.", n / 6));
      AddNode();
    }
    b_.SetBlock("end");
    while (!free_states_.empty() && Chance(80)) AddUpdate(Pick());
    AddOutputs();
    absl::StatusOr<Graph> graph = std::move(b_).Build();
    CHECK_OK(graph.status());
    return *std::move(graph);
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  int64_t Extent() { return 1 + Below(kMaxExtent); }
  const Dims& dims(ValueId v) const { return b_.type(v).dims; }

  ValueId Pick() {
    int64_t n = static_cast<int64_t>(pool_.size());
    return pool_[Chance(60) ? n - 1 - Below(std::min<int64_t>(n, 4)) : Below(n)];
  }

  ValueId NewState(const Dims& dims, Role role = Role::kParameter) {
    StateInfo info;
    info.name = absl::StrCat("s", states_++);
    info.role = role;
    info.global_dims = info.disk_dims = dims;
    info.axes.assign(dims.size(), "");
    ValueId v = b_.AddState(std::move(info), {DType::kF32, dims});
    if (role == Role::kParameter) free_states_.push_back(v);
    return v;
  }

  // A matrix with the dims of x: of the pool, or a new state.
  ValueId Like(ValueId x) {
    ValueIds fitting;
    for (ValueId v : pool_) {
      if (dims(v) == dims(x)) fitting.push_back(v);
    }
    if (Chance(25)) return NewState(dims(x));
    return fitting[Below(static_cast<int64_t>(fitting.size()))];
  }

  // x as a matrix of other extents: a view.
  ValueId View(ValueId x) {
    const int64_t rows = dims(x)[0], columns = dims(x)[1];
    ValueId flat = Reshape(b_, x, "a b -> (a b)", {rows * columns});
    if (rows % 2 == 0 && Chance(70)) {
      return Reshape(b_, flat, "(a b) -> a b", {rows / 2, columns * 2});
    }
    return Reshape(b_, flat, "(a b) -> a b", {columns, rows});
  }

  void AddNode() {
    ValueId x = Pick();
    switch (Below(13)) {
      case 0: return Keep(Scale(b_, x, 0.5));
      case 1: return Keep(Tanh(b_, x));
      case 2: return Keep(Add(b_, x, Like(x)));
      case 3: return Keep(Tanh(b_, Sub(b_, Like(x), x)));
      case 4: return Keep(Mul(b_, x, x));
      case 5: return Keep(View(x));
      case 6: return Keep(Transpose(b_, x, {1, 0}));
      case 7: return Keep(Softmax(b_, x));
      case 8: return Keep(Convert(b_, Convert(b_, x, DType::kBF16), DType::kF32));
      case 9: return AddUpdate(x);
      case 10: return AddPack();
      case 11: return AddUnpack();
      default: {
        ValueId w = NewState({dims(x)[1], Extent()});
        return Keep(Tanh(b_, Matmul(b_, "m k, k n -> m n", x, w)));
      }
    }
  }

  void Keep(ValueId v) {
    if (dims(v)[0] <= kMaxExtent && dims(v)[1] <= kMaxExtent) pool_.push_back(v);
  }

  // Where the next tensor goes in a flat buffer: mostly aligned as buffers are (64 bytes).
  int64_t NextOffset(int64_t end) {
    return Chance(80) ? (end + 15) / 16 * 16 + (Chance(30) ? 16 : 0) : end + Below(3);
  }

  // One to four matrices, some of them made for it, in a flat buffer; now and then a pack of packs.
  void AddPack() {
    ValueIds parts;
    std::vector<int64_t> offsets;
    int64_t end = 0;
    for (int64_t i = 1 + Below(4); i > 0; --i) {
      ValueId part = Pick();
      if (Chance(50)) part = Chance(50) ? Tanh(b_, part) : Transpose(b_, part, {1, 0});
      if (!flats_.empty() && Chance(20)) part = flats_[Below(static_cast<int64_t>(flats_.size()))];
      parts.push_back(part);
      offsets.push_back(NextOffset(end));
      end = offsets.back() + b_.type(part).elements();
    }
    if (end > kMaxFlat) return;
    ValueId flat = Pack(b_, parts, offsets, end + Below(20));
    if (Chance(30)) flat = Scale(b_, flat, 0.5);  // may write over it
    flats_.push_back(flat);
  }

  // Matrices that lie in a flat buffer: one that was packed, or a state, which may be updated.
  void AddUnpack() {
    if (flats_.empty() || Chance(20)) {
      const ValueId state = NewState({1 + Below(300)}, Role::kMoment1);
      flats_.push_back(state);
      // The end value is made of the start value, or of another flat buffer.
      if (Chance(60)) b_.UpdateState(state, Tanh(b_, state));
    }
    const ValueId flat = flats_[Below(static_cast<int64_t>(flats_.size()))];
    const int64_t whole = b_.type(flat).elements();
    std::vector<PackedTensor> parts;
    int64_t end = 0;
    for (int64_t i = 1 + Below(3); i > 0; --i) {
      const PackedTensor part{NextOffset(end), {Extent(), Extent()}};
      end = part.offset + ElementCount(part.dims);
      if (end > whole) break;
      parts.push_back(part);
    }
    if (parts.empty()) return;
    for (ValueId part : Unpack(b_, flat, parts)) Keep(part);
  }

  // Some state gets an end value; its start value may be read later on.
  void AddUpdate(ValueId x) {
    if (free_states_.empty()) return;
    int64_t i = Below(static_cast<int64_t>(free_states_.size()));
    ValueId state = free_states_[i];
    free_states_.erase(free_states_.begin() + i);
    ValueId dx = dims(x) == dims(state) ? x : Scale(b_, state, 0.25);
    ValueId end = kNoValue;
    switch (Below(5)) {
      case 0: return AddAdamw(state, dx);
      case 3: {  // not in place
        ValueId w = NewState({dims(state)[1], dims(state)[1]});
        end = Tanh(b_, Matmul(b_, "m k, k n -> m n", state, w));
        if (Chance(50)) end = Matmul(b_, "m k, k n -> m n", state, w);
        break;
      }
      case 1:
        end = Add(b_, Scale(b_, state, 0.5), dx);
        break;
      case 2:
        end = Mul(b_, dx, Tanh(b_, state));
        break;
      default:
        end = Scale(b_, dx, 0.5);
        break;  // the start value is not needed for it
    }
    b_.UpdateState(state, end);
    if (Chance(60)) pool_.push_back(end);
  }

  AdamwParameter WithMoments(ValueId state, ValueId dx) {
    return {state, dx, NewState(dims(state), Role::kMoment1), NewState(dims(state), Role::kMoment2),
            0.1 * static_cast<double>(Below(2))};
  }

  // Of one state, or of two; they may have a gradient in common.
  void AddAdamw(ValueId state, ValueId dx) {
    std::vector<AdamwParameter> parameters = {WithMoments(state, dx)};
    if (!free_states_.empty() && Chance(50)) {
      const ValueId second = free_states_.back();
      free_states_.pop_back();
      const bool fits = dims(second) == dims(dx) && second != dx;
      parameters.push_back(WithMoments(second, fits ? dx : Tanh(b_, second)));
    }
    ValueId rate = b_.graph().FindValue("rate"), one = b_.graph().FindValue("one");
    AdamwOptions options;
    if (Chance(50)) options.compute = DType::kBF16;
    const std::vector<AdamwResults> results = Adamw(b_, parameters, {rate, one, one, one}, options);
    for (size_t i = 0; i < results.size(); ++i) {
      b_.UpdateState(parameters[i].master, results[i].master);
      b_.UpdateState(parameters[i].m, results[i].m);
      b_.UpdateState(parameters[i].v, results[i].v);
      if (Chance(50)) pool_.push_back(results[i].master);
      if (options.compute.has_value()) Keep(Convert(b_, results[i].compute, DType::kF32));
    }
  }

  void AddOutputs() {
    for (int i = 0; i < 3; ++i) {
      ValueId v = Pick();
      // Feeds and states are no outputs themselves; views of them are.
      if (b_.graph().value(v).producer == kNoNode) {
        v = Reshape(b_, v, "a b -> (a b)", {dims(v)[0] * dims(v)[1]});
      }
      b_.Output(absl::StrCat("out", i), v);
    }
  }

  std::mt19937_64 random_;
  GraphBuilder b_;
  ValueIds pool_;         // f32 matrices
  ValueIds flats_;        // f32 with one dim
  ValueIds free_states_;  // not updated yet
  int states_ = 0;
};

std::vector<Segment> CutAtRandom(const Graph& graph, std::mt19937_64& random) {
  for (uint64_t percent : {30, 30, 30, 15, 15, 15, 8, 8, 8, 4, 4}) {
    std::vector<int> part_of(graph.nodes().size(), 0);
    for (size_t n = 1; n < part_of.size(); ++n) {
      part_of[n] = part_of[n - 1] + (random() % 100 < percent ? 1 : 0);
    }
    absl::StatusOr<std::vector<Segment>> parts = CutIntoSegments(graph, part_of);
    if (parts.ok()) return *std::move(parts);
    // Some state is read after its update: cut less.
  }
  absl::StatusOr<std::vector<Segment>> whole =
      CutIntoSegments(graph, std::vector<int>(graph.nodes().size(), 0));
  CHECK_OK(whole.status());
  return *std::move(whole);
}

// Calls by (before, after).
using Rules = std::vector<std::pair<int, int>>;

// `links`: parts that run on the link stream. A rule whose first call is of such a part says that
// it must have finished.
absl::StatusOr<Step> BuildStep(const Graph& graph, const std::vector<Segment>& parts,
                               const std::vector<bool>& links, int micro_batches, int phases,
                               const Rules& rules) {
  StepBuilder b(std::vector<std::string>(phases, "phase"));
  for (const Segment& part : parts) {
    StepSegment segment{part, {}, {}};
    segment.link = links[static_cast<size_t>(&part - parts.data())];
    segment.may_run_on_host = !segment.link;
    for (const Output& output : part.graph->outputs()) {
      if (graph.FindOutput(output.name) != kNoValue) segment.fetched.push_back(output.name);
    }
    b.AddSegment(std::move(segment));
  }
  const int calls = micro_batches * static_cast<int>(parts.size());
  for (int c = 0; c < calls; ++c) {
    b.AddCall(c % static_cast<int>(parts.size()), c / static_cast<int>(parts.size()),
              c * phases / calls);
  }
  for (int p = 1; p < phases; ++p) {
    if ((calls + p) % 3 != 0) b.PhaseFollows(p);
  }
  for (auto [before, after] : rules) {
    if (links[static_cast<size_t>(before) % parts.size()]) {
      b.MustFinishBefore(before, after);
    } else {
      b.MustRunBefore(before, after);
    }
  }
  return std::move(b).Build();
}

class WorkspaceKernel final : public Kernel {
 public:
  absl::string_view name() const override { return "workspace"; }
  absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
    int64_t elements = 0;
    for (const Type& type : request.operands) elements += type.elements();
    if (elements % 2 == 0) return absl::UnimplementedError("an even number of elements");
    ASSIGN_OR_RETURN(PlannedKernel planned, ReferenceKernel().Plan(request));
    planned.workspace_bytes = 3 * elements + 1;
    planned.run = [run = std::move(planned.run),
                   bytes = static_cast<size_t>(planned.workspace_bytes)](const KernelArgs& args) {
      char* workspace = static_cast<char*>(args.workspace);
      std::memset(workspace, 0x5A, bytes);
      run(args);
      for (size_t i = 0; i < bytes; ++i) CHECK_EQ(workspace[i], 0x5A) << "byte " << i;
    };
    return planned;
  }
};

HostTensor RandomTensor(const Type& type, std::mt19937_64& random) {
  HostTensor tensor(type);
  for (int64_t i = 0; i < type.elements(); ++i) {
    double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    if (IsFloat(type.dtype)) {
      tensor.Set(i, unit);
    } else {
      tensor.Set(i, unit < 0.5 ? 0 : 1);
    }
  }
  return tensor;
}

}  // namespace

Graph RandomExecGraph(uint64_t seed) { return GraphMaker(seed).Make(); }

RandomStep MakeStep(Graph graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  RandomStep made;
  made.graph = std::make_shared<const Graph>(std::move(graph));
  made.micro_batches = 1 + static_cast<int>(random() % 3);
  std::vector<Segment> parts = CutAtRandom(*made.graph, random);
  const int phases = 1 + static_cast<int>(random() % 3);
  std::vector<bool> links;
  for (size_t p = 0; p < parts.size(); ++p) links.push_back(random() % 100 < 35);
  const uint64_t calls = made.micro_batches * parts.size();
  absl::StatusOr<Step> step = BuildStep(*made.graph, parts, links, made.micro_batches, phases, {});
  CHECK_OK(step.status());
  made.step = *std::move(step);
  // Later calls before earlier ones, as far as data and states permit.
  Rules rules;
  for (int i = 0; i < 12; ++i) {
    int call = static_cast<int>(random() % calls), other = static_cast<int>(random() % calls);
    if (call == other) continue;
    rules.emplace_back(std::max(call, other), std::min(call, other));
    step = BuildStep(*made.graph, parts, links, made.micro_batches, phases, rules);
    if (!step.ok()) {
      rules.pop_back();
    } else {
      made.step = *std::move(step);
    }
  }
  return made;
}

KernelList KernelsWithWorkspaces() {
  static const WorkspaceKernel* const workspace = new WorkspaceKernel();
  static const Kernel* const list[] = {workspace, &ReferenceKernel()};
  return list;
}

StepModel::StepModel(const RandomStep& random, uint64_t seed) : random_(random) {
  std::mt19937_64 numbers(seed);
  for (const State& state : random.graph->states()) {
    states_[state.info.name] = RandomTensor(random.graph->value(state.in).type, numbers);
  }
  for (int m = 0; m < random.micro_batches; ++m) {
    for (ValueId feed : random.graph->feeds()) {
      const Value& value = random.graph->value(feed);
      feeds_[{value.name, m}] = RandomTensor(value.type, numbers);
    }
  }
}

absl::Status StepModel::WriteStates(Program& program) const {
  for (const auto& [name, value] : states_) {
    if (program.plan().FindState(name) == nullptr) continue;  // no node reads it
    RETURN_IF_ERROR(program.WriteState(name, value));
  }
  return absl::OkStatus();
}

FeedFunction StepModel::feeds() const {
  return [this](absl::string_view feed, int micro_batch) -> const HostTensor* {
    auto found = feeds_.find({std::string(feed), micro_batch});
    return found == feeds_.end() ? nullptr : &found->second;
  };
}

absl::Status StepModel::Compare(absl::string_view what, const HostTensor& actual,
                                const HostTensor& expected) const {
  if (actual == expected) return absl::OkStatus();
  int64_t i = 0;
  if (actual.type() == expected.type()) {
    const int64_t size = SizeOf(actual.type().dtype);
    auto at = [&](const HostTensor& t) { return static_cast<const char*>(t.raw()) + i * size; };
    while (std::memcmp(at(actual), at(expected), static_cast<size_t>(size)) == 0) ++i;
  }
  return absl::DataLossError(absl::StrCat(what, ": element ", i, " of ", ToString(actual.type()),
                                          " is ", actual.Get(i), ", expected ", expected.Get(i)));
}

absl::Status StepModel::RunAndCompare(Program& program) {
  Fetched fetched;
  for (size_t phase = 0; phase < random_.step.phases.size(); ++phase) {
    ASSIGN_OR_RETURN(Fetched some, program.RunPhase(static_cast<int>(phase), feeds()));
    fetched.merge(std::move(some));
  }
  for (int m = 0; m < random_.micro_batches; ++m) {
    HostTensors inputs = states_;
    for (const auto& [key, value] : feeds_) {
      if (key.second == m) inputs[key.first] = value;
    }
    ASSIGN_OR_RETURN(HostTensors out, Interpret(*random_.graph, inputs));
    for (const Output& output : random_.graph->outputs()) {
      auto found = fetched.find({output.name, m});
      if (found == fetched.end()) return absl::NotFoundError(absl::StrCat(output.name, " ", m));
      RETURN_IF_ERROR(Compare(absl::StrCat(output.name, " of micro-batch ", m), found->second,
                              out.at(output.name)));
    }
    for (auto& [name, value] : states_) value = out.at(name);
  }
  for (const auto& [name, value] : states_) {
    if (program.plan().FindState(name) == nullptr) continue;
    ASSIGN_OR_RETURN(HostTensor actual, program.ReadState(name));
    RETURN_IF_ERROR(Compare(absl::StrCat("state ", name), actual, value));
  }
  return absl::OkStatus();
}

}  // namespace colossus
