#include "parallel/micro_batch_graph.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/update_graph.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

// loss = sum(x * w * w) + sum(x * v): w is read twice, v once.
constexpr absl::string_view kForward = R"(graph f {
  feed %x: bf16[4]
  feed %seed: f32[]
  state %w: bf16[4] {role=parameter, global=[4], disk=[2,2], axes=[embed], trainable, decayed}
  state %v: bf16[4] {role=parameter, global=[4], disk=[4], axes=[embed], trainable}
  state %frozen: bf16[4] {role=parameter, global=[4], disk=[4], axes=[embed]}
  %a: bf16[4] = mul(%x, %w) @h.0
  %b: bf16[4] = mul(%a, %w) @h.1
  %c: bf16[4] = mul(%x, %v) @h.1
  %d: bf16[4] = mul(%b, %c) @h.1
  %e: bf16[4] = mul(%d, %frozen) @h.1
  %loss: f32[] = reduce_sum(%e) {dims=[0], dtype="f32", keep=false} @head
  output loss = %loss
}
)";

Differentiated Example() {
  absl::StatusOr<Graph> forward = ParseGraph(kForward);
  EXPECT_OK(forward);
  absl::StatusOr<Differentiated> differentiated =
      Autodiff(*forward, forward->FindOutput("loss"), forward->FindValue("seed"));
  EXPECT_OK(differentiated);
  return *std::move(differentiated);
}

// The lines of `text` that mention any of `words`, without indentation.
std::string Lines(const std::string& text, std::initializer_list<const char*> words) {
  std::string lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    for (const char* word : words) {
      if (line.find(word) == std::string::npos) continue;
      absl::StrAppend(&lines, line.substr(line.find_first_not_of(' ')), "\n");
      break;
    }
    at = end + 1;
  }
  return lines;
}

std::string Variant(MicroBatchVariant variant, DType gradient = DType::kBF16) {
  const Differentiated d = Example();
  absl::StatusOr<Graph> graph = MicroBatchGraph(d.graph, d.parameters, variant, gradient);
  EXPECT_OK(graph);
  return ToText(*graph);
}

// Protects: names of outputs and feeds, which segments and carries are bound by.
TEST(MicroBatchGraphTest, Names) {
  EXPECT_EQ(SumName("d.w"), "sum/d.w");
  EXPECT_EQ(PreviousName("d.w"), "previous/d.w");
  EXPECT_EQ(GradientName("w"), "gradient/w");
}

// Protects: alone, a parameter that is read once is rounded at once, so that no fp32 copy exists;
// one that is read twice is not rounded before its uses are added.
TEST(MicroBatchGraphTest, Only) {
  EXPECT_EQ(Lines(Variant(MicroBatchVariant::kOnly), {"sum/", "d.w", "d.v"}),
            R"(%d.v: f32[4] = convert(%h.1.grad/mul.2) {dtype="f32"} @h.1.grad
%h.1.grad/convert: bf16[4] = convert(%d.v) {dtype="bf16"} @h.1.grad
%d.w.1: f32[4] = convert(%h.1.grad/mul.3) {dtype="f32"} @h.1.grad
%d.w: f32[4] = convert(%h.0.grad/mul) {dtype="f32"} @h.0.grad
output sum/d.w = %d.w
output sum/d.w.1 = %d.w.1
output sum/d.v = %h.1.grad/convert
)");
}

// Protects: of several micro-batches the first gives its gradients as they are.
TEST(MicroBatchGraphTest, First) {
  EXPECT_EQ(Lines(Variant(MicroBatchVariant::kFirst), {"sum/", "d.w", "d.v", "previous"}),
            R"(%d.v: f32[4] = convert(%h.1.grad/mul.2) {dtype="f32"} @h.1.grad
%d.w.1: f32[4] = convert(%h.1.grad/mul.3) {dtype="f32"} @h.1.grad
%d.w: f32[4] = convert(%h.0.grad/mul) {dtype="f32"} @h.0.grad
output sum/d.w = %d.w
output sum/d.w.1 = %d.w.1
output sum/d.v = %d.v
)");
}

