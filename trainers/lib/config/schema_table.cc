// The rows of the table; the code that reads them is in schema.cc.
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/config/schema.h"

namespace colossus {
namespace {

// Name and member are one word, so they cannot differ.
#define KEY(path) .name = #path, .field = [](Options& o) -> Field { return &o.path; }

constexpr uint32_t kPretrain = static_cast<uint32_t>(Trainer::kPretrain);
constexpr uint32_t kEvaluate = static_cast<uint32_t>(Trainer::kEvaluate);
constexpr uint32_t kGenerate = static_cast<uint32_t>(Trainer::kGenerate);
constexpr uint32_t kParity = static_cast<uint32_t>(Trainer::kParity);
constexpr uint32_t kConvert = static_cast<uint32_t>(Trainer::kConvert);
constexpr uint32_t kTokenize = static_cast<uint32_t>(Trainer::kTokenize);
constexpr uint32_t kPlan = static_cast<uint32_t>(Trainer::kPlan);
constexpr uint32_t kReadsData = kPretrain | kEvaluate;
constexpr uint32_t kTrains = kPretrain | kPlan;
constexpr uint32_t kRuns = kPretrain | kEvaluate | kGenerate | kParity;
constexpr uint32_t kHasRanks = kRuns | kPlan;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMost = 1e15;  // for counts: far from overflow after a few products
constexpr Range kPositive = {0, kInfinity, true};
constexpr Range kNotNegative = {0, std::numeric_limits<double>::max()};
constexpr Range kCount = {0, kMost};
constexpr Range kAtLeastOne = {1, kMost};
constexpr Range kShare = {0, 1};

constexpr char kReadsText[] = "data.file!=synthetic";
constexpr char kReadsFile[] = "data.file!= & data.file!=synthetic";
constexpr char kHasTiers[] = "run.device=capped|cuda|null";
constexpr char kIsFp16[] = "precision.compute=fp16";

constexpr Key kKeys[] = {
    // [model]
    {KEY(model.preset), .flag = "preset", .trainers = kTrains,
     .choices = "gpt2-tiny|gpt2-30m|gpt2-124m|gpt2-355m|gpt2-1.5b|gpt-18b|llama-tiny|llama-100m",
     .text = "A model by name, with random weights. It also sets the keys listed under Presets.",
     .changes = "shape of the model"},
    {KEY(model.directory), .flag = "model", .trainers = kRuns | kConvert | kPlan,
     .text = "A Hugging Face directory (config.json, safetensors) or a checkpoint of this system.",
     .changes = "the model"},
    {KEY(model.initialize), .flag = "initialize", .trainers = kPretrain,
     .choices = "weights|random", .only_with = "model.directory!=",
     .text = "Where the parameters of model.directory come from: its weights, or random numbers "
             "(then only config.json is read).",
     .changes = "first loss"},
    {KEY(model.require_tied), .flag = "require_tied", .trainers = kRuns | kConvert,
     .only_with = "model.directory!=",
     .text = "Refuse weights whose embedding and output head differ although the config ties them, "
             "in place of loading them untied.",
     .changes = "refusal of such weights"},
    {KEY(model.dropout), .flag = "dropout", .trainers = kTrains, .range = {-1, 1},
     .text = "Probability of every dropout of the model, below 1; -1 keeps what its config says.",
     .changes = "loss"},
    {KEY(model.freeze), .flag = "freeze", .trainers = kTrains, .only_with = "run.largest=false",
     .text = "Parameters that are not trained, as names with commas between them, in which * is "
             "any text and ? one character; with ! before it, those that are trained after "
             "all: *,!*.wte.weight leaves the embedding. They keep their values, have neither "
             "gradients nor optimizer states, and in 16-bit runs are 16-bit numbers.",
     .changes = "loss"},

    // [data]
    {KEY(data.file), .flag = "data", .trainers = kReadsData | kTokenize,
     .text = "File or folder to read, or `synthetic` for generated rows. Tokenize reads JSON lines "
             "from standard input without it.",
     .changes = "loss"},
    {KEY(data.format), .flag = "data_format", .trainers = kReadsData | kTokenize,
     .choices = "auto|text|fortune|jsonl|tokens", .only_with = kReadsFile,
     .text =
         "How a file becomes documents: the whole file (text), parts between lines of a single "
         "% (fortune), the field `text` of each line (jsonl), or a token file. auto decides per "
         "file: .jsonl, .tokens, an index NAME.dat beside it (fortune), else text.",
     .changes = "tokens"},
    {KEY(data.tokenizer), .flag = "tokenizer", .trainers = kReadsData | kGenerate | kTokenize,
     .only_with = kReadsText,
     .text = "Text to ids: bytes (id = byte value, end = 256, vocabulary 257), or a tokenizer.json "
             "of byte-level BPE or its folder. Empty: that of model.directory, else bytes.",
     .changes = "tokens"},
    {KEY(data.sequence_length), .flag = "sequence_length", .trainers = kReadsData | kPlan,
     .range = kCount, .text = "Tokens a row. 0: the positions of the model, at most 1024.",
     .changes = "tokens"},
    {KEY(data.order), .flag = "data_order", .trainers = kPretrain, .choices = "shuffled|sequential",
     .only_with = kReadsText,
     .text = "Order of rows in an epoch. shuffled is a function of run.seed and the epoch.",
     .changes = "loss"},
    {KEY(data.packing), .flag = "packing", .trainers = kReadsData | kPlan,
     .choices = "join|borders",
     .only_with = kReadsText,
     .text = "join: documents follow each other after an end token and see each other. borders: "
             "positions restart and attention stops at each document.",
     .changes = "loss, tokens"},
    {KEY(data.tail), .flag = "tail", .trainers = kPretrain, .choices = "keep|drop",
     .only_with = kReadsText,
     .text = "Whether the rows of an epoch that do not fill its last update make a short update.",
     .changes = "updates an epoch"},
    {KEY(data.jsonl_mode), .flag = "jsonl_mode", .trainers = kReadsData | kTokenize,
     .choices = "strict|lenient",
     .only_with = "data.file!= & data.file!=synthetic & data.format=auto|jsonl",
     .text = "What a broken line or one without `text` does: strict refuses the file, lenient "
             "counts and skips the line.",
     .changes = "tokens"},
    {KEY(data.validation_file), .flag = "validation_data", .trainers = kPretrain,
     .only_with = kReadsText,
     .text = "File or folder for the validation loss, read like data.file.",
     .changes = "validation_loss"},
    {KEY(data.validation_share), .flag = "validation_share", .trainers = kPretrain,
     .range = {0, 0.5}, .only_with = "data.validation_file= & data.file!=synthetic",
     .text = "Share of the documents of data.file held out for the validation loss, the same for "
             "every seed. Files with too few documents give the last share of their tokens.",
     .changes = "validation_loss, tokens an epoch"},

    // [batch]
    {KEY(batch.micro_batch), .flag = "micro_batch", .trainers = kReadsData | kPlan, .range = kCount,
     .text = "Rows computed at once. 0: all rows of the update, or 8 when both are 0.",
     .changes = "device_peak_bytes"},
    {KEY(batch.global_batch), .flag = "global_batch", .trainers = kTrains, .range = kCount,
     .text = "Rows an update; micro_batch must divide it. 0: one micro-batch.",
     .changes = "tokens an update"},
    {KEY(batch.micro_batches), .flag = "micro_batches", .trainers = kTrains, .range = kCount,
     .only_with = "batch.global_batch=0",
     .text = "Micro-batches an update, in place of batch.global_batch. 0: that decides.",
     .changes = "tokens an update"},

    // [precision]
    {KEY(precision.compute), .flag = "precision", .trainers = kRuns | kPlan,
     .choices = "bf16|fp32|fp16",
     .text = "Arithmetic of products and activations. Evaluate, generate and parity start from "
             "fp32. fp16 is for correctness: on a CPU it is slow.",
     .changes = "loss"},
    {KEY(precision.gradient), .flag = "gradient_precision", .trainers = kTrains,
     .choices = "bf16|fp32", .only_with = "precision.compute=bf16",
     .text = "What the finished gradient of an update is rounded to. Sums are fp32, and in fp16 "
             "runs finished gradients too.",
     .changes = "grad_norm"},
    {KEY(precision.loss_scale), .flag = "loss_scale", .trainers = kPretrain | kParity,
     .range = kPositive, .only_with = kIsFp16,
     .text = "Factor on the loss that keeps gradients in the range of fp16, a power of two. "
             "Pretrain starts from it and adapts it; parity keeps it.",
     .changes = "loss_scale"},
    {KEY(precision.loss_scale_factor), .flag = "loss_scale_factor", .trainers = kPretrain,
     .range = {2, 65536}, .only_with = kIsFp16,
     .text = "By how much the loss scale falls after an overflow and grows, a power of two.",
     .changes = "loss_scale"},
    {KEY(precision.loss_scale_growth_interval), .flag = "loss_scale_growth_interval",
     .trainers = kPretrain, .range = kAtLeastOne, .only_with = kIsFp16,
     .text = "Updates without an overflow after which the loss scale grows.",
     .changes = "loss_scale"},
    {KEY(precision.loss_scale_hysteresis), .flag = "loss_scale_hysteresis", .trainers = kPretrain,
     .range = kAtLeastOne, .only_with = kIsFp16,
     .text = "Overflows, since the loss scale last grew, after which it falls.",
     .changes = "loss_scale"},
    {KEY(precision.loss_scale_minimum), .flag = "loss_scale_minimum", .trainers = kPretrain,
     .range = kPositive, .only_with = kIsFp16,
     .text = "The loss scale falls no further, a power of two; an overflow there ends the run.",
     .changes = "loss_scale"},

    // [optimizer]
    {KEY(optimizer.name), .flag = "optimizer", .trainers = kTrains, .choices = "adamw|sgd",
     .text = "adamw (decoupled decay) or sgd with momentum.", .changes = "loss"},
    {KEY(optimizer.learning_rate), .flag = "learning_rate", .trainers = kPretrain,
     .range = kNotNegative, .text = "Peak learning rate.", .changes = "lr"},
    {KEY(optimizer.beta1), .flag = "beta1", .trainers = kPretrain, .range = {0, 0.999999},
     .only_with = "optimizer.name=adamw", .text = "Decay of the first moment.", .changes = "loss"},
    {KEY(optimizer.beta2), .flag = "beta2", .trainers = kPretrain, .range = {0, 0.999999},
     .only_with = "optimizer.name=adamw", .text = "Decay of the second moment.", .changes = "loss"},
    {KEY(optimizer.epsilon), .flag = "epsilon", .trainers = kPretrain, .range = kPositive,
     .only_with = "optimizer.name=adamw", .text = "Added to the root of the second moment.",
     .changes = "loss"},
    {KEY(optimizer.momentum), .flag = "momentum", .trainers = kTrains, .range = {0, 0.999999},
     .only_with = "optimizer.name=sgd", .text = "Decay of the velocity; 0 is plain descent.",
     .changes = "loss"},
    {KEY(optimizer.weight_decay), .flag = "weight_decay", .trainers = kPretrain,
     .range = kNotNegative, .text = "Decay of matrices; norm weights and biases never decay.",
     .changes = "loss"},
    {KEY(optimizer.clip_norm), .flag = "clip_norm", .trainers = kPretrain, .range = kNotNegative,
     .text = "Largest global gradient norm; a longer gradient is scaled to it. 0: no clipping.",
     .changes = "loss"},
    {KEY(optimizer.state), .flag = "optimizer_state", .trainers = kTrains, .choices = "fp32|bf16",
     .text = "Type in which the optimizer's moments are kept. bf16 halves them; they are rounded "
             "up or down at random, by seed, update, parameter and element, so that small changes "
             "are right on average. Master weights stay fp32.",
     .changes = "device_peak_bytes"},

    // [schedule]
    {KEY(schedule.kind), .flag = "schedule", .trainers = kPretrain,
     .choices = "constant|linear|cosine",
     .text = "Learning rate after the warm-up: constant, or falling to minimum_ratio at the end.",
     .changes = "lr"},
    {KEY(schedule.warmup_steps), .flag = "warmup_steps", .trainers = kPretrain, .range = kCount,
     .text = "Updates of linear warm-up: update k, from 0, has k / warmup_steps of the peak.",
     .changes = "lr"},
    {KEY(schedule.minimum_ratio), .flag = "minimum_ratio", .trainers = kPretrain, .range = kShare,
     .only_with = "schedule.kind=linear|cosine",
     .text = "Learning rate one past the last update, as a share of the peak.", .changes = "lr"},

    // [plan]
    {KEY(plan.mesh), .flag = "mesh", .trainers = kHasRanks,
     .text = "How the ranks stand to each other: axes with their sizes, as data=2,tensor=2. Axes "
             "are stage (which comes first), data, tensor and sequence. Stages of different "
             "meshes are written one by one, as stage:data=2/stage:tensor=2/stage:, the last of "
             "one rank. Empty: all ranks along data.",
     .changes = "link_bytes"},
    {KEY(plan.schedule), .flag = "pipeline_schedule", .trainers = kTrains | kParity,
     .choices = "gpipe|1f1b|interleaved|looped|zb-h1|zb-h2|zb-v|v-half|v-min|searched",
     .only_with = "plan.mesh~stage",
     .text = "In which order the stages of a pipeline work. --schedule takes these names too.",
     .changes = "device_peak_bytes"},
    {KEY(plan.chunks), .flag = "chunks", .trainers = kTrains | kParity, .range = {0, 1024},
     .only_with = "plan.mesh~stage",
     .text = "Parts of the model that each stage holds. 0: as many as the schedule has by default.",
     .changes = "link_bytes"},
    {KEY(plan.borders), .flag = "borders", .trainers = kTrains | kParity,
     .only_with = "plan.mesh~stage",
     .text = "The first block of each part of the model but the first, as h.2,h.5,head. Empty: "
             "parts take the same time, as far as blocks allow.",
     .changes = "device_peak_bytes"},
    {KEY(plan.zero), .flag = "zero", .trainers = kTrains | kParity, .range = {0, 3},
     .text = "What ranks along data and sequence share out in place of each holding all of it: 1: "
             "optimizer states, 2: finished gradients too, 3: parameters too.",
     .changes = "device_peak_bytes"},
    {KEY(plan.chunk_elements), .flag = "chunk_elements", .trainers = kTrains | kParity,
     .range = {1, int64_t{1} << 30},
     .text = "Parameters that ranks along data and sequence share are gathered and reduced in "
             "chunks of so many elements at most; a larger parameter has one of its own. Smaller "
             "chunks overlap better and take less memory at a time, larger ones send fewer "
             "messages.",
     .changes = "device_peak_bytes"},
    {KEY(plan.overrides), .flag = "overrides", .trainers = kTrains | kParity,
     .text = "States that are split in another way than the layout says, as "
             "*.c_fc.weight=data/tensor: names (* is any text, ? one character), and for each dim "
             "the axes that split it (+ between them, nothing: whole). ; between several, of which "
             "the first that matches counts.",
     .changes = "link_bytes"},
    {KEY(plan.sequence), .flag = "sequence", .trainers = kHasRanks, .choices = "ring|all_to_all",
     .only_with = "plan.mesh~sequence",
     .text = "How attention sees the positions of other ranks along the axis sequence: keys and "
             "values go round (ring), or heads are exchanged for positions and back (all_to_all).",
     .changes = "link_bytes"},
    {KEY(plan.tensor_layout), .flag = "tensor_layout", .trainers = kHasRanks, .choices = "1d|2d",
     .only_with = "plan.mesh~tensor",
     .text = "How weights are split along the axis tensor: over one of their dims (1d), or over "
             "two (2d: its size must be a square), so that no rank holds a full row.",
     .changes = "link_bytes"},
    {KEY(plan.norms), .flag = "norms", .trainers = kHasRanks, .choices = "auto|sharded|replicated",
     .only_with = "plan.mesh~tensor",
     .text = "Whether positions are split over the axis tensor too between products, in norms and "
             "residuals. auto: where they divide.",
     .changes = "link_bytes"},
    {KEY(plan.recompute), .flag = "recompute", .trainers = kTrains | kParity,
     .choices = "none|cheap|selective|block|optimal|auto",
     .text = "Activations computed again in the backward: none, those of pointwise ops and "
             "norms whose arguments are kept anyway (cheap), those and what the core of attention "
             "makes (selective), all those inside each block, or what fits plan.recompute_budget, "
             "chosen for each block (optimal); auto: the fastest of these that fits, as predicted "
             "together with what moves between tiers. Numbers stay the same bit for bit.",
     .changes = "device_peak_bytes"},
    {KEY(plan.recompute_budget), .flag = "recompute_budget", .trainers = kTrains | kParity,
     .range = kCount, .size = true, .only_with = "plan.recompute=optimal",
     .text = "Memory that blocks may keep of a micro-batch's activations, all ranks that share it "
             "together. 0: what is predicted to be fastest, together with what moves between "
             "tiers.",
     .changes = "device_peak_bytes"},
    {KEY(plan.accumulation_order), .flag = "accumulation_order", .trainers = kTrains,
     .choices = "auto|horizontal|vertical",
     .text = "Order of an update's micro-batches: one after another (horizontal), or block by "
             "block, all of them (vertical, of one stage), so that what is gathered or streamed "
             "for a block comes once an update. auto: the one that moves less, where one rank "
             "streams, else horizontal. Numbers stay the same bit for bit.",
     .changes = "device_peak_bytes"},
    {KEY(plan.update), .flag = "update", .trainers = kTrains, .choices = "whole|layerwise",
     .text = "When parameters are updated: after all gradients (whole), or each block's as soon as "
             "its gradients are finished, so that no other block's are kept (layerwise). The "
             "parameters are the same bit for bit. layerwise is of one stage and goes without "
             "clipping (optimizer.clip_norm = 0), fp16 and skipped updates: a gradient that is "
             "not finite ends the run.",
     .changes = "device_peak_bytes"},
    {KEY(plan.placement), .flag = "placement", .trainers = kRuns | kPlan,
     .choices = "auto|static|cpu", .only_with = kHasTiers,
     .text = "What lies where when a job does not fit the device. auto: states on the host and, "
             "below it, on disk, everything else on the device when it is needed, and as much as "
             "fits stays there. static: parameters on the device, gradients and optimizer states "
             "on the host, for comparison. cpu: no state on the device even where there is room. "
             "Numbers stay the same bit for bit.",
     .changes = "host_to_device_bytes"},

    // [run]
    {KEY(run.steps), .flag = "steps", .trainers = kPretrain, .range = kCount,
     .text = "Updates to run. 0: run.epochs decides.", .changes = "lines of the metrics"},
    {KEY(run.epochs), .flag = "epochs", .trainers = kPretrain, .range = kCount,
     .only_with = "data.file!=synthetic & run.steps=0",
     .text = "How often all data is used. 0: once, unless run.steps is given.",
     .changes = "lines of the metrics"},
    {KEY(run.seed), .flag = "seed", .trainers = kPretrain | kGenerate, .range = kCount,
     .text = "Seed of initial weights, order of data, dropout and sampling.", .changes = "loss"},
    {KEY(run.ranks), .flag = "ranks", .trainers = kHasRanks, .range = {0, kMostRanks},
     .text = "Ranks of the run: threads of this process, each with run.threads of its own, or the "
             "processes that mpirun or srun has started. 0: as many as plan.mesh has, or as were "
             "started.",
     .changes = "link_bytes"},
    {KEY(run.threads), .flag = "threads", .trainers = kRuns | kPlan, .range = {0, 4096},
     .text = "CPU threads of a rank. 0: its share of the cores this process may use.",
     .changes = "step_seconds"},
    {KEY(run.stall_seconds), .flag = "stall_seconds", .trainers = kPretrain, .range = kAtLeastOne,
     .text = "A rank that others wait for and that gives no sign of life for so long, as in one "
             "kernel, is taken to hang and ends the run.",
     .changes = "log"},
    {KEY(run.out), .flag = "out", .trainers = kPretrain | kParity | kConvert | kTokenize,
     .text = "Folder for checkpoints and the exported model; parity: file for its own values; "
             "tokenize: token file for data.file (.tokens). Empty: nothing is saved.",
     .changes = "files"},
    {KEY(run.metrics), .flag = "metrics", .trainers = kPretrain,
     .text = "File for one JSON object an update.", .changes = "files"},
    {KEY(run.validate_every), .flag = "validate_every", .trainers = kPretrain, .range = kCount,
     .text = "Updates between validation losses. 0: only after the last update.",
     .changes = "validation_loss"},
    {KEY(run.save_every), .flag = "save_every", .trainers = kPretrain, .range = kCount,
     .only_with = "run.out!=", .text = "Updates between checkpoints. 0: only at the end.",
     .changes = "files"},
    {KEY(run.keep), .flag = "keep", .trainers = kPretrain, .range = kAtLeastOne,
     .only_with = "run.out!=", .text = "Newest checkpoints to keep.", .changes = "files"},
    {KEY(run.resume), .flag = "resume", .trainers = kPretrain, .choices = "auto|never",
     .only_with = "run.out!=",
     .text = "auto goes on from the newest complete checkpoint in run.out; never refuses a folder "
             "that is not empty.",
     .changes = "first step"},
    {KEY(run.skip_nonfinite), .flag = "skip_nonfinite", .trainers = kPretrain, .range = kCount,
     .only_with = "run.device!=null",
     .text = "Updates in a row that may be left out because their loss or gradient norm is no "
             "finite number; one more ends the run.",
     .changes = "lines of the metrics"},
    {KEY(run.device), .flag = "device", .trainers = kRuns, .choices = "host|capped|cuda|null",
     .pretrain_choices = "null",
     .text = "What computes: the host itself, a device of run.device_memory bytes kept apart from "
             "the host, a GPU (cuda: needs a build with --config=cuda), or nothing at all (null: "
             "times and memory are predicted).",
     .changes = "loss"},
    {KEY(run.device_memory), .flag = "device_memory", .trainers = kRuns | kPlan, .range = kCount,
     .size = true, .only_with = kHasTiers,
     .text =
         "Capacity of the device, of each rank. 0: of a GPU what is free, of the null device no "
         "bound; a capped device needs it.",
     .changes = "refusal of jobs that do not fit"},
    {KEY(run.host_memory), .flag = "host_memory", .trainers = kRuns | kPlan, .range = kCount,
     .size = true, .only_with = kHasTiers,
     .text = "Host memory for what does not fit the device, of all ranks on this machine together; "
             "each has its share. 0: most of what is free there, and no bound for the null device.",
     .changes = "disk_write_bytes"},
    {KEY(run.offload_dir), .flag = "offload_dir", .trainers = kRuns,
     .only_with = "run.device=capped|cuda",
     .text = "Folder on a local disk, made if there is none, for what fits neither device nor host "
             "memory: a file without a name for each rank, in full size from the start, read and "
             "written without the system's cache. Empty: no disk is used.",
     .changes = "disk_write_bytes"},
    {KEY(run.disk_memory), .flag = "disk", .trainers = kTrains, .range = kCount, .size = true,
     .only_with = "run.device=null",
     .text = "Disk that a predicted run may use, of all ranks together. 0: none.",
     .changes = "disk_write_bytes"},
    {KEY(run.link_gbps), .flag = "link_gbps", .trainers = kRuns | kPlan, .range = kNotNegative,
     .only_with = kHasTiers,
     .text = "Rate of copies between host and device, each way, in 1e9 bytes a second: what the "
             "capped device holds them to, and what plans reckon with. 0: as fast as memory is; in "
             "predictions 12.",
     .changes = "hidden_transfer_fraction, step_seconds"},
    {KEY(run.device_tflops), .flag = "device_tflops", .trainers = kTrains, .range = kNotNegative,
     .only_with = "run.device=null",
     .text = "Products of 16-bit numbers that the predicted device of a rank computes, in 1e12 "
             "operations a second; of fp32 numbers it computes half as many. 0: 0.9, two CPU "
             "cores.",
     .changes = "hidden_transfer_fraction, step_seconds"},
    {KEY(run.device_gbps), .flag = "device_gbps", .trainers = kTrains, .range = kNotNegative,
     .only_with = "run.device=null",
     .text = "How fast the predicted device reads and writes its own memory, in 1e9 bytes a "
             "second. 0: 50.",
     .changes = "hidden_transfer_fraction, step_seconds"},
    {KEY(run.host_gbps), .flag = "host_gbps", .trainers = kTrains, .range = kNotNegative,
     .only_with = "run.device=null",
     .text = "How fast the host of a predicted rank reads and writes its memory when it updates "
             "what does not live on the device, in 1e9 bytes a second. 0: 50.",
     .changes = "hidden_transfer_fraction, step_seconds"},
    {KEY(run.dump_graphs), .flag = "dump_graphs", .trainers = kRuns | kPlan,
     .text = "Folder for the text of the graph after each pass.", .changes = "files"},
    {KEY(run.profile), .flag = "profile", .trainers = kPretrain,
     .text = "Print where the time of an update goes, by op, block and call, with rates against "
             "the measured peak of products. The first updates are left out.",
     .changes = "log"},
    {KEY(run.profile_file), .flag = "profile_file", .trainers = kPretrain,
     .only_with = "run.profile=true", .text = "File for the same figures as one JSON object.",
     .changes = "files"},
    {KEY(run.json), .flag = "json", .trainers = kEvaluate | kGenerate | kPlan,
     .text = "Print the result as one JSON object.", .changes = "output"},

    {KEY(run.largest), .flag = "largest", .trainers = kPlan,
     .only_with = "model.preset= & model.directory=",
     .text =
         "Find the largest GPT that trains in the given memory, in place of planning one model: "
         "n layers of n heads of 128, and then as many more layers of that width as fit.",
     .changes = "output"},

    // [generate]
    {KEY(generate.prompt), .flag = "prompt", .trainers = kGenerate, .text = "Text to go on from.",
     .changes = "output"},
    {KEY(generate.prompt_ids), .flag = "prompt_ids", .trainers = kGenerate, .range = kCount,
     .only_with = "generate.prompt=", .text = "Ids to go on from, in place of a text.",
     .changes = "output"},
    {KEY(generate.max_new_tokens), .flag = "max_new_tokens", .trainers = kGenerate,
     .range = kAtLeastOne,
     .text = "Most ids to add; the end token stops earlier, and where this is not given so does "
             "the model's last position.",
     .changes = "output"},
    {KEY(generate.temperature), .flag = "temperature", .trainers = kGenerate, .range = kNotNegative,
     .text = "Divides the logits; 0 always takes the likeliest id.", .changes = "output"},
    {KEY(generate.top_k), .flag = "top_k", .trainers = kGenerate, .range = kCount,
     .only_with = "generate.temperature!=0.0", .text = "Sample from the k likeliest ids. 0: all.",
     .changes = "output"},
    {KEY(generate.top_p), .flag = "top_p", .trainers = kGenerate, .range = {0, 1},
     .only_with = "generate.temperature!=0.0",
     .text = "Sample from the fewest ids that together have this probability.",
     .changes = "output"},

    // [parity]
    {KEY(parity.golden), .flag = "golden", .trainers = kParity,
     .text = "File of reference values (golden.safetensors), with golden.json beside it.",
     .changes = "output"},
    {KEY(parity.model_config), .flag = "model_config", .trainers = kParity,
     .text = "File read in place of the config.json of model.directory.",
     .changes = "shape of the model"},
    {KEY(parity.tolerance), .flag = "tolerance", .trainers = kParity, .range = kPositive,
     .text = "Factor on the limits that golden.json suggests.", .changes = "exit status"},
};

#undef KEY

}  // namespace

absl::Span<const Key> Keys() { return kKeys; }

}  // namespace colossus
