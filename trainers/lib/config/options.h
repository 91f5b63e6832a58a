// Everything a trainer can be told, as one plain struct: one member struct a section, one member a
// key. trainers/lib/config/schema.h describes each member (range, text, flag); the initialisers
// here are the defaults, so no default stands anywhere else.
//
// Thread-safe: a value type. A number of 0 or an empty string often means "not given"; the table in
// schema_table.cc says what follows then.
//
//   if (config.options.batch.micro_batch > rows) ...
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_OPTIONS_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace colossus {

// Ranks of a run, at most.
inline constexpr int64_t kMostRanks = 4096;

struct Options {
  struct Model {
    std::string preset;
    std::string directory;
    std::string initialize = "weights";
    bool require_tied = false;
    double dropout = -1;  // below 0: as the model's config says
    std::string freeze;   // patterns of names
  } model;

  struct Data {
    std::string file;
    std::string format = "auto";
    std::string tokenizer;
    int64_t sequence_length = 0;  // tokens a row
    std::string order = "shuffled";
    std::string packing = "join";
    std::string tail = "keep";
    std::string jsonl_mode = "strict";
    std::string validation_file;
    double validation_share = 0;
  } data;

  struct Batch {
    int64_t micro_batch = 0;   // rows
    int64_t global_batch = 0;  // rows
    int64_t micro_batches = 0;
  } batch;

  struct Precision {
    std::string compute = "bf16";
    std::string gradient = "bf16";
    double loss_scale = 65536;
    double loss_scale_factor = 2;
    int64_t loss_scale_growth_interval = 2000;  // updates
    int64_t loss_scale_hysteresis = 1;          // overflows
    double loss_scale_minimum = 1;
  } precision;

  struct Optimizer {
    std::string name = "adamw";
    double learning_rate = 3e-4;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double momentum = 0.9;
    double weight_decay = 0.1;
    double clip_norm = 1.0;
    std::string state = "fp32";
  } optimizer;

  struct Schedule {
    std::string kind = "cosine";
    int64_t warmup_steps = 0;  // updates
    double minimum_ratio = 0;  // of the peak learning rate
  } schedule;

  struct Plan {
    std::string mesh;
    std::string schedule = "1f1b";
    int64_t chunks = 0;
    std::string borders;
    int64_t zero = 0;
    int64_t chunk_elements = int64_t{1} << 26;
    std::string overrides;
    std::string sequence = "ring";
    std::string tensor_layout = "1d";
    std::string norms = "auto";
    std::string recompute = "none";
    int64_t recompute_budget = 0;  // bytes
    std::string accumulation_order = "auto";
    std::string update = "whole";
    std::string placement = "auto";
  } plan;

  struct Run {
    int64_t steps = 0;
    int64_t epochs = 0;
    int64_t seed = 0;
    int64_t ranks = 0;
    int64_t threads = 0;
    int64_t stall_seconds = 30;
    std::string out;
    std::string metrics;
    int64_t validate_every = 0;  // updates
    int64_t save_every = 0;      // updates
    int64_t keep = 2;
    std::string resume = "auto";
    int64_t skip_nonfinite = 0;  // updates in a row
    std::string device = "host";
    int64_t device_memory = 0;  // bytes
    int64_t host_memory = 0;    // bytes, of all ranks of the machine
    std::string offload_dir;
    int64_t disk_memory = 0;  // bytes
    double link_gbps = 0;     // 1e9 bytes a second, each way
    double device_tflops = 0;  // 1e12 operations a second
    double device_gbps = 0;    // 1e9 bytes a second
    double host_gbps = 0;      // 1e9 bytes a second
    std::string dump_graphs;
    bool profile = false;
    std::string profile_file;
    bool json = false;
    bool largest = false;
  } run;

  struct Generate {
    std::string prompt;
    std::vector<int64_t> prompt_ids;
    int64_t max_new_tokens = 64;
    double temperature = 1;
    int64_t top_k = 0;
    double top_p = 1;
  } generate;

  struct Parity {
    std::string golden;
    std::string model_config;
    double tolerance = 1;
  } parity;
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_OPTIONS_H_
