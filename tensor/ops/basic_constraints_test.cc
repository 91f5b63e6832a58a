// Every numbered constraint of matmul, convert, pointwise, shape, reduction, softmax and constant
// ops refuses what it is there for, citing its number.
#include <string>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/ops/op.h"
#include "tensor/ops/op_list.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr DType kF = DType::kF32, kB = DType::kBool, kI = DType::kI32;
const Type kMatrix{kF, {3, 4}}, kVector{kF, {4}}, kScalar{kF, {}}, kInts{kI, {3, 4}};

struct Refusal {
  std::string op, constraint;
  Types operands;
  Attributes attributes = {};
};

void ExpectRefused(const Refusal& r) {
  const Op* op = FindOp(r.op);
  ASSERT_NE(op, nullptr) << r.op;
  EXPECT_THAT(op->Infer({r.operands, r.attributes}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint + ":")))
      << r.op << " " << r.attributes.ToString();
}

Attributes Spec(const char* spec) { return {{"spec", spec}}; }

TEST(BasicConstraints, Matmul) {
  const Type tall{kF, {4, 3}};
  const Refusal refusals[] = {
      {"matmul", "matmul_c1", {kMatrix}, Spec("m k -> m k")},
      {"matmul", "matmul_c1", {kMatrix, {DType::kBF16, {4, 3}}}, Spec("m k, k n -> m n")},
      {"matmul", "matmul_c1", {kInts, kInts}, Spec("m k, m k -> m")},
      {"matmul", "matmul_c2", {kMatrix, tall}},
      {"matmul", "matmul_c2", {kMatrix, tall}, Spec("m k -> m")},
      {"matmul", "matmul_c2", {kMatrix, tall}, Spec("m (k l), k n -> m n")},
      {"matmul", "matmul_c2", {kMatrix, tall}, Spec("m m, k n -> n")},
      {"matmul", "matmul_c2", {kMatrix, tall}, Spec("m k, k n")},
      {"matmul", "matmul_c3", {kMatrix, tall}, Spec("m k, k n -> m x")},
      {"matmul", "matmul_c4", {kMatrix, tall}, Spec("m k, k n -> m")},
      {"matmul", "matmul_c5", {kMatrix, kMatrix}, Spec("m k, k n -> m n")},
      {"matmul", "matmul_c6", {kMatrix, tall}, {{"spec", "m k, k n -> m n"}, {"dtype", "i32"}}},
      {"matmul", "matmul_c6", {kMatrix, tall}, {{"spec", "m k, k n -> m n"}, {"dtype", 3}}},
      {"matmul", "matmul_c6", {kMatrix, tall}, {{"spec", "m k, k n -> m n"}, {"dtype", "f8"}}},
      {"matmul", "matmul_c7", {kMatrix, tall}, {{"spec", "m k, k n -> m n"}, {"axis", 3}}},
  };
  for (const Refusal& r : refusals) ExpectRefused(r);
}

TEST(BasicConstraints, Convert) {
  ExpectRefused({"convert", "convert_c1", {}, {{"dtype", "f32"}}});
  ExpectRefused({"convert", "convert_c2", {kMatrix}});
  ExpectRefused({"convert", "convert_c2", {kMatrix}, {{"dtype", "f31"}}});
  ExpectRefused({"convert", "convert_c3", {kMatrix}, {{"dtype", "f32"}, {"to", "f32"}}});
}

TEST(BasicConstraints, Pointwise) {
  const Refusal refusals[] = {
      {"add", "pointwise_c1", {kMatrix}},
      {"gelu", "pointwise_c1", {kMatrix, kMatrix}},
      {"add", "pointwise_c2", {kMatrix, {DType::kBF16, {4}}}},
      {"add", "pointwise_c2", {{kB, {3}}, {kB, {3}}}},
      {"div", "pointwise_c2", {kInts, kInts}},
      {"less", "pointwise_c2", {kMatrix, kInts}},
      {"logical_and", "pointwise_c2", {kMatrix, kMatrix}},
      {"select", "pointwise_c2", {kMatrix, kMatrix, kMatrix}},
      {"select", "pointwise_c2", {{kB, {}}, kMatrix, kInts}},
      {"add", "pointwise_c3", {kMatrix, {kF, {3}}}},
      {"mul", "pointwise_c3", {{kF, {0}}, {kF, {2}}}},
      {"scale", "pointwise_c4", {kMatrix}},
      {"scale", "pointwise_c4", {kMatrix}, {{"factor", 2}}},
      {"add_scalar", "pointwise_c4", {kMatrix}, {{"value", 2.0}, {"factor", 2.0}}},
      {"add", "pointwise_c4", {kMatrix, kMatrix}, {{"factor", 2.0}}},
  };
  for (const Refusal& r : refusals) ExpectRefused(r);
}