// Protects: later ones add to the sum so far, right behind the gradient and in its block, so that
// the gradient dies there; the sum so far is the first operand.
TEST(MicroBatchGraphTest, Rest) {
  EXPECT_EQ(Lines(Variant(MicroBatchVariant::kRest), {"sum/", "previous", "d.w", "d.v"}),
            R"(feed %previous/d.v: f32[4]
feed %previous/d.w.1: f32[4]
feed %previous/d.w: f32[4]
%d.v: f32[4] = convert(%h.1.grad/mul.2) {dtype="f32"} @h.1.grad
%h.1.grad/add: f32[4] = add(%previous/d.v, %d.v) @h.1.grad
%d.w.1: f32[4] = convert(%h.1.grad/mul.3) {dtype="f32"} @h.1.grad
%h.1.grad/add.1: f32[4] = add(%previous/d.w.1, %d.w.1) @h.1.grad
%d.w: f32[4] = convert(%h.0.grad/mul) {dtype="f32"} @h.0.grad
%h.0.grad/add: f32[4] = add(%previous/d.w, %d.w) @h.0.grad
output sum/d.w = %h.0.grad/add
output sum/d.w.1 = %h.1.grad/add.1
output sum/d.v = %h.1.grad/add
)");
}

// Protects: the last one rounds what nothing is added to any more, as a single one does.
TEST(MicroBatchGraphTest, Last) {
  EXPECT_EQ(Lines(Variant(MicroBatchVariant::kLast), {"sum/", "previous", "%d.v", "grad/add)"}),
            R"(feed %previous/d.v: f32[4]
feed %previous/d.w.1: f32[4]
feed %previous/d.w: f32[4]
%d.v: f32[4] = convert(%h.1.grad/mul.2) {dtype="f32"} @h.1.grad
%h.1.grad/add: f32[4] = add(%previous/d.v, %d.v) @h.1.grad
%h.1.grad/convert: bf16[4] = convert(%h.1.grad/add) {dtype="bf16"} @h.1.grad
%h.1.grad/add.1: f32[4] = add(%previous/d.w.1, %d.w.1) @h.1.grad
%h.0.grad/add: f32[4] = add(%previous/d.w, %d.w) @h.0.grad
output sum/d.w = %h.0.grad/add
output sum/d.w.1 = %h.1.grad/add.1
output sum/d.v = %h.1.grad/convert
)");
}

// Protects: a gradient that no node makes (the seed itself) becomes a sum too.
TEST(MicroBatchGraphTest, GradientThatIsAFeed) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(R"(graph f {
    feed %seed: f32[]
    state %w: f32[] {role=parameter, global=[], disk=[], axes=[], trainable}
    %loss: f32[] = neg(%w) @head
    output loss = %loss
    output d.w = %seed
  })"));
  const std::vector<ParameterGradients> parameters = {
      {"w", {"d.w"}}};
  for (MicroBatchVariant variant :
       {MicroBatchVariant::kOnly, MicroBatchVariant::kFirst, MicroBatchVariant::kRest,
        MicroBatchVariant::kLast}) {
    ASSERT_OK_AND_ASSIGN(Graph made,
                         MicroBatchGraph(graph, parameters, variant, DType::kF32));
    EXPECT_NE(made.FindOutput("sum/d.w"), kNoValue);
    EXPECT_EQ(made.FindOutput("d.w"), kNoValue);
  }
}

// Protects: uses of a tied parameter are added in their order, each gradient is rounded once, and
// the norm is of all finished gradients in the parameters' order, block by block.
TEST(UpdateGraphTest, Measure) {
  const Differentiated d = Example();
  ASSERT_OK_AND_ASSIGN(Graph first, MicroBatchGraph(d.graph, d.parameters,
                                                    MicroBatchVariant::kFirst, DType::kBF16));
  ASSERT_OK_AND_ASSIGN(Graph measure, MeasureGraph(first, d.parameters, {DType::kBF16}));
  ASSERT_OK_AND_ASSIGN(Graph expected, ParseGraph(R"(graph measure {
  feed %sum/d.w: f32[4]
  feed %sum/d.w.1: f32[4]
  feed %sum/d.v: f32[4]
  %measure/add: f32[4] = add(%sum/d.w, %sum/d.w.1) @measure
  %measure/convert: bf16[4] = convert(%measure/add) {dtype="bf16"} @measure
  %measure/sum_squares: f64[] = sum_squares(%measure/convert) @measure
  %measure/convert.1: bf16[4] = convert(%sum/d.v) {dtype="bf16"} @measure
  %measure/sum_squares.1: f64[] =
      sum_squares(%measure/sum_squares, %measure/convert.1) {continues=true} @measure
  output gradient/w = %measure/convert
  output gradient/v = %measure/convert.1
  output sum_squares = %measure/sum_squares.1
})"));
  EXPECT_EQ(ToText(measure), ToText(expected));
}

