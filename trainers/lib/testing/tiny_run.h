// TinyRun: training runs of a very small model in a folder of the test, as the trainer does them.
//
// Thread-safety: one thread. Owns nothing but its folder, which it empties when made.
//
//   TinyRun run("resume");                         // a folder below the test's temporary one
//   run.WriteText(/*rows=*/10);                    // at 8 tokens a row
//   TinyResult first = run.Train({"--steps=7", "--out=" + run.Path("out")});
//   EXPECT_OK(first.status);
#ifndef COLOSSUS_TRAINERS_LIB_TESTING_TINY_RUN_H_
#define COLOSSUS_TRAINERS_LIB_TESTING_TINY_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "nlohmann/json.hpp"
#include "tensor/exec/disk/file_disk_tier.h"
#include "tensor/host_tensor.h"
#include "trainers/lib/ranks/rank_group.h"
#include "trainers/lib/run/run_output.h"
#include "trainers/lib/run/session.h"
#include "trainers/lib/run/train.h"

namespace colossus {

inline constexpr int64_t kTinyRowTokens = 8;

using Flags = std::vector<std::string>;

// The flags with more behind them.
Flags With(Flags flags, const Flags& more);

struct TinyResult {
  absl::Status status;  // of reading the configuration, or of the run
  int exit_code = -1;   // what the run returned, if status is ok
  std::string log;
  std::vector<nlohmann::json> metrics;  // of the metrics file, if the run had one
  // After the last update that was run; of many ranks, what rank 0 has.
  std::map<std::string, HostTensor> states;
};

class TinyRun {
 public:
  explicit TinyRun(const std::string& name);

  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }

  // Writes the text that runs read by default: letters and spaces that make exactly `rows` full
  // rows of kTinyRowTokens.
  void WriteText(int64_t rows);
  // Writes a config.json into the folder `model`, the default model; keys given replace others.
  void WriteModel(const nlohmann::json& changes = nlohmann::json::object());

  // The flags every run gets unless they are among `flags`: model, data, sequence length, fp32,
  // one thread.
  std::vector<std::string> WithDefaults(std::vector<std::string> flags) const;

  // How runs open their files for what goes to disk: for injected faults.
  void set_offload(FileDiskTierOptions offload) { offload_ = std::move(offload); }

  // Runs the trainer in this process, on many ranks with the same hooks for each.
  TinyResult Train(const std::vector<std::string>& flags, FileSystem& files = RealFileSystem(),
                   TrainHooks hooks = {}) const;

  // The same with a file system and hooks of its own for each rank; `setup` is called by its
  // thread.
  struct RankSetup {
    FileSystem* files = &RealFileSystem();
    TrainHooks hooks;
  };
  TinyResult TrainRanks(const std::vector<std::string>& flags,
                        const std::function<RankSetup(int rank)>& setup) const;

  // Opens output and session on all ranks of a run, takes its memory, and does `work` on each.
  absl::Status OnRanks(const Flags& flags,
                       const std::function<absl::Status(RunOutput& output, Session& session,
                                                        RankGroup group)>& work) const;

 private:
  std::string folder_;
  FileDiskTierOptions offload_;
};

// Of the updates in the metrics file.
std::vector<double> Losses(const TinyResult& result);
// "Equal" of DESIGN.md, for losses or norms: within 1e-5 of each other, relative.
void ExpectEqualLosses(const std::vector<double>& a, const std::vector<double>& b);

// The names in the folder of checkpoints of --out=`out`, but the tokenizer's.
std::vector<std::string> Checkpoints(const std::string& out);

// The numbers that must not depend on where a run was interrupted.
std::vector<std::string> ComparableLines(const std::vector<nlohmann::json>& metrics);

// The tensor names of `a` and `b` and all bytes are equal; else says what differs.
std::string StateDifference(const std::map<std::string, HostTensor>& a,
                            const std::map<std::string, HostTensor>& b);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_TESTING_TINY_RUN_H_
