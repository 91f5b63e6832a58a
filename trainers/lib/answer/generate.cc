#include "trainers/lib/answer/generate.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/bytes.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "trainers/lib/answer/utf8_stream.h"
#include "trainers/lib/checkpoint/model_source.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/data/data.h"
#include "trainers/lib/ranks/keep_alive.h"
#include "trainers/lib/ranks/launch.h"
#include "trainers/lib/ranks/run_device.h"
#include "trainers/lib/run/run_tiers.h"
#include "trainers/lib/run/session.h"

namespace colossus {
namespace {

// A tokenizer, or why there is none.
using MaybeTokenizer = absl::StatusOr<std::unique_ptr<Tokenizer>>;

// As data.h says; without one, bytes if the vocabulary is the one that only bytes have, or for a
// checkpoint, as the run that made it.
MaybeTokenizer TokenizerOf(FileSystem& files, const Options& options, const ModelSource& model) {
  const int64_t vocabulary = model.config().vocabulary;
  MaybeTokenizer tokenizer = FindTokenizer(files, options, model.config().eos_ids);
  if (absl::IsNotFound(tokenizer.status())) {
    auto bytes = std::make_unique<BytesTokenizer>();
    if (vocabulary != bytes->vocabulary_size() && model.checkpoint() == nullptr) return tokenizer;
    tokenizer = std::move(bytes);
  }
  if (tokenizer.ok() && (*tokenizer)->vocabulary_size() > vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer has ",
                                                   (*tokenizer)->vocabulary_size(),
                                                   " ids, the model's vocabulary ", vocabulary));
  }
  return tokenizer;
}

absl::StatusOr<std::vector<int32_t>> CheckedIds(const std::vector<int64_t>& ids,
                                                int64_t vocabulary) {
  for (int64_t id : ids) {
    if (id < vocabulary) continue;  // the schema refuses negative ones
    return absl::InvalidArgumentError(absl::StrCat(
        "generate.prompt_ids: ", id, " is outside of the vocabulary, 0 to ", vocabulary - 1));
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

// What an empty text starts with: what the tokenizer puts before any, or the end of another one.
absl::StatusOr<std::vector<int32_t>> StartIds(const ModelConfig& model,
                                              const Tokenizer* tokenizer) {
  if (tokenizer != nullptr && !tokenizer->frame().before.empty()) return tokenizer->frame().before;
  if (tokenizer != nullptr) return std::vector<int32_t>{tokenizer->end_id()};
  if (model.bos_id) return std::vector<int32_t>{static_cast<int32_t>(*model.bos_id)};
  if (!model.eos_ids.empty()) return std::vector<int32_t>{static_cast<int32_t>(model.eos_ids[0])};
  return absl::InvalidArgumentError(
      "the model names no id that starts or ends a text: give --prompt_ids=5,6,7");
}

absl::StatusOr<std::vector<int32_t>> ReadPrompt(const Options::Generate& options,
                                                const ModelConfig& model,
                                                const MaybeTokenizer& tokenizer) {
  if (!options.prompt_ids.empty()) return CheckedIds(options.prompt_ids, model.vocabulary);
  if (options.prompt.empty()) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> start,
                     StartIds(model, tokenizer.ok() ? tokenizer->get() : nullptr));
    return CheckedIds({start.begin(), start.end()}, model.vocabulary);
  }
  if (tokenizer.ok()) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> text, (*tokenizer)->Encode(options.prompt));
    std::vector<int32_t> ids = (*tokenizer)->frame().before;
    ids.insert(ids.end(), text.begin(), text.end());
    return ids;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--prompt cannot become ids: ", tokenizer.status().message(), "; give --prompt_ids=5,6,7"));
}

absl::Status CheckLength(int64_t prompt, int64_t added, const ModelConfig& model) {
  const int64_t left = model.max_positions - prompt;
  if (left < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has ", prompt, " ids and the model ", model.max_positions,
                     " positions; a prompt may have at most ", model.max_positions - 1));
  }
  if (added <= left) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("generate.max_new_tokens is ", added, ", but behind a prompt of ", prompt,
                   " ids the model's ", model.max_positions, " positions leave ", left,
                   "; use --max_new_tokens=", left, " or less"));
}