// Protects: where the micro-batch rounded already, the measure graph adds no work.
TEST(UpdateGraphTest, MeasureOfOnly) {
  const Differentiated d = Example();
  ASSERT_OK_AND_ASSIGN(Graph only, MicroBatchGraph(d.graph, d.parameters,
                                                   MicroBatchVariant::kOnly, DType::kBF16));
  ASSERT_OK_AND_ASSIGN(Graph measure, MeasureGraph(only, d.parameters, {DType::kBF16}));
  EXPECT_EQ(Lines(ToText(measure), {"sum/d.v", "gradient/v"}), R"(feed %sum/d.v: bf16[4]
%measure/sum_squares.1: f64[] = sum_squares(%measure/sum_squares, %sum/d.v) {continues=true} @measure
output gradient/v = %sum/d.v
)");
}

// Protects: states of parameters that have gradients and no others; decay by the record; scalars.
TEST(UpdateGraphTest, Update) {
  const Differentiated d = Example();
  ASSERT_OK_AND_ASSIGN(Graph first, MicroBatchGraph(d.graph, d.parameters,
                                                    MicroBatchVariant::kFirst, DType::kBF16));
  ASSERT_OK_AND_ASSIGN(Graph measure, MeasureGraph(first, d.parameters, {DType::kBF16}));
  Optimizer adamw;
  adamw.weight_decay = 0.5;
  ASSERT_OK_AND_ASSIGN(Graph update,
                       UpdateGraph(measure, d.graph, d.parameters, adamw, DType::kBF16));
  ASSERT_OK_AND_ASSIGN(Graph expected, ParseGraph(R"(graph update {
  feed %learning_rate: f32[]
  feed %grad_scale: f32[]
  feed %correction1: f32[]
  feed %correction2: f32[]
  feed %gradient/w: bf16[4]
  feed %gradient/v: bf16[4]
  state %w: bf16[4] {role=parameter, global=[4], disk=[2,2], axes=[embed], trainable, decayed}
  state %master/w: f32[4] {role=master, global=[4], disk=[2,2], axes=[embed], trainable, decayed}
  state %moment1/w: f32[4] {role=moment1, global=[4], disk=[2,2], axes=[embed], trainable, decayed}
  state %moment2/w: f32[4] {role=moment2, global=[4], disk=[2,2], axes=[embed], trainable, decayed}
  state %v: bf16[4] {role=parameter, global=[4], disk=[4], axes=[embed], trainable}
  state %master/v: f32[4] {role=master, global=[4], disk=[4], axes=[embed], trainable}
  state %moment1/v: f32[4] {role=moment1, global=[4], disk=[4], axes=[embed], trainable}
  state %moment2/v: f32[4] {role=moment2, global=[4], disk=[4], axes=[embed], trainable}
  %update/adamw.r0: f32[4], %update/adamw.r1: f32[4],
      %update/adamw.r2: f32[4], %update/adamw.r3: bf16[4] =
      adamw(%master/w, %gradient/w, %moment1/w, %moment2/w,
            %learning_rate, %grad_scale, %correction1, %correction2) {
          beta1=0x1.ccccccccccccdp-1, beta2=0x1.e666666666666p-1, compute="bf16",
          epsilon=0x1.5798ee2308c3ap-27, weight_decay=[0x1p-1]} @update
  %update/adamw.r0.1: f32[4], %update/adamw.r1.1: f32[4],
      %update/adamw.r2.1: f32[4], %update/adamw.r3.1: bf16[4] =
      adamw(%master/v, %gradient/v, %moment1/v, %moment2/v,
            %learning_rate, %grad_scale, %correction1, %correction2) {
          beta1=0x1.ccccccccccccdp-1, beta2=0x1.e666666666666p-1, compute="bf16",
          epsilon=0x1.5798ee2308c3ap-27, weight_decay=[0x0p+0]} @update
  update %w = %update/adamw.r3
  update %master/w = %update/adamw.r0
  update %moment1/w = %update/adamw.r1
  update %moment2/w = %update/adamw.r2
  update %v = %update/adamw.r3.1
  update %master/v = %update/adamw.r0.1
  update %moment1/v = %update/adamw.r1.1
  update %moment2/v = %update/adamw.r2.1
})"));
  EXPECT_EQ(ToText(update), ToText(expected));
  Optimizer sgd;
  sgd.kind = Optimizer::Kind::kSgd;
  ASSERT_OK_AND_ASSIGN(update, UpdateGraph(measure, d.graph, d.parameters, sgd, DType::kBF16));
  EXPECT_EQ(Lines(ToText(update), {"feed"}),
            "feed %learning_rate: f32[]\nfeed %grad_scale: f32[]\n"
            "feed %gradient/w: bf16[4]\nfeed %gradient/v: bf16[4]\n");
  EXPECT_EQ(update.FindState("moment2/w"), nullptr);
  EXPECT_NE(update.FindState("moment1/w")->out, update.FindState("moment1/w")->in);
}

