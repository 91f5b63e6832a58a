#include "shardformer/tokenizer/post_processor.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/tokenizer/json_fields.h"

namespace colossus {
namespace {

// `ids` of special_tokens[name].
absl::StatusOr<std::vector<int32_t>> SpecialIds(const nlohmann::json* specials,
                                                const std::string& name, const std::string& path) {
  const nlohmann::json none;
  const bool known = specials != nullptr && specials->is_object() && specials->contains(name);
  const std::string place = absl::StrCat(path, "[", nlohmann::json(name).dump(), "]");
  ASSIGN_OR_RETURN(Fields fields, Fields::Of(known ? (*specials)[name] : none, place));
  ASSIGN_OR_RETURN(const nlohmann::json* list, fields.RequiredList("ids"));
  std::vector<int32_t> ids;
  for (size_t i = 0; i < list->size(); ++i) {
    ASSIGN_OR_RETURN(const int32_t id,
                     ReadId((*list)[i], absl::StrCat(fields.PathOf("ids"), "[", i, "]")));
    ids.push_back(id);
  }
  return ids;
}

absl::Status AddTemplate(Fields& fields, Frame* frame) {
  ASSIGN_OR_RETURN(const nlohmann::json* single, fields.RequiredList("single"));
  fields.Find("pair");
  const nlohmann::json* specials = fields.Find("special_tokens");
  Frame outer;
  bool text = false;
  for (size_t i = 0; i < single->size(); ++i) {
    const std::string place = absl::StrCat(fields.PathOf("single"), "[", i, "]");
    ASSIGN_OR_RETURN(Fields part, Fields::Of((*single)[i], place));
    const nlohmann::json *sequence = part.Find("Sequence"), *token = part.Find("SpecialToken");
    if ((sequence == nullptr) == (token == nullptr)) {
      return Fields::Wrong(place, "a Sequence or a SpecialToken", (*single)[i]);
    }
    RETURN_IF_ERROR(part.End());
    ASSIGN_OR_RETURN(Fields named, Fields::Of(sequence != nullptr ? *sequence : *token, place));
    ASSIGN_OR_RETURN(const std::string id, named.RequiredText("id"));
    if (sequence != nullptr) {
      if (text || id != "A") return Fields::Refuse(place, (*single)[i], "one Sequence A is known");
      text = true;
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                     SpecialIds(specials, id, fields.PathOf("special_tokens")));
    std::vector<int32_t>& side = text ? outer.after : outer.before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!text) return Fields::Refuse(fields.PathOf("single"), *single, "it leaves the text out");
  frame->before.insert(frame->before.begin(), outer.before.begin(), outer.before.end());
  frame->after.insert(frame->after.end(), outer.after.begin(), outer.after.end());
  return absl::OkStatus();
}

// ["<s>", 0]
absl::StatusOr<int32_t> PairedId(Fields& fields, const std::string& name) {
  ASSIGN_OR_RETURN(const nlohmann::json* pair, fields.RequiredList(name));
  if (pair->size() != 2) return Fields::Wrong(fields.PathOf(name), "a token and its id", *pair);
  return ReadId((*pair)[1], fields.PathOf(name));
}

absl::Status Add(const nlohmann::json& json, const std::string& path, Frame* frame) {
  ASSIGN_OR_RETURN(Fields fields, Fields::Of(json, path));
  ASSIGN_OR_RETURN(const std::string type, fields.RequiredText("type"));
  if (type == "ByteLevel") return absl::OkStatus();
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const nlohmann::json* list, fields.RequiredList("processors"));
    for (size_t i = 0; i < list->size(); ++i) {
      RETURN_IF_ERROR(Add((*list)[i], absl::StrCat(path, ".processors[", i, "]"), frame));
    }
    return fields.End();
  }
  if (type == "TemplateProcessing") {
    RETURN_IF_ERROR(AddTemplate(fields, frame));
    return fields.End();
  }
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    ASSIGN_OR_RETURN(const int32_t begin, PairedId(fields, "cls"));
    ASSIGN_OR_RETURN(const int32_t end, PairedId(fields, "sep"));
    fields.Find("trim_offsets");
    fields.Find("add_prefix_space");  // for offsets too
    frame->before.insert(frame->before.begin(), begin);
    frame->after.push_back(end);
    return fields.End();
  }
  return Fields::Refuse(fields.PathOf("type"), type,
                        "known are Sequence, ByteLevel, TemplateProcessing, RobertaProcessing and "
                        "BertProcessing");
}

}  // namespace

absl::StatusOr<Frame> ParsePostProcessor(const nlohmann::json& json, const std::string& path) {
  Frame frame;
  if (!json.is_null()) RETURN_IF_ERROR(Add(json, path, &frame));
  return frame;
}

}  // namespace colossus
