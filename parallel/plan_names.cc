// Names of what a plan chooses, as plan files and flags write them.
#include <cstddef>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "parallel/plan.h"

namespace colossus {
namespace {

template <typename T>
struct Choice {
  T value;
  absl::string_view name;
};

constexpr Choice<Recomputation> kRecomputations[] = {
    {Recomputation::kNone, "none"},           {Recomputation::kCheap, "cheap"},
    {Recomputation::kSelective, "selective"}, {Recomputation::kBlock, "block"},
    {Recomputation::kOptimal, "optimal"},     {Recomputation::kAuto, "auto"}};
constexpr Choice<SequenceParallelism> kSequences[] = {
    {SequenceParallelism::kRing, "ring"}, {SequenceParallelism::kAllToAll, "all_to_all"}};
constexpr Choice<TensorLayout> kTensorLayouts[] = {{TensorLayout::k1d, "1d"},
                                                   {TensorLayout::k2d, "2d"}};
constexpr Choice<NormLayout> kNormLayouts[] = {{NormLayout::kAuto, "auto"},
                                               {NormLayout::kSharded, "sharded"},
                                               {NormLayout::kReplicated, "replicated"}};
constexpr Choice<AccumulationOrder> kOrders[] = {{AccumulationOrder::kAuto, "auto"},
                                                 {AccumulationOrder::kHorizontal, "horizontal"},
                                                 {AccumulationOrder::kVertical, "vertical"}};
constexpr Choice<UpdateTime> kUpdateTimes[] = {{UpdateTime::kWhole, "whole"},
                                               {UpdateTime::kLayerwise, "layerwise"}};

template <typename T, size_t n>
absl::string_view NameIn(const Choice<T> (&choices)[n], T value) {
  for (const Choice<T>& choice : choices) {
    if (choice.value == value) return choice.name;
  }
  CHECK(false) << "a choice without a name: " << static_cast<int>(value);
  return "";
}

template <typename T, size_t n>
bool FindIn(const Choice<T> (&choices)[n], absl::string_view name, T* value) {
  for (const Choice<T>& choice : choices) {
    if (choice.name != name) continue;
    *value = choice.value;
    return true;
  }
  return false;
}

}  // namespace

absl::string_view Name(Recomputation value) { return NameIn(kRecomputations, value); }
absl::string_view Name(SequenceParallelism value) { return NameIn(kSequences, value); }
absl::string_view Name(TensorLayout value) { return NameIn(kTensorLayouts, value); }
absl::string_view Name(NormLayout value) { return NameIn(kNormLayouts, value); }
absl::string_view Name(AccumulationOrder value) { return NameIn(kOrders, value); }
absl::string_view Name(UpdateTime value) { return NameIn(kUpdateTimes, value); }

bool ParseName(absl::string_view name, Recomputation* value) {
  return FindIn(kRecomputations, name, value);
}
bool ParseName(absl::string_view name, SequenceParallelism* value) {
  return FindIn(kSequences, name, value);
}
bool ParseName(absl::string_view name, TensorLayout* value) {
  return FindIn(kTensorLayouts, name, value);
}
bool ParseName(absl::string_view name, NormLayout* value) {
  return FindIn(kNormLayouts, name, value);
}
bool ParseName(absl::string_view name, AccumulationOrder* value) {
  return FindIn(kOrders, name, value);
}
bool ParseName(absl::string_view name, UpdateTime* value) {
  return FindIn(kUpdateTimes, name, value);
}

}  // namespace colossus