TEST(BasicConstraints, Reductions) {
  auto over = [](Ints dims) { return Attributes{{"dims", dims}, {"keep", false}}; };
  auto with = [](absl::string_view name, AttributeValue value) {
    Attributes attributes{{"dims", Ints{0}}, {"keep", false}};
    attributes.Set(name, std::move(value));
    return attributes;
  };
  const Refusal refusals[] = {
      {"reduce_sum", "reduce_c1", {kMatrix, kMatrix}, over({0})},
      {"reduce_max", "reduce_c1", {{kB, {3}}}, over({0})},
      {"reduce_sum", "reduce_c2", {kMatrix}, {{"keep", true}}},
      {"reduce_sum", "reduce_c2", {kMatrix}, over({2})},
      {"reduce_sum", "reduce_c2", {kMatrix}, over({1, 0})},
      {"reduce_max", "reduce_c2", {kMatrix}, over({-1})},
      {"reduce_sum", "reduce_c3", {kMatrix}, {{"dims", Ints{0}}}},
      {"reduce_sum", "reduce_c4", {kMatrix}, with("dtype", "i32")},
      {"reduce_sum", "reduce_c4", {kMatrix}, with("dtype", 4)},
      {"reduce_sum", "reduce_c4", {kInts}, with("dtype", "f32")},
      {"reduce_sum", "reduce_c4", {kMatrix}, with("dtype", "f31")},
      {"reduce_max", "reduce_c5", {kMatrix}, with("dtype", "f32")},
      {"reduce_sum", "reduce_c5", {kMatrix}, with("axis", 0)},
  };
  for (const Refusal& r : refusals) ExpectRefused(r);
}

TEST(BasicConstraints, Softmax) {
  ExpectRefused({"softmax", "softmax_c1", {kMatrix, kMatrix}});
  ExpectRefused({"softmax_grad", "softmax_c1", {kMatrix, kVector}});
  ExpectRefused({"softmax", "softmax_c2", {kScalar}});
  ExpectRefused({"softmax", "softmax_c2", {kInts}});
  ExpectRefused({"softmax", "softmax_c3", {kMatrix}, {{"dim", 0}}});
}

TEST(BasicConstraints, Reshape) {
  auto to = [](const char* spec, Ints dims) { return Attributes{{"spec", spec}, {"dims", dims}}; };
  const Refusal refusals[] = {
      {"reshape", "reshape_c1", {}, to("a b -> (a b)", {12})},
      {"reshape", "reshape_c2", {kMatrix}, {{"dims", Ints{12}}}},
      {"reshape", "reshape_c2", {kMatrix}, to("a b -> (b a)", {12})},
      {"reshape", "reshape_c2", {kMatrix}, to("a b -> a", {3})},
      {"reshape", "reshape_c2", {kMatrix}, to("a a -> a", {3})},
      {"reshape", "reshape_c2", {kMatrix}, to("a (b -> a b", {3, 4})},
      {"reshape", "reshape_c3", {kMatrix}, Spec("a b -> (a b)")},
      {"reshape", "reshape_c3", {kMatrix}, to("a b -> (a b)", {13})},
      {"reshape", "reshape_c3", {kMatrix}, to("a b c -> (a b) c", {3, 4})},
      {"reshape", "reshape_c4", {kVector}, to("(a b) -> (a b)", {4})},
      {"reshape", "reshape_c5", {kMatrix}, {{"shape", Ints{12}}}},
  };
  for (const Refusal& r : refusals) ExpectRefused(r);
}

