#include "shardformer/tokenizer/unicode.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <iterator>

namespace colossus {
namespace {

// Characters and the one that stands in for each of them.
struct StandIn {
  uint32_t first, last;
  uint32_t code;
};

constexpr StandIn kStandIns[] = {
    {0x897, 0x897, 0x816}, {0xCF3, 0xCF3, 0x903}, {0xECE, 0xECE, 0x816}, {0x180E, 0x180E, 0x2060},
    {0x1B4E, 0x1B4F, 0xF0A}, {0x1B7F, 0x1B7F, 0xF0A}, {0x1C89, 0x1C89, 0x10A0},
    {0x1C8A, 0x1C8A, 0x1D00}, {0x2427, 0x2429, 0x2440}, {0x2FFC, 0x2FFF, 0x2440},
    {0x31E4, 0x31E5, 0x2440}, {0x31EF, 0x31EF, 0x2440}, {0xA7CB, 0xA7CC, 0x10A0},
    {0xA7CD, 0xA7CD, 0x1D00}, {0xA7DA, 0xA7DA, 0x10A0}, {0xA7DB, 0xA7DB, 0x1D00},
    {0xA7DC, 0xA7DC, 0x10A0}, {0x105C0, 0x105F3, 0x10000}, {0x10D40, 0x10D49, 0x104A0},
    {0x10D4A, 0x10D4D, 0x10000}, {0x10D4E, 0x10D4E, 0x10780}, {0x10D4F, 0x10D4F, 0x10000},
    {0x10D50, 0x10D65, 0x10400}, {0x10D69, 0x10D6D, 0x101FD}, {0x10D6E, 0x10D6E, 0x10EAD},
    {0x10D6F, 0x10D6F, 0x10780}, {0x10D70, 0x10D85, 0x10428}, {0x10D8E, 0x10D8F, 0x1D6C1},
    {0x10EC2, 0x10EC4, 0x10000}, {0x10EFC, 0x10EFF, 0x101FD}, {0x1123F, 0x11240, 0x10000},
    {0x11241, 0x11241, 0x101FD}, {0x11380, 0x11389, 0x10000}, {0x1138B, 0x1138B, 0x10000},
    {0x1138E, 0x1138E, 0x10000}, {0x11390, 0x113B5, 0x10000}, {0x113B7, 0x113B7, 0x10000},
    {0x113B8, 0x113BA, 0x11000}, {0x113BB, 0x113C0, 0x101FD}, {0x113C2, 0x113C2, 0x11000},
    {0x113C5, 0x113C5, 0x11000}, {0x113C7, 0x113CA, 0x11000}, {0x113CC, 0x113CD, 0x11000},
    {0x113CE, 0x113CE, 0x101FD}, {0x113CF, 0x113CF, 0x11000}, {0x113D0, 0x113D0, 0x101FD},
    {0x113D1, 0x113D1, 0x10000}, {0x113D2, 0x113D2, 0x101FD}, {0x113D3, 0x113D3, 0x10000},
    {0x113D4, 0x113D5, 0x10100}, {0x113D7, 0x113D8, 0x10100}, {0x113E1, 0x113E2, 0x101FD},
    {0x116D0, 0x116E3, 0x104A0}, {0x1171E, 0x1171E, 0x11000}, {0x11B00, 0x11B09, 0x10100},
    {0x11BC0, 0x11BE0, 0x10000}, {0x11BE1, 0x11BE1, 0x10100}, {0x11BF0, 0x11BF9, 0x104A0},
    {0x11F00, 0x11F01, 0x101FD}, {0x11F02, 0x11F02, 0x10000}, {0x11F03, 0x11F03, 0x11000},
    {0x11F04, 0x11F10, 0x10000}, {0x11F12, 0x11F33, 0x10000}, {0x11F34, 0x11F35, 0x11000},
    {0x11F36, 0x11F3A, 0x101FD}, {0x11F3E, 0x11F3F, 0x11000}, {0x11F40, 0x11F40, 0x101FD},
    {0x11F41, 0x11F41, 0x11000}, {0x11F42, 0x11F42, 0x101FD}, {0x11F43, 0x11F4F, 0x10100},
    {0x11F50, 0x11F59, 0x104A0}, {0x11F5A, 0x11F5A, 0x101FD}, {0x1342F, 0x1342F, 0x10000},
    {0x13439, 0x1343F, 0x13430}, {0x13440, 0x13440, 0x101FD}, {0x13441, 0x13446, 0x10000},
    {0x13447, 0x13455, 0x101FD}, {0x13460, 0x143FA, 0x10000}, {0x16100, 0x1611D, 0x10000},
    {0x1611E, 0x16129, 0x101FD}, {0x1612A, 0x1612C, 0x11000}, {0x1612D, 0x1612F, 0x101FD},
    {0x16130, 0x16139, 0x104A0}, {0x16D40, 0x16D42, 0x10780}, {0x16D43, 0x16D6A, 0x10000},
    {0x16D6B, 0x16D6C, 0x10780}, {0x16D6D, 0x16D6F, 0x10100}, {0x16D70, 0x16D79, 0x104A0},
    {0x18CFF, 0x18CFF, 0x10000}, {0x1B132, 0x1B132, 0x1B150}, {0x1B155, 0x1B155, 0x1B164},
    {0x1CC00, 0x1CCEF, 0x10137}, {0x1CCF0, 0x1CCF9, 0x104A0}, {0x1CD00, 0x1CEB3, 0x10137},
    {0x1D2C0, 0x1D2D3, 0x10107}, {0x1DF25, 0x1DF2A, 0x10428}, {0x1E030, 0x1E06D, 0x10780},
    {0x1E08F, 0x1E08F, 0x101FD}, {0x1E4D0, 0x1E4EA, 0x10000}, {0x1E4EB, 0x1E4EB, 0x10780},
    {0x1E4EC, 0x1E4EF, 0x101FD}, {0x1E4F0, 0x1E4F9, 0x104A0}, {0x1E5D0, 0x1E5ED, 0x10000},
    {0x1E5EE, 0x1E5EF, 0x101FD}, {0x1E5F0, 0x1E5F0, 0x10000}, {0x1E5F1, 0x1E5FA, 0x104A0},
    {0x1E5FF, 0x1E5FF, 0x10100}, {0x1F6DC, 0x1F6DC, 0x10137}, {0x1F774, 0x1F776, 0x10137},
    {0x1F77B, 0x1F77F, 0x10137}, {0x1F7D9, 0x1F7D9, 0x10137}, {0x1F8B2, 0x1F8BB, 0x10137},
    {0x1F8C0, 0x1F8C1, 0x10137}, {0x1FA75, 0x1FA77, 0x10137}, {0x1FA87, 0x1FA89, 0x10137},
    {0x1FA8F, 0x1FA8F, 0x10137}, {0x1FAAD, 0x1FAAF, 0x10137}, {0x1FABB, 0x1FABF, 0x10137},
    {0x1FAC6, 0x1FAC6, 0x10137}, {0x1FACE, 0x1FACF, 0x10137}, {0x1FADA, 0x1FADC, 0x10137},
    {0x1FADF, 0x1FADF, 0x10137}, {0x1FAE8, 0x1FAE9, 0x10137}, {0x1FAF7, 0x1FAF8, 0x10137},
    {0x1FBCB, 0x1FBEF, 0x10137}, {0x2B739, 0x2B739, 0x20000}, {0x2EBF0, 0x2EE5D, 0x20000},
    {0x31350, 0x323AF, 0x20000},
};

const StandIn* FindStandIn(uint32_t code) {
  const StandIn* found = std::lower_bound(std::begin(kStandIns), std::end(kStandIns), code,
                                          [](const StandIn& s, uint32_t c) { return s.last < c; });
  return found != std::end(kStandIns) && found->first <= code ? found : nullptr;
}

// Bit c / 64 is set where some character of that block has a stand-in.
using Blocks = std::bitset<0x110000 / 64>;

const Blocks& StandInBlocks() {
  static const Blocks& blocks = *[] {
    auto* made = new Blocks;
    for (const StandIn& s : kStandIns) {
      for (uint32_t block = s.first / 64; block <= s.last / 64; ++block) made->set(block);
    }
    return made;
  }();
  return blocks;
}

bool IsAscii8(const char* at) {
  uint64_t word;
  memcpy(&word, at, sizeof(word));
  return (word & 0x8080808080808080u) == 0;
}

// Bytes of the part at the start of `bytes`, which begins no whole character, that one U+FFFD
// stands for: as much as could still have become a character.
size_t BrokenLength(absl::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0xC2 || lead > 0xF4 || bytes.size() < 2) return 1;
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  size_t n = 2;
  while (n < length && n < bytes.size() && (byte(n) & 0xC0) == 0x80) ++n;
  return n;
}

}  // namespace