// Where nobody said how many, no more than there is room for.
int64_t MostNewTokens(const Config& config, int64_t prompt, const ModelConfig& model) {
  const int64_t wanted = config.options.generate.max_new_tokens;
  if (config.IsGiven("generate.max_new_tokens")) return wanted;
  return std::min(wanted, std::max<int64_t>(1, model.max_positions - prompt));
}

std::set<int32_t> EndIds(const ModelConfig& model, const Tokenizer* tokenizer) {
  std::set<int32_t> ids(model.eos_ids.begin(), model.eos_ids.end());
  if (ids.empty() && tokenizer != nullptr) ids.insert(tokenizer->end_id());
  return ids;
}

SamplingOptions Sampling(const Options::Generate& options) {
  return {options.temperature, options.top_k, options.top_p};
}

// Prints ids as they come.
class Printer {
 public:
  Printer(const PrintFunction& print, const Tokenizer* tokenizer)
      : print_(print), tokenizer_(tokenizer) {}

  void Add(int32_t id) {
    if (tokenizer_ == nullptr) {
      Print(absl::StrCat(first_ ? "" : ",", id));
    } else {
      Print(stream_.Push(tokenizer_->Decode({id}, SpecialTokens::kSkip)));
    }
    first_ = false;
  }
  void Finish() { Print(stream_.Finish()); }

 private:
  void Print(const std::string& text) {
    if (print_ && !text.empty()) print_(text);
  }

  const PrintFunction& print_;
  const Tokenizer* const tokenizer_;
  Utf8Stream stream_;
  bool first_ = true;
};

// What a rank can be refused for.
struct Opened {
  RankDevice own;
  std::unique_ptr<Decoder> decoder;
};

absl::Status Open(const Options& options, const ModelConfig& model, int64_t capacity,
                  const Plan& plan, RankGroup group, Opened* opened) {
  ASSIGN_OR_RETURN(const MeshPlace place, MeshPlace::Of(plan, model, group.rank()));
  ASSIGN_OR_RETURN(opened->own, MakeRankDevice(options, place, group));
  Device& device = *opened->own.device;
  DecoderOptions decoder;
  decoder.capacity = capacity;
  decoder.compute = ParsePrecision(options.precision.compute);
  CompileOptions compile;
  compile.dump_graphs = options.run.dump_graphs;
  RETURN_IF_ERROR(AddTiers(options, group.size(), device, &compile.program).status());
  absl::StatusOr<std::unique_ptr<Decoder>> made =
      Decoder::Make(model, decoder, plan, compile, device, group.rank());
  if (!made.ok()) return NameTiers(made.status(), options, compile.program);
  opened->decoder = *std::move(made);
  return opened->decoder->Allocate();
}

// Every rank draws the same ids; the first one shows them.
absl::StatusOr<std::vector<int32_t>> GenerateOnRank(JobContext& context, const ModelSource& model,
                                                    const GenerateRequest& request,
                                                    const Plan& plan, RankGroup group,
                                                    const std::function<void(int32_t)>& each) {
  // Reading and compiling have no places to give signs of life.
  std::optional<KeepAlive> alive(group);
  const int64_t capacity = static_cast<int64_t>(request.prompt.size()) + request.max_new_tokens;
  Opened opened;
  RETURN_IF_ERROR(group.Agree(
      Open(context.config.options, model.config(), capacity, plan, group, &opened), "open"));
  context.begun = true;
  Decoder& decoder = *opened.decoder;
  RETURN_IF_ERROR(decoder.SetParameters(
      [&](const StateInfo& info, DType dtype) { return model.Read(info, dtype); }));
  alive.reset();
  return GenerateIds(decoder, request, group.first() ? each : nullptr);
}

