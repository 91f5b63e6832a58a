#include "base/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"

namespace colossus {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.693147180559945309417;

// The functions below use only + - * / and sqrt, which IEEE 754 rounds exactly, and are compiled
// without contraction to fma: their bits are the same everywhere. Errors are a few 2^-53.

// The three series below in powers of the squared argument, lowest first. The factorials up to 19!
// are exact doubles, so each coefficient is rounded once.
constexpr auto kAtanhSeries = [] {
  std::array<double, 12> series{};
  for (int k = 0; k < 12; ++k) series[k] = 1.0 / (2 * k + 1);
  return series;
}();

constexpr std::array<double, 10> FactorialSeries(int first) {
  std::array<double, 10> series{};
  double factorial = 1;
  for (int k = 0; k < 10; ++k) {
    series[k] = (k % 2 == 0 ? 1 : -1) / factorial;
    factorial *= (2 * k + 1 + first) * (2 * k + 2 + first);
  }
  return series;
}
constexpr auto kCosSeries = FactorialSeries(0);
constexpr auto kSinSeries = FactorialSeries(1);

template <size_t n>
double Horner(const std::array<double, n>& series, double x) {
  double sum = series[n - 1];
  for (size_t k = n - 1; k > 0; --k) sum = sum * x + series[k - 1];
  return sum;
}

// ln(x) for a normal x > 0: x = m * 2^e with m near 1, and ln(m) = 2 atanh(s), s = (m-1)/(m+1).
// Without branches, as all below, so that loops run several elements at once.
inline double Log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const double fraction =
      std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);  // in [1, 2)
  const bool high = fraction > 1.41421356237309504880;
  const double m = high ? 0.5 * fraction : fraction;
  const int exponent = static_cast<int>(bits >> 52) - 1023 + (high ? 1 : 0);
  const double s = (m - 1) / (m + 1);  // |s| < 0.172
  return exponent * kLn2 + 2 * (s * Horner(kAtanhSeries, s * s));
}

// cos(2 pi u) and sin(2 pi u) for u in [0, 1): Taylor's series on the nearest quarter turn.
struct CosSin {
  double cos, sin;
};
inline CosSin CosSinOfTurns(double u) {
  const int quarter = static_cast<int>(4 * u + 0.5);  // 0 to 4
  const double x = (4 * u - quarter) * (kPi / 2);  // in [-pi/4, pi/4]; the difference is exact
  const double cos = Horner(kCosSeries, x * x);
  const double sin = x * Horner(kSinSeries, x * x);
  const bool odd = (quarter & 1) != 0;
  const double a = odd ? sin : cos, b = odd ? cos : sin;
  return {((quarter + 1) & 2) != 0 ? -a : a, (quarter & 2) != 0 ? -b : b};
}

// Two independent normal numbers of two uniform ones: `radius` in (0, 1], `turns` in [0, 1).
inline CosSin BoxMuller(double radius, double turns) {
  const double length = std::sqrt(-2 * Log(radius));
  const CosSin direction = CosSinOfTurns(turns);
  return {length * direction.cos, length * direction.sin};
}

// high * 2^32 + low without its last 11 bits: a whole number below 2^53, put together exactly.
inline double Upper53(uint32_t high, uint32_t low) { return high * 0x1p21 + (low >> 11); }

// Elements 2i and 2i + 1 are the cosine and the sine of one pair of uniform numbers.
struct Uniforms {
  double radius, turns;
};
inline Uniforms PairOf(const PhiloxBlock& words) {
  return {(Upper53(words[0], words[1]) + 1) * 0x1p-53, Upper53(words[2], words[3]) * 0x1p-53};
}

constexpr size_t kPairs = 64;  // of a round of Normals

// The pairs from `first` on; each loop does the same to all.
void NormalPairs(RandomKey key, uint64_t site, uint64_t first, double (&out)[2 * kPairs]) {
  double radius[kPairs], turns[kPairs];
  for (size_t i = 0; i < kPairs; ++i) {
    const Uniforms pair = PairOf(RandomQuad(key, site, first + i));
    radius[i] = pair.radius;
    turns[i] = pair.turns;
  }
  for (size_t i = 0; i < kPairs; ++i) {
    const CosSin pair = BoxMuller(radius[i], turns[i]);
    out[2 * i] = pair.cos;
    out[2 * i + 1] = pair.sin;
  }
}

}  // namespace

uint64_t SiteId(absl::string_view site) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, whose weak upper bits MixBits repairs
  for (const char c : site) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return MixBits(hash);
}

double Normal(RandomKey key, uint64_t site, uint64_t element) {
  const Uniforms uniforms = PairOf(RandomQuad(key, site, element / 2));
  const CosSin pair = BoxMuller(uniforms.radius, uniforms.turns);
  return element % 2 == 0 ? pair.cos : pair.sin;
}

void Normals(RandomKey key, uint64_t site, uint64_t first, absl::Span<double> out) {
  double round[2 * kPairs];
  for (size_t done = 0; done < out.size();) {
    const uint64_t at = first + done;
    NormalPairs(key, site, at / 2, round);
    const size_t skip = at % 2, count = std::min(out.size() - done, 2 * kPairs - skip);
    std::copy_n(round + skip, count, out.data() + done);
    done += count;
  }
}

uint64_t PermutedIndex(RandomKey key, uint64_t site, uint64_t index, uint64_t n) {
  CHECK_LT(index, n);
  if (n == 1) return 0;
  // A Feistel network over the fewest bits that hold n - 1, in two halves of widths that differ by
  // at most one. An output >= n goes through again: the walk along its cycle comes back below n.
  const int bits = std::bit_width(n - 1);
  const int low_bits = (bits + 1) / 2;
  const uint64_t low_mask = (uint64_t{1} << low_bits) - 1;
  const uint64_t high_mask = (uint64_t{1} << (bits - low_bits)) - 1;
  const PhiloxBlock words = RandomQuad(key, site, 0);
  const uint64_t round_key = uint64_t{words[0]} << 32 | words[1];
  constexpr int kRounds = 8;
  do {
    uint64_t low = index & low_mask, high = index >> low_bits;
    for (uint64_t round = 0; round < kRounds; round += 2) {
      low ^= MixBits(round_key + MixBits((round << 56) + high)) & low_mask;
      high ^= MixBits(round_key + MixBits(((round + 1) << 56) + low)) & high_mask;
    }
    index = high << low_bits | low;
  } while (index >= n);
  return index;
}

}  // namespace colossus