// Protects: a node per block that reads parameters first, in first-use order, each parameter with
// its own decay.
TEST(UpdateGraphTest, UpdatesByBlock) {
  ASSERT_OK_AND_ASSIGN(Graph forward, ParseGraph(R"(graph f {
    feed %x: f32[4]
    feed %seed: f32[]
    state %u: f32[4] {role=parameter, global=[4], disk=[4], axes=[embed], trainable, decayed}
    state %v: f32[] {role=parameter, global=[], disk=[], axes=[], trainable}
    state %w: f32[4] {role=parameter, global=[4], disk=[4], axes=[embed], trainable, decayed}
    %a: f32[4] = mul(%x, %w) @h.0
    %b: f32[4] = mul(%a, %v) @h.0
    %c: f32[4] = mul(%b, %u) @h.1
    %d: f32[4] = mul(%c, %w) @h.1
    %loss: f32[] = reduce_sum(%d) {dims=[0], dtype="f32", keep=false} @head
    output loss = %loss
  })"));
  ASSERT_OK_AND_ASSIGN(const Differentiated d, Autodiff(forward, forward.FindOutput("loss"),
                                                        forward.FindValue("seed")));
  ASSERT_OK_AND_ASSIGN(Graph only, MicroBatchGraph(d.graph, d.parameters,
                                                   MicroBatchVariant::kOnly, DType::kF32));
  ASSERT_OK_AND_ASSIGN(Graph measure, MeasureGraph(only, d.parameters, {DType::kF32}));
  Optimizer sgd;
  sgd.kind = Optimizer::Kind::kSgd;
  sgd.momentum = sgd.weight_decay = 0.5;
  ASSERT_OK_AND_ASSIGN(Graph update,
                       UpdateGraph(measure, d.graph, d.parameters, sgd, DType::kF32));
  EXPECT_EQ(Lines(ToText(update), {" = sgd("}),
            "%update/sgd.r0: f32[4], %update/sgd.r1: f32[4], %update/sgd.r2: f32[], "
            "%update/sgd.r3: f32[] = sgd(%w, %gradient/w, %moment1/w, %v, %gradient/v, "
            "%moment1/v, %learning_rate, %grad_scale) {momentum=0x1p-1, "
            "weight_decay=[0x1p-1, 0x0p+0]} @update\n"
            "%update/sgd.r0.1: f32[4], %update/sgd.r1.1: f32[4] = sgd(%u, %gradient/u, "
            "%moment1/u, %learning_rate, %grad_scale) {momentum=0x1p-1, "
            "weight_decay=[0x1p-1]} @update\n");
}

}  // namespace
}  // namespace colossus