// Ranks that do not share the model out would all compute the same.
absl::StatusOr<Plan> GenerationPlan(const Options& options, const RunLayout& layout,
                                    const ModelConfig& model) {
  for (const MeshAxis& axis : layout.mesh) {
    if (axis.name == "tensor" || axis.size == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("plan.mesh has ", axis.name, "=", axis.size,
                     ", but a single text is generated, which only the axis tensor shares out; use "
                     "--mesh=tensor=",
                     layout.ranks));
  }
  if (options.plan.norms == "sharded") {
    return absl::InvalidArgumentError(
        "plan.norms = sharded splits the positions of a row, and a text is generated one position "
        "at a time; use --norms=auto or replicated");
  }
  Plan plan = PlanOf(layout, options.plan);
  plan.precision.compute = plan.precision.gradient = ParsePrecision(options.precision.compute);
  RETURN_IF_ERROR(Validate(plan, model));
  return plan;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> GenerateIds(Decoder& decoder, const GenerateRequest& request,
                                                 const std::function<void(int32_t)>& each) {
  std::vector<int32_t> ids, next = request.prompt;
  while (static_cast<int64_t>(ids.size()) < request.max_new_tokens) {
    ASSIGN_OR_RETURN(const HostTensor logits, decoder.Append({next}));
    std::vector<double> values = logits.ToDoubles();
    if (request.choices > 0) values.resize(request.choices);
    const int64_t position = static_cast<int64_t>(request.prompt.size() + ids.size());
    ASSIGN_OR_RETURN(const int32_t id, SampleId(values, request.sampling,
                                                {.seed = request.seed, .position = position}));
    ids.push_back(id);
    if (each) each(id);
    if (request.end_ids.count(id) > 0) break;
    next = {id};
  }
  return ids;
}

absl::StatusOr<Generation> Generate(FileSystem& files, JobContext& context,
                                    const PrintFunction& print) {
  const Options& options = context.config.options;
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(options));
  ASSIGN_OR_RETURN(
      const ModelSource model,
      ModelSource::Open(files, options.model.directory, options.model.require_tied, context.log));
  context.log.Info(absl::StrCat("generates with ", model.what()));
  ASSIGN_OR_RETURN(const Plan plan, GenerationPlan(options, layout, model.config()));
  const MaybeTokenizer found = TokenizerOf(files, options, model);
  // Ids can do without a tokenizer, but not without one that was asked for.
  if (!found.ok() && !options.data.tokenizer.empty()) return found.status();
  const Tokenizer* tokenizer = found.ok() ? found->get() : nullptr;
  GenerateRequest request;
  ASSIGN_OR_RETURN(request.prompt, ReadPrompt(options.generate, model.config(), found));
  if (!found.ok()) context.log.Info(absl::StrCat("ids only: ", found.status().message()));
  request.sampling = Sampling(options.generate);
  request.seed = static_cast<uint64_t>(options.run.seed);
  request.end_ids = EndIds(model.config(), tokenizer);
  // A vocabulary may be padded; ids that are no text never come.
  if (tokenizer != nullptr) request.choices = tokenizer->vocabulary_size();
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  request.max_new_tokens = MostNewTokens(context.config, prompt, model.config());
  RETURN_IF_ERROR(CheckLength(prompt, request.max_new_tokens, model.config()));

  Generation result;
  Printer printer(print, tokenizer);
  const absl::StatusOr<int> status =
      RunOnRanks(context, layout, [&](JobContext& rank, RankGroup group) -> absl::StatusOr<int> {
        ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                         GenerateOnRank(rank, model, request, plan, group,
                                        [&](int32_t id) { printer.Add(id); }));
        if (group.first()) result.ids = std::move(ids);
        return 0;
      });
  RETURN_IF_ERROR(status.status());
  printer.Finish();
  if (tokenizer != nullptr) result.text = tokenizer->Decode(result.ids, SpecialTokens::kSkip);
  return result;
}

std::string GenerationJson(const Generation& generation) {
  nlohmann::ordered_json json = {{"ids", generation.ids}, {"text", nullptr}};
  if (generation.text) json["text"] = *generation.text;
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

absl::StatusOr<int> RunGenerate(JobContext& context) {
  const bool json = context.config.options.run.json;
  const PrintFunction print = [](absl::string_view part) {
    std::fwrite(part.data(), 1, part.size(), stdout);
    std::fflush(stdout);
  };
  ASSIGN_OR_RETURN(const Generation result,
                   Generate(RealFileSystem(), context, json ? PrintFunction() : print));
  if (!context.first) return 0;
  std::printf("%s\n", json ? GenerationJson(result).c_str() : "");
  return 0;
}

}  // namespace colossus
