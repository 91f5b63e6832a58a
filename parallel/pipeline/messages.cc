#include "parallel/pipeline/messages.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/mesh_slice.h"
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

// The message of a work to a stage; `place`: of the work among all.
template <typename Place>
class MessageList {
 public:
  Message& Of(const Place& place, const Work& work, int from, int to) {
    Message& message = by_work_[{place, to}];
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
  std::map<std::pair<Place, int>, Message> by_work_;
};

void AddValue(Message& message, const std::string& name, const Type& type) {
  const bool known = std::any_of(message.values.begin(), message.values.end(),
                                 [&](const SentValue& value) { return value.name == name; });
  if (!known) message.values.push_back({name, type});
}

void AddReader(Message& message, const Work& reader) {
  if (std::count(message.readers.begin(), message.readers.end(), reader) == 0) {
    message.readers.push_back(reader);
  }
}

StepSegment LinkSegment(Graph graph) {
  StepSegment segment;
  segment.segment = {graph.name(), std::make_shared<const Graph>(std::move(graph))};
  segment.link = true;
  return segment;
}

absl::StatusOr<Transfers> TransfersOf(const Message& message, const SentValue& value,
                                      const StageMeshes& meshes) {
  return PlanTransfers(value.type.dims, meshes.Of(message.from, value),
                       meshes.Of(message.to, value));
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
  MessageList<size_t> list;
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
      AddReader(message, works[s]);
    }
  }
  return std::move(list).InOrder();
}

std::vector<Message> FindMessages(const Graph& graph, const std::vector<Work>& works,
                                  const StageOfPart& stage_of) {
  CHECK_EQ(graph.nodes().size(), works.size());
  MessageList<int> list;
  for (size_t n = 0; n < works.size(); ++n) {
    const int to = stage_of[static_cast<size_t>(works[n].part)];
    for (ValueId v : graph.nodes()[n].operands) {
      const NodeId maker = graph.value(v).producer;
      if (maker == kNoNode || graph.node(maker).operands.empty()) continue;
      const Work& work = works[static_cast<size_t>(maker)];
      const int from = stage_of[static_cast<size_t>(work.part)];
      if (from == to) continue;
      const int place = PlaceOf(work, static_cast<int>(stage_of.size()));
      Message& message = list.Of(place, work, from, to);
      AddValue(message, graph.value(v).name, graph.value(v).type);
      AddReader(message, works[n]);
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
  return LinkSegment(std::move(graph));
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
  return LinkSegment(std::move(graph));
}

int StageMeshes::ranks() const {
  return stages.empty() ? 0 : stages.back().first + stages.back().mesh.ranks();
}

StageLayout StageMeshes::Of(int stage, const SentValue& value) const {
  const Stage& own = stages[static_cast<size_t>(stage)];
  const auto found = own.values.find(value.name);
  return {own.mesh, own.first,
          found == own.values.end() ? Replicated(value.type.rank()) : found->second};
}

absl::StatusOr<std::optional<StepSegment>> SendSegment(const Message& message,
                                                       const StageMeshes& meshes, int rank,
                                                       absl::string_view name) {
  const std::string own = absl::StrCat("send.", name);
  GraphBuilder builder(own);
  builder.SetBlock(own);
  int sends = 0;
  for (const SentValue& value : message.values) {
    ASSIGN_OR_RETURN(const Transfers transfers, TransfersOf(message, value, meshes));
    const bool sent = std::any_of(transfers.list.begin(), transfers.list.end(),
                                  [&](const Transfer& t) { return t.from == rank; });
    if (!sent) continue;
    const Type part{value.type.dtype, transfers.parts.at(rank).extent};
    sends += AddSends(builder, builder.Feed(value.name, part), transfers, rank, meshes.ranks(),
                      absl::StrCat("send/", name, "/", value.name));
  }
  if (sends == 0) return std::optional<StepSegment>();
  ASSIGN_OR_RETURN(Graph graph, std::move(builder).Build());
  return std::optional<StepSegment>(LinkSegment(std::move(graph)));
}

absl::StatusOr<std::optional<StepSegment>> ReceiveSegment(const Message& message,
                                                          const StageMeshes& meshes, int rank,
                                                          absl::string_view name) {
  const std::string own = absl::StrCat("receive.", name);
  GraphBuilder builder(own);
  builder.SetBlock(own);
  for (const SentValue& value : message.values) {
    ASSIGN_OR_RETURN(const Transfers transfers, TransfersOf(message, value, meshes));
    builder.Output(value.name,
                   AddReceives(builder, value.type.dtype, transfers, rank, meshes.ranks(),
                               absl::StrCat("receive/", name, "/", value.name)));
  }
  ASSIGN_OR_RETURN(Graph graph, std::move(builder).Build());
  return std::optional<StepSegment>(LinkSegment(std::move(graph)));
}

}  // namespace colossus
