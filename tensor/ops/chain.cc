#include "tensor/ops/chain.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

std::string ValueText(int value, int operands) {
  return value < operands ? absl::StrCat("x", value) : absl::StrCat("t", value - operands);
}

std::string StepText(const ChainStep& step, int operands) {
  std::string text(step.op->name());
  for (int value : step.values) absl::StrAppend(&text, " ", ValueText(value, operands));
  for (const auto& [name, value] : step.attributes.values()) {
    const auto* word = std::get_if<std::string>(&value.variant());
    absl::StrAppend(&text, " ", name, "=", word != nullptr ? *word : value.ToString());
  }
  return text;
}

const Op* FindChainable(absl::string_view name) {
  if (name == ConvertOp().name()) return &ConvertOp();
  if (name == DropoutOp().name()) return &DropoutOp();
  for (const Op* op : PointwiseOps()) {
    if (op->name() == name) return op;
  }
  return nullptr;
}

// "x3" or "t1", as the index of a value that is there before step `step`; -1: no such value.
int ParseValue(absl::string_view word, int operands, int step) {
  int index = 0;
  if (word.size() < 2 || !absl::SimpleAtoi(word.substr(1), &index) || index < 0) return -1;
  if (word[0] == 'x') return index < operands ? index : -1;
  return word[0] == 't' && index < step ? operands + index : -1;
}

// Attributes of steps are words or numbers. Dropout of a part (lists) is not written in a step.
AttributeValue ParseAttribute(absl::string_view name, const std::string& text) {
  if (name == "dtype" || name == "site") return text;
  return std::strtod(text.c_str(), nullptr);
}

absl::StatusOr<ChainStep> ParseStep(const std::string& text, int operands, int index) {
  std::vector<std::string> words = absl::StrSplit(text, ' ');
  ChainStep step;
  step.op = FindChainable(words[0]);
  if (step.op == nullptr) {
    return Refuse("chain_c2",
                  absl::StrCat("'", words[0], "' is not pointwise, convert or dropout"));
  }
  for (size_t i = 1; i < words.size(); ++i) {
    std::pair<std::string, std::string> halves = absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    if (words[i].find('=') != std::string::npos) {
      step.attributes.Set(halves.first, ParseAttribute(halves.first, halves.second));
      continue;
    }
    step.values.push_back(ParseValue(words[i], operands, index));
    if (step.values.back() < 0) {
      return Refuse("chain_c2", absl::StrCat("step ", index, " has no value '", words[i], "'"));
    }
  }
  const std::string printed = StepText(step, operands);
  if (printed != text) {
    return Refuse("chain_c2", absl::StrCat("'", text, "' is written '", printed, "'"));
  }
  return step;
}

absl::Status CheckUses(const ChainProgram& program) {
  const int steps = static_cast<int>(program.steps.size());
  std::vector<bool> used(program.operands + steps, false);
  for (const ChainStep& step : program.steps) {
    for (int value : step.values) used[value] = true;
  }
  int last = -1;
  for (int result : program.results) {
    if (result <= last || result >= steps) {
      return Refuse("chain_c5", "results are not ascending steps");
    }
    last = result;
    used[program.operands + result] = true;
  }
  if (program.results.empty()) return Refuse("chain_c5", "no step is a result");
  for (size_t v = 0; v < used.size(); ++v) {
    if (used[v]) continue;
    return Refuse("chain_c5", absl::StrCat("nothing reads ",
                                           ValueText(static_cast<int>(v), program.operands)));
  }
  return absl::OkStatus();
}

// chain_c1: steps is a list of 1 to 16 strings, results a list of integers; nothing else; at most
//           16 operands.
// chain_c2: a step is a pointwise op, convert or dropout, then values that are there, then
//           attributes, as the program prints.
// chain_c3: each step's op accepts its values and attributes.
// chain_c4: all steps have the same dims.
// chain_c5: results are ascending steps, at least one; every operand is read, every step is read or
//           a result.
class ChainDefinition final : public Op {
 public:
  absl::string_view name() const override { return "chain"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    ASSIGN_OR_RETURN(ChainProgram program,
                     ParseChain(call.attributes, static_cast<int>(call.operands.size())));
    ASSIGN_OR_RETURN(Types types, ChainTypes(program, call.operands));
    Types results;
    for (int step : program.results) results.push_back(types[program.operands + step]);
    return results;
  }

