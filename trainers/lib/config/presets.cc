#include "trainers/lib/config/presets.h"

#include <vector>

#include "absl/strings/string_view.h"

namespace colossus {
namespace {

// A micro-batch of 1 divides every global batch, so giving one of the two is always enough.
constexpr PresetValue kPresets[] = {
    {"gpt2-tiny", "batch.global_batch", "16"},
    {"gpt2-tiny", "optimizer.learning_rate", "1e-3"},
    {"gpt2-30m", "batch.micro_batch", "1"},
    {"gpt2-30m", "batch.global_batch", "8"},
    {"gpt2-30m", "optimizer.learning_rate", "6e-4"},
    {"gpt2-124m", "batch.micro_batch", "1"},
    {"gpt2-124m", "batch.global_batch", "8"},
    {"gpt2-124m", "optimizer.learning_rate", "6e-4"},
    {"gpt2-355m", "batch.micro_batch", "1"},
    {"gpt2-355m", "batch.global_batch", "8"},
    {"gpt2-1.5b", "batch.micro_batch", "1"},
    {"gpt2-1.5b", "batch.global_batch", "8"},
    {"gpt2-1.5b", "optimizer.learning_rate", "2e-4"},
    {"gpt2-1.5b", "plan.recompute", "block"},
    {"gpt-18b", "batch.micro_batch", "1"},
    {"gpt-18b", "batch.global_batch", "8"},
    {"gpt-18b", "optimizer.learning_rate", "1e-4"},
    {"gpt-18b", "plan.recompute", "block"},
    {"llama-tiny", "batch.global_batch", "16"},
    {"llama-tiny", "optimizer.learning_rate", "1e-3"},
    {"llama-100m", "batch.micro_batch", "1"},
    {"llama-100m", "batch.global_batch", "8"},
    {"llama-100m", "optimizer.learning_rate", "6e-4"},
};

constexpr PresetValue kTrainers[] = {
    {"evaluate", "precision.compute", "fp32"},
    {"generate", "precision.compute", "fp32"},
    {"parity", "precision.compute", "fp32"},
    {"plan", "run.device", "null"},
};

template <size_t n>
std::vector<PresetValue> OwnedBy(const PresetValue (&values)[n], absl::string_view owner) {
  std::vector<PresetValue> result;
  for (const PresetValue& value : values) {
    if (owner == value.owner) result.push_back(value);
  }
  return result;
}

}  // namespace

std::vector<PresetValue> PresetValues(absl::string_view preset) {
  return OwnedBy(kPresets, preset);
}

std::vector<PresetValue> TrainerDefaults(Trainer trainer) {
  return OwnedBy(kTrainers, TrainerName(trainer));
}

}  // namespace colossus
