#include "tensor/graph/text.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensor/graph/value_name.h"

namespace colossus {
namespace {

// A value name that cannot be taken for a number.
bool IsWord(absl::string_view text) {
  return IsValueName(text) && (absl::ascii_isalpha(text[0]) || text[0] == '_' || text[0] == '.');
}

std::string PrintWord(absl::string_view text) {
  return IsWord(text) ? std::string(text) : absl::StrCat("\"", absl::CEscape(text), "\"");
}

std::string PrintWords(const std::vector<std::string>& words) {
  return absl::StrCat("[", absl::StrJoin(words, ", ", [](std::string* out, const std::string& w) {
                        out->append(PrintWord(w));
                      }), "]");
}

// "%x: f32[2,3] sharded([data], []) tier(host)".
std::string PrintDefinition(const Value& value) {
  std::string text = absl::StrCat("%", value.name, ": ", ToString(value.type));
  if (value.sharding) absl::StrAppend(&text, " ", ToText(*value.sharding));
  if (value.tier) absl::StrAppend(&text, " tier(", Name(*value.tier), ")");
  return text;
}

std::string PrintInitializer(const Initializer& init) {
  std::string value = AttributeValue(init.value).ToString();
  switch (init.kind) {
    case Initializer::Kind::kNone: return "";
    case Initializer::Kind::kConstant: return absl::StrCat(", init=constant(", value, ")");
    case Initializer::Kind::kNormal: return absl::StrCat(", init=normal(", value, ")");
  }
  return "";
}

std::string PrintStateInfo(const StateInfo& info) {
  return absl::StrCat(
      "{role=", Name(info.role), ", global=", DimsToString(info.global_dims),
      ", disk=", DimsToString(info.disk_dims), ", axes=", PrintWords(info.axes),
      info.trainable ? ", trainable" : "", info.decayed ? ", decayed" : "",
      info.tied_to.empty() ? "" : ", tied_to=", info.tied_to.empty() ? "" : PrintWord(info.tied_to),
      PrintInitializer(info.init), "}");
}

}  // namespace

std::string ToText(const Sharding& sharding) {
  std::string text = "sharded(";
  absl::StrAppend(&text, absl::StrJoin(sharding.dims, ", ",
                                       [](std::string* out, const AxisNames& axes) {
                                         out->append(PrintWords(axes));
                                       }));
  if (!sharding.partial.empty()) absl::StrAppend(&text, "; ", PrintWords(sharding.partial));
  return text + ")";
}

std::string ToText(const Graph& graph, const Node& node) {
  std::string text = absl::StrJoin(node.results, ", ", [&](std::string* out, ValueId v) {
    out->append(PrintDefinition(graph.value(v)));
  });
  absl::StrAppend(&text, " = ", node.op->name(), "(",
                  absl::StrJoin(node.operands, ", ",
                                [&](std::string* out, ValueId v) {
                                  absl::StrAppend(out, "%", graph.value(v).name);
                                }),
                  ")");
  if (!node.attributes.values().empty()) {
    absl::StrAppend(&text, " ", node.attributes.ToString());
  }
  if (!node.block.empty()) absl::StrAppend(&text, " @", PrintWord(node.block));
  if (node.clone != 0) absl::StrAppend(&text, " clone=", node.clone);
  return text;
}

std::string ToText(const Graph& graph) {
  std::string text = absl::StrCat("graph ", PrintWord(graph.name()), " {\n");
  for (ValueId v : graph.feeds()) {
    absl::StrAppend(&text, "  feed ", PrintDefinition(graph.value(v)), "\n");
  }
  for (const State& state : graph.states()) {
    absl::StrAppend(&text, "  state ", PrintDefinition(graph.value(state.in)), " ",
                    PrintStateInfo(state.info), "\n");
  }
  for (const Node& node : graph.nodes()) absl::StrAppend(&text, "  ", ToText(graph, node), "\n");
  for (const State& state : graph.states()) {
    if (state.out == state.in) continue;
    absl::StrAppend(&text, "  update %", state.info.name, " = %", graph.value(state.out).name,
                    "\n");
  }
  for (const Output& output : graph.outputs()) {
    absl::StrAppend(&text, "  output ", PrintWord(output.name), " = %",
                    graph.value(output.value).name, "\n");
  }
  return text + "}\n";
}

}  // namespace colossus
