#include "parallel/pipeline/messages.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/collective.h"

namespace colossus {
namespace {

constexpr char kAxis[] = "stage";

// Which piece makes each value that leaves one, and with what type.
struct Maker {
  size_t segment = 0;
  Type type;
};

std::map<std::string, Maker> Makers(const std::vector<Segment>& segments) {
  std::map<std::string, Maker> makers;
  for (size_t s = 0; s < segments.size(); ++s) {
    const Graph& graph = *segments[s].graph;
    for (const Output& output : graph.outputs()) {
      makers[output.name] = {s, graph.value(output.value).type};
    }
  }
  return makers;
}

// The message of a work, whose first piece is `segment`, to a stage.
class MessageList {
 public:
  Message& Of(size_t segment, const Work& work, int from, int to) {
    Message& message = by_work_[{segment, to}];
    message.work = work;
    message.from = from;
    message.to = to;
    return message;
  }

  std::vector<Message> InOrder() && {
    std::vector<Message> messages;
    for (auto& [key, message] : by_work_) messages.push_back(std::move(message));
    return messages;
  }

 private:
  std::map<std::pair<size_t, int>, Message> by_work_;
};

void AddValue(Message& message, const std::string& name, const Type& type) {
  const bool known = std::any_of(message.values.begin(), message.values.end(),
                                 [&](const SentValue& value) { return value.name == name; });
  if (!known) message.values.push_back({name, type});
}

}  // namespace

StageOfPart StagesOf(const PipelineActions& actions) {
  StageOfPart stages;
  for (int part = 0; part < actions.shape().parts(); ++part) {
    stages.push_back(actions.StageOf(part));
  }
  return stages;
}

std::vector<Message> FindMessages(const std::vector<Segment>& segments,
                                  const std::vector<Work>& works, const StageOfPart& stage_of) {
  CHECK_EQ(segments.size(), works.size());
  const std::map<std::string, Maker> makers = Makers(segments);
  std::map<Work, size_t> first;  // piece of each work
  for (size_t s = 0; s < works.size(); ++s) first.emplace(works[s], s);
  MessageList list;
  for (size_t s = 0; s < segments.size(); ++s) {
    const Graph& graph = *segments[s].graph;
    const int to = stage_of[static_cast<size_t>(works[s].part)];
    for (ValueId feed : graph.feeds()) {
      auto maker = makers.find(graph.value(feed).name);
      if (maker == makers.end()) continue;
      const Work& work = works[maker->second.segment];
      const int from = stage_of[static_cast<size_t>(work.part)];
      if (from == to) continue;
      Message& message = list.Of(first.at(work), work, from, to);
      AddValue(message, maker->first, maker->second.type);
      if (std::count(message.readers.begin(), message.readers.end(), works[s]) == 0) {
        message.readers.push_back(works[s]);
      }
    }
  }
  return std::move(list).InOrder();
}

absl::StatusOr<StepSegment> SendSegment(const Message& message, int stages,
                                        absl::string_view name) {
  GraphBuilder builder(absl::StrCat("send.", name));
  builder.SetBlock(absl::StrCat("send.", name));
  for (const SentValue& value : message.values) {
    const std::string site = absl::StrCat("send/", name, "/", value.name);
    const ValueId x = builder.Feed(value.name, value.type);
    builder.Output(site, Send(builder, x, {kAxis}, stages, message.to, site));
  }
  ASSIGN_OR_RETURN(Graph graph, std::move(builder).Build());
  StepSegment segment;
  segment.segment = {graph.name(), std::make_shared<const Graph>(std::move(graph))};
  segment.link = true;
  return segment;
}

absl::StatusOr<StepSegment> ReceiveSegment(const Message& message, int stages,
                                           absl::string_view name) {
  GraphBuilder builder(absl::StrCat("receive.", name));
  builder.SetBlock(absl::StrCat("receive.", name));
  for (const SentValue& value : message.values) {
    builder.Output(value.name, Receive(builder, value.type, {kAxis}, stages, message.from,
                                       absl::StrCat("receive/", name, "/", value.name)));
  }
  ASSIGN_OR_RETURN(Graph graph, std::move(builder).Build());
  StepSegment segment;
  segment.segment = {graph.name(), std::make_shared<const Graph>(std::move(graph))};
  segment.link = true;
  return segment;
}

}  // namespace colossus