  // Every result has all dims. Drawing needs an origin, which a step does not have.
  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    for (const std::string& step : call.attributes.StringList("steps")) {
      if (absl::StartsWith(step, "dropout ")) return WholeRule(call.operands, *results);
    }
    FactorRule rule = PointwiseRule(call.operands, (*results)[0]);
    rule.results.assign(results->size(), rule.results[0]);
    return rule;
  }

  Cost CostOf(const OpCall& call) const override {
    Cost cost{0, BytesOf(call)};
    absl::StatusOr<ChainProgram> program =
        ParseChain(call.attributes, static_cast<int>(call.operands.size()));
    CHECK_OK(program.status());
    absl::StatusOr<Types> types = ChainTypes(*program, call.operands);
    CHECK_OK(types.status());
    for (const ChainStep& step : program->steps) {
      Types operands;
      for (int value : step.values) operands.push_back((*types)[value]);
      cost.flops += step.op->CostOf({operands, step.attributes}).flops;
    }
    return cost;
  }

  // Element i of every result is written after element i of every operand was read.
  Aliases MayAlias(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    Aliases aliases;
    for (size_t r = 0; r < results->size(); ++r) {
      for (size_t i = 0; i < call.operands.size(); ++i) {
        const Type& operand = call.operands[i];
        const Type& result = (*results)[r];
        if (operand.dims != result.dims || SizeOf(operand.dtype) != SizeOf(result.dtype)) continue;
        aliases.push_back({static_cast<int>(r), static_cast<int>(i)});
      }
    }
    return aliases;
  }
};

}  // namespace

Attributes ChainProgram::ToAttributes() const {
  Strings texts;
  for (const ChainStep& step : steps) texts.push_back(StepText(step, operands));
  return {{"steps", std::move(texts)}, {"results", Ints(results.begin(), results.end())}};
}

bool IsChainable(const Op& op, const Attributes& attributes) {
  if (FindChainable(op.name()) != &op) return false;
  if (&op != &DropoutOp()) return true;
  return !attributes.Has("origin") && !attributes.Has("global") && !attributes.Has("with") &&
         !absl::StrContains(attributes.String("site"), ' ');
}

absl::StatusOr<ChainProgram> ParseChain(const Attributes& attributes, int operands) {
  RETURN_IF_ERROR(CheckAttributeTypes({{}, attributes}, "chain_c1",
                                      {{"steps", AttributeKind::kStrings, true},
                                       {"results", AttributeKind::kInts, true}}));
  const Strings& texts = attributes.StringList("steps");
  if (texts.empty() || texts.size() > kMaxChainSteps) {
    return Refuse("chain_c1", absl::StrCat(texts.size(), " steps; 1 to ", kMaxChainSteps));
  }
  if (operands > kMaxChainOperands) {
    return Refuse("chain_c1", absl::StrCat(operands, " operands; at most ", kMaxChainOperands));
  }
  ChainProgram program;
  program.operands = operands;
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSIGN_OR_RETURN(ChainStep step, ParseStep(texts[i], operands, static_cast<int>(i)));
    program.steps.push_back(std::move(step));
  }
  for (int64_t result : attributes.IntList("results")) {
    program.results.push_back(static_cast<int>(std::clamp<int64_t>(result, -1, kMaxChainSteps)));
  }
  RETURN_IF_ERROR(CheckUses(program));
  return program;
}

absl::StatusOr<Types> ChainTypes(const ChainProgram& program, absl::Span<const Type> operands) {
  Types types(operands.begin(), operands.end());
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ChainStep& step = program.steps[i];
    Types given;
    for (int value : step.values) given.push_back(types[value]);
    absl::StatusOr<Types> made = step.op->Infer({given, step.attributes});
    if (!made.ok()) return Annotate(made.status(), absl::StrCat("chain_c3: step ", i));
    if (i > 0 && (*made)[0].dims != types[program.operands].dims) {
      return Refuse("chain_c4", absl::StrCat("step ", i, " is ", ToString((*made)[0]),
                                             ", step 0 ", ToString(types[program.operands])));
    }
    types.push_back((*made)[0]);
  }
  return types;
}

const Op& ChainOp() {
  static const ChainDefinition* const op = new ChainDefinition();
  return *op;
}

}  // namespace colossus
