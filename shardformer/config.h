// What a model is, apart from its weights: config.json of a Hugging Face directory, read into typed
// and checked fields.
//
// Both ways of writing are read: transformers 4.x (rope_scaling, rope_theta, torch_dtype) and 5.x
// (rope_parameters, layer_types, dtype). An absent key takes its family's default; a key that is
// null is none where none has a meaning, and refused elsewhere. Keys that mean nothing to the
// family are left alone; options that would change results and are not supported are refused.
//
// Thread-safe: values and pure functions only. A ModelConfig owns all it holds.
//
//   ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(RealFileSystem(), dir + "/config.json"));
//   for (const std::string& line : config.notes) log << line;    // what was defaulted or ignored
//
// A further family is one file config_<family>.cc and one line in config_family.cc.
#ifndef COLOSSUS_SHARDFORMER_CONFIG_H_
#define COLOSSUS_SHARDFORMER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "nlohmann/json.hpp"
#include "shardformer/activation.h"
#include "shardformer/rope.h"

namespace colossus {

struct ModelConfig {
  std::string family;        // model_type: "gpt2", "llama" ...
  std::string architecture;  // first of architectures ("LlamaForCausalLM"); empty: not given

  // Sizes, all positive.
  int64_t vocabulary = 0;     // token ids are 0 .. vocabulary - 1
  int64_t max_positions = 0;  // tokens; rows of a learned position table, else the declared length
  int64_t layers = 0;         // blocks
  int64_t hidden = 0;         // width of the residual stream
  int64_t heads = 0;          // query heads
  int64_t kv_heads = 0;       // key/value heads; divides heads
  int64_t head_dim = 0;       // entries of a head; heads * head_dim need not be hidden
  int64_t mlp = 0;            // width inside the MLP

  Activation activation = Activation::kGelu;
  double norm_epsilon = 0;
  bool qkv_bias = false;               // query, key and value projections have biases
  bool attention_output_bias = false;  // so has the projection behind attention
  bool mlp_bias = false;               // so have all projections of the MLP

  bool tie_word_embeddings = false;  // the output head is the embedding
  bool tie_was_read = false;         // false: the family's default

  std::optional<RopeParameters> rope;  // none: learned positions

  // [layers] keys that a query sees in each layer, itself included; 0: all up to itself.
  std::vector<int64_t> windows;

  bool scale_attention = true;            // scores are divided by sqrt(head_dim)
  bool scale_attention_by_layer = false;  // and by the block's number, counted from 1

  // Probabilities of dropping, in [0, 1).
  double attention_dropout = 0;  // attention weights
  double embedding_dropout = 0;  // sum of the embeddings
  double residual_dropout = 0;   // what attention and MLP add to the residual stream

  // Parameters that are not trained, by name. A run says so, not config.json.
  std::set<std::string> frozen;

  double initializer_range = 0.02;  // standard deviation of fresh weights

  std::optional<int64_t> bos_id;  // token ids
  std::vector<int64_t> eos_ids;   // more than one ends a text in some chat models; may be empty
  std::optional<int64_t> pad_id;

  // What the weights are declared to be; each tensor's own header decides. None: not given, or a
  // type with no DType.
  std::optional<DType> stored_dtype;

  // The object that was read, every key of it: export writes it back. Presets have theirs too.
  nlohmann::json raw;
  // Lines for the log: values whose origin matters, keys that have no effect here.
  std::vector<std::string> notes;

  // Factor of the scores q . k in a block (counted from 0).
  double AttentionScale(int64_t layer) const;
};

// Reads a parsed config.json. `file_name` only opens the messages. InvalidArgument naming file, key
// and remedy; Unimplemented, naming the nearest supported one, for a model_type that is not.
absl::StatusOr<ModelConfig> ReadModelConfig(const nlohmann::json& json,
                                            absl::string_view file_name);

// Reads and parses the file at `path`, a config.json.
absl::StatusOr<ModelConfig> LoadModelConfig(FileSystem& files, const std::string& path);

// A config.json made from the fields, not from raw, in the 4.x way of writing, which transformers
// 4 and 5 both load. ReadModelConfig gives the same fields back. InvalidArgument for an unknown
// family, and for fields that the family's config.json has no key for.
absl::StatusOr<nlohmann::json> ToHuggingFaceConfig(const ModelConfig& config);

// Trainable parameters of the family's causal language model, tied weights once. CHECKs that the
// family is known.
int64_t ParameterCount(const ModelConfig& config);

// The supported model_types, ascending.
std::vector<std::string> ModelFamilies();

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_CONFIG_H_