size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  return BrokenLength(text.substr(0, length)) == length ? length : 0;
}

size_t ValidUtf8Prefix(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (i + 8 <= text.size() && IsAscii8(text.data() + i)) {
      i += 8;
      continue;
    }
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return i;
}

uint32_t DecodeUtf8(absl::string_view text, size_t* length) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(text[i]) & 0xFF; };
  const auto tail = [&](size_t i) { return byte(i) & 0x3F; };
  const uint32_t lead = byte(0);
  *length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  switch (*length) {
    case 1:
      return lead;
    case 2:
      return (lead & 0x1F) << 6 | tail(1);
    case 3:
      return (lead & 0x0F) << 12 | tail(1) << 6 | tail(2);
    default:
      return (lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
  }
}

void AppendUtf8(uint32_t code, std::string* out) {
  const auto put = [&](uint32_t byte) { *out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string LossyUtf8(absl::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t good = ValidUtf8Prefix(bytes);
    out.append(bytes.data(), good);
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    out += "\xEF\xBF\xBD";
    bytes.remove_prefix(BrokenLength(bytes));
  }
  return out;
}

bool IsWhiteSpace(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool WithStandIns(absl::string_view text, std::string* copy) {
  const Blocks& blocks = StandInBlocks();
  bool changed = false;
  for (size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0xE0) {  // below U+0800 nothing has one
      ++i;
      continue;
    }
    size_t length;
    const uint32_t code = DecodeUtf8(text.substr(i), &length);
    const StandIn* found = blocks[code / 64] ? FindStandIn(code) : nullptr;
    if (found != nullptr) {
      if (!changed) copy->assign(text.data(), text.size());
      changed = true;
      std::string bytes;
      AppendUtf8(found->code, &bytes);
      copy->replace(i, length, bytes);
    }
    i += length;
  }
  return changed;
}

bool HasStandIn(uint32_t first, uint32_t last) {
  for (const StandIn& s : kStandIns) {
    if ((s.first <= last && first <= s.last) || (first <= s.code && s.code <= last)) return true;
  }
  return false;
}

}  // namespace colossus
