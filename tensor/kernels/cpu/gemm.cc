#include "tensor/kernels/cpu/gemm.h"

#include <string>
#include <unordered_map>

#include "base/check.h"
#include "base/parallel_for.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "tensor/kernels/cpu/isa.h"

namespace colossus {
namespace {

const dnnl::engine& CpuEngine() {
  static const dnnl::engine* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

bool IsOfLibrary(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

dnnl::memory::data_type ToDnnl(DType dtype) {
  return dtype == DType::kF32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// [batch, rows, columns], or 2-d for one matrix; `transposed`: stored as [batch, columns, rows].
dnnl::memory::desc Describe(int64_t batch, int64_t rows, int64_t columns, bool transposed,
                            DType dtype) {
  dnnl::memory::dims dims{rows, columns};
  dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, rows}
                                          : dnnl::memory::dims{columns, 1};
  if (batch > 1) {
    dims.insert(dims.begin(), batch);
    strides.insert(strides.begin(), rows * columns);
  }
  return dnnl::memory::desc(dims, ToDnnl(dtype), strides);
}

// Whether a product of the library is to be used, by the name of its implementation.
bool IsWanted(const GemmSpec& spec, const std::string& implementation) {
  if (implementation.find("brg") == std::string::npos) return false;  // bits vary with the threads
  // Pairs of bf16 in vectors are worth it on some CPUs only; in tiles (AMX) always.
  if (spec.in == DType::kBF16 && implementation.find("amx") == std::string::npos) {
    return Bf16Pairs() == PairSupport::kByCpu;
  }
  // With long rows of b the library's blocks reach between all and half of the rate of others.
  constexpr int64_t kLongRow = 3072;
  return spec.b_transposed || spec.n < kLongRow;
}

// The library sizes its scratch for the calling thread's team.
class TeamOf {
 public:
  explicit TeamOf(int threads) : before_(Threads()) { SetThreads(threads); }
  ~TeamOf() { SetThreads(before_); }

 private:
  const int before_;
};

}  // namespace

struct Gemm::Handles {
  dnnl::matmul matmul;
  dnnl::stream stream;
  dnnl::memory a, b, y, scratch;
  int64_t scratch_bytes = 0;
  std::unordered_map<int, dnnl::memory> arguments;
};

Gemm Gemm::Create(const GemmSpec& spec) {
  Gemm gemm;
  gemm.handles_ = MakeHandles(spec);
  if (gemm.handles_ == nullptr) gemm.packed_ = PackedProduct(spec);
  return gemm;
}

// nullptr: the library has no block product of this kind.
std::shared_ptr<Gemm::Handles> Gemm::MakeHandles(const GemmSpec& spec) {
  // Block products need AVX-512; where tests lower the instruction set, they reach the own loops.
  if (BestIsa() != Isa::kV4) return nullptr;
  if (!IsOfLibrary(spec.in) || !IsOfLibrary(spec.out)) return nullptr;
  const TeamOf team(spec.threads);
  try {
    dnnl::memory::desc a = Describe(spec.batch, spec.m, spec.k, spec.a_transposed, spec.in);
    dnnl::memory::desc b = Describe(spec.batch, spec.k, spec.n, spec.b_transposed, spec.in);
    dnnl::memory::desc y = Describe(spec.batch, spec.m, spec.n, false, spec.out);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (spec.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum();
      attr.set_post_ops(sum);
    }
    dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, y), attr, CpuEngine());
    if (!IsWanted(spec, pd.impl_info_str())) return nullptr;
    auto h = std::make_shared<Handles>();
    h->matmul = dnnl::matmul(pd);
    h->stream = dnnl::stream(CpuEngine());
    h->a = dnnl::memory(a, CpuEngine(), nullptr);
    h->b = dnnl::memory(b, CpuEngine(), nullptr);
    h->y = dnnl::memory(y, CpuEngine(), nullptr);
    h->scratch = dnnl::memory(pd.scratchpad_desc(), CpuEngine(), nullptr);
    h->scratch_bytes = static_cast<int64_t>(pd.scratchpad_desc().get_size());
    h->arguments = {{DNNL_ARG_SRC, h->a}, {DNNL_ARG_WEIGHTS, h->b}, {DNNL_ARG_DST, h->y},
                    {DNNL_ARG_SCRATCHPAD, h->scratch}};
    return h;
  } catch (const dnnl::error&) {
    return nullptr;  // refused: not of this CPU
  }
}

int64_t Gemm::scratch_bytes() const {
  return handles_ == nullptr ? packed_.scratch_bytes() : handles_->scratch_bytes;
}

void Gemm::Run(const void* a, const void* b, void* y, void* scratch) const {
  if (handles_ == nullptr) return packed_.Run(a, b, y, scratch);
  try {
    handles_->a.set_data_handle(const_cast<void*>(a));
    handles_->b.set_data_handle(const_cast<void*>(b));
    handles_->y.set_data_handle(y);
    handles_->scratch.set_data_handle(scratch);
    handles_->matmul.execute(handles_->stream, handles_->arguments);
    handles_->stream.wait();
  } catch (const dnnl::error& error) {
    CHECK(false) << "a planned oneDNN product failed: " << error.what();
  }
}

}  // namespace colossus
