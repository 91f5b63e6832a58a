// RankGroup: how the ranks of a job decide something together, on the host.
//
// Purpose: what is not computed in the graph but must be the same on every rank: whether a step of
// the job succeeded everywhere, a number summed over ranks, a text that one rank knows. A job of
// one rank needs no communicator, and every call is then free.
// Collective: all ranks make the same calls in the same order; `site` stands in reports.
// Thread-safety: one thread a rank. Ownership: the communicator must outlive it.
//
//   RankGroup group(world);                            // or RankGroup(): one rank
//   RETURN_IF_ERROR(group.Agree(Write(part), "save/write"));   // all ranks go on, or none
//   ASSIGN_OR_RETURN(int64_t tokens, group.Sum(own, "tokens"));
#ifndef COLOSSUS_TRAINERS_LIB_RANKS_RANK_GROUP_H_
#define COLOSSUS_TRAINERS_LIB_RANKS_RANK_GROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/communicator.h"

namespace colossus {

class RankGroup {
 public:
  RankGroup() = default;  // one rank
  explicit RankGroup(Communicator* world) : world_(world) {}

  int rank() const { return world_ == nullptr ? 0 : world_->rank(); }
  int size() const { return world_ == nullptr ? 1 : world_->size(); }
  bool first() const { return rank() == 0; }
  Communicator* world() const { return world_; }  // null: one rank

  // What this rank does from here on, for reports of failures.
  void At(int64_t step, absl::string_view phase) const {
    if (world_ != nullptr) world_->SetWhere(step, phase);
  }

  // A sign of life. Safe from any thread.
  void Beat() const {
    if (world_ != nullptr) world_->Beat();
  }

  // Whether this rank waits for others in a collective. Safe from any thread.
  bool waits() const { return world_ != nullptr && world_->waits(); }

  // Ok if every rank comes with ok; else the same error on all ranks: that of the lowest rank that
  // failed, which is named ("rank 1: ...") unless all ranks failed alike.
  absl::Status Agree(const absl::Status& mine, absl::string_view site);
  // For what rank 0 alone has done: its error, as it is, on all ranks.
  absl::Status AgreeOnFirst(const absl::Status& of_first, absl::string_view site);
  // The same as Agree where the two kinds of error must be told apart: `verdict` is what the ranks
  // came with, the result is whether they could tell each other.
  absl::Status Judge(const absl::Status& mine, absl::string_view site, absl::Status* verdict);

  absl::StatusOr<int64_t> Sum(int64_t mine, absl::string_view site);
  absl::StatusOr<int64_t> Max(int64_t mine, absl::string_view site);
  // Each number's largest, in place; all ranks give as many.
  absl::Status MaxOfEach(std::vector<int64_t>& numbers, absl::string_view site);
  // The texts of all ranks, in rank order, on all ranks.
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, absl::string_view site);
  // The text of rank 0; what other ranks give does not matter.
  absl::StatusOr<std::string> FromFirst(absl::string_view mine, absl::string_view site);

 private:
  absl::StatusOr<int64_t> Reduce(int64_t mine, absl::string_view site, Reduction reduction);

  Communicator* world_ = nullptr;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RANKS_RANK_GROUP_H_