TEST(BasicConstraints, ShapeOps) {
  auto cut = [](Ints starts, Ints limits) {
    return Attributes{{"starts", starts}, {"limits", limits}};
  };
  auto pad = [](Ints low, Ints high) {
    return Attributes{{"low", low}, {"high", high}, {"value", 0.0}};
  };
  const Refusal refusals[] = {
      {"transpose", "transpose_c1", {}, {{"perm", Ints{}}}},
      {"transpose", "transpose_c2", {kMatrix}, {{"perm", Ints{0, 0}}}},
      {"transpose", "transpose_c2", {kMatrix}, {{"perm", Ints{1}}}},
      {"transpose", "transpose_c3", {kMatrix}, {{"perm", Ints{1, 0}}, {"x", 1}}},
      {"slice", "slice_c1", {}, cut({}, {})},
      {"slice", "slice_c2", {kMatrix}, cut({0}, {1, 1})},
      {"slice", "slice_c2", {kMatrix}, cut({0, 0}, {1})},
      {"slice", "slice_c2", {kMatrix}, cut({-1, 0}, {1, 1})},
      {"slice", "slice_c3", {kMatrix}, cut({2, 0}, {1, 1})},
      {"slice", "slice_c3", {kMatrix}, cut({0, 0}, {4, 4})},
      {"slice", "slice_c4", {kMatrix}, {{"steps", Ints{1, 1}}}},
      {"pad", "pad_c1", {}, pad({}, {})},
      {"pad", "pad_c2", {kMatrix}, pad({0, -1}, {0, 0})},
      {"pad", "pad_c2", {kMatrix}, pad({0, 0}, {0})},
      {"pad", "pad_c3", {kMatrix}, {{"low", Ints{0, 0}}, {"high", Ints{0, 0}}}},
      {"pad", "pad_c4", {kMatrix}, {{"mode", "edge"}}},
      {"concat", "concat_c1", {}, {{"dim", 0}}},
      {"concat", "concat_c1", {kMatrix, kInts}, {{"dim", 0}}},
      {"concat", "concat_c2", {kMatrix}},
      {"concat", "concat_c2", {kMatrix}, {{"dim", 2}}},
      {"concat", "concat_c3", {kMatrix, {kF, {3, 5}}}, {{"dim", 0}}},
      {"concat", "concat_c3", {kMatrix, kVector}, {{"dim", 0}}},
      {"concat", "concat_c4", {kMatrix}, {{"dim", 0}, {"x", 1}}},
      {"broadcast", "broadcast_c1", {}, {{"dims", Ints{3}}}},
      {"broadcast", "broadcast_c2", {kScalar}},
      {"broadcast", "broadcast_c2", {kScalar}, {{"dims", Ints{-1}}}},
      {"broadcast", "broadcast_c3", {kVector}, {{"dims", Ints{4, 3}}}},
      {"broadcast", "broadcast_c3", {kMatrix}, {{"dims", Ints{4}}}},
      {"broadcast", "broadcast_c4", {kVector}, {{"dims", Ints{3, 4}}, {"x", 1}}},
  };
  for (const Refusal& r : refusals) ExpectRefused(r);
}

TEST(BasicConstraints, StackAndUnstack) {
  ExpectRefused({"unstack", "unstack_c1", {}, {{"dim", 0}}});
  ExpectRefused({"unstack", "unstack_c2", {kMatrix}, {{"dim", 2}}});
  ExpectRefused({"unstack", "unstack_c3", {{kF, {17}}}, {{"dim", 0}}});
  ExpectRefused({"unstack", "unstack_c4", {kMatrix}, {{"dim", 0}, {"x", 1}}});
  ExpectRefused({"stack", "stack_c1", {}, {{"dim", 0}}});
  ExpectRefused({"stack", "stack_c2", {kMatrix, kVector}, {{"dim", 0}}});
  ExpectRefused({"stack", "stack_c3", {kMatrix}, {{"dim", 3}}});
  ExpectRefused({"stack", "stack_c4", {kMatrix}, {{"dim", 0}, {"x", 1}}});
}

TEST(BasicConstraints, ConstantAndIota) {
  auto constant = [](const char* dtype, Ints dims, absl::string_view list, AttributeValue values) {
    Attributes attributes{{"dtype", dtype}, {"dims", dims}};
    attributes.Set(list, std::move(values));
    return attributes;
  };
  auto iota = [](const char* dtype, Ints dims, AttributeValue dim) {
    return Attributes{{"dtype", dtype}, {"dims", dims}, {"dim", std::move(dim)}};
  };
  Attributes started = iota("i32", {3}, 0), odd = started;
  started.Set("start", 0.5);
  odd.Set("step", 2);
  const Refusal refusals[] = {
      {"constant", "constant_c1", {kScalar}, constant("f32", {}, "floats", Floats{1})},
      {"constant", "constant_c2", {}, constant("f31", {}, "floats", Floats{1})},
      {"constant", "constant_c2", {}, {{"dims", Ints{}}}},
      {"constant", "constant_c3", {}, constant("f32", {-1}, "floats", Floats{1})},
      {"constant", "constant_c3", {}, {{"dtype", "f32"}}},
      {"constant", "constant_c4", {}, constant("f32", {3}, "floats", Floats{1, 2})},
      {"constant", "constant_c4", {}, constant("f32", {3}, "floats", Ints{1})},
      {"constant", "constant_c4", {}, {{"dtype", "i32"}, {"dims", Ints{}}}},
      {"constant", "constant_c5", {}, constant("f32", {3}, "ints", Ints{1})},
      {"constant", "constant_c5", {}, constant("i32", {3}, "floats", Floats{1})},
      {"iota", "iota_c1", {kScalar}, iota("i32", {3}, 0)},
      {"iota", "iota_c2", {}, iota("bool", {3}, 0)},
      {"iota", "iota_c3", {}, iota("i32", {-3}, 0)},
      {"iota", "iota_c4", {}, iota("i32", {3}, 1)},
      {"iota", "iota_c4", {}, iota("i32", {3}, 0.0)},
      {"iota", "iota_c5", {}, started},
      {"iota", "iota_c6", {}, odd},
  };
  for (const Refusal& r : refusals) ExpectRefused(r);
}

}  // namespace
}  // namespace colossus
