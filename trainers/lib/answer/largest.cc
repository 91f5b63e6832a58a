#include "trainers/lib/answer/largest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace colossus {
namespace {

constexpr int64_t kMostHeads = 160;  // 8e11 parameters
constexpr int64_t kPositions = 1024;

}  // namespace

absl::StatusOr<ModelConfig> GptOfShape(const GptShape& shape, int64_t positions) {
  const nlohmann::json json = {{"model_type", "gpt2"},     {"architectures", {"GPT2LMHeadModel"}},
                               {"n_layer", shape.layers},  {"n_head", shape.heads},
                               {"n_embd", shape.hidden()}, {"vocab_size", 50257},
                               {"n_positions", positions}, {"attn_pdrop", 0.0},
                               {"embd_pdrop", 0.0},        {"resid_pdrop", 0.0},
                               {"bos_token_id", 50256},    {"eos_token_id", 50256}};
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(json, "largest GPT"));
  ASSIGN_OR_RETURN(config.raw, ToHuggingFaceConfig(config));
  return config;
}

absl::StatusOr<int64_t> LargestFitting(int64_t low, int64_t high,
                                       absl::FunctionRef<absl::StatusOr<bool>(int64_t)> fits) {
  // Doubling first: what is too large also takes longest to plan.
  int64_t good = low - 1, bad = high + 1;
  for (int64_t step = 1; good + step < bad; step *= 2) {
    const int64_t next = good + step;
    ASSIGN_OR_RETURN(const bool fit, fits(next));
    if (!fit) {
      bad = next;
      break;
    }
    good = next;
  }
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    ASSIGN_OR_RETURN(const bool fit, fits(middle));
    (fit ? good : bad) = middle;
  }
  return good;
}

absl::StatusOr<Largest> FindLargest(const Options& options, Log& log) {
  const int64_t positions = std::max(kPositions, options.data.sequence_length);
  Largest best;
  const auto fits = [&](const GptShape& shape) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const ModelConfig model, GptOfShape(shape, positions));
    ASSIGN_OR_RETURN(DryRun run, PlanDryRun(options, model));
    log.Info(absl::StrCat(shape.layers, " layers of width ", shape.hidden(), ": ",
                          run.fits ? "fits" : "does not fit"));
    const bool fit = run.fits;
    if (fit || best.shape.layers == 0) best = {shape, std::move(run)};
    return fit;
  };
  ASSIGN_OR_RETURN(const int64_t n, LargestFitting(1, kMostHeads, [&](int64_t heads) {
                     return fits({heads, heads});
                   }));
  if (n == 0) return best;
  RETURN_IF_ERROR(LargestFitting(n + 1, 2 * n, [&](int64_t layers) {
                    return fits({layers, n});
                  }).status());
  return best;
}

}  // namespace colossus
