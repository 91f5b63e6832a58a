#include "tensor/kernels/cuda/cublaslt_product.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

namespace colossus::cuda {
namespace {

constexpr size_t kMaxScratch = size_t{32} << 20;
constexpr uint64_t kScratchAlignment = 256;

// The handle of the current GPU; nullptr without one.
cublasLtHandle_t HandleOfDevice() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    cudaGetLastError();  // no GPU is not an error of what comes next
    return nullptr;
  }
  static std::mutex* const mutex = new std::mutex;
  static auto* const handles = new std::map<int, cublasLtHandle_t>;
  std::lock_guard<std::mutex> lock(*mutex);
  auto [found, fresh] = handles->emplace(device, nullptr);
  if (fresh && cublasLtCreate(&found->second) != CUBLAS_STATUS_SUCCESS) {
    found->second = nullptr;
    cudaGetLastError();
  }
  return found->second;
}

cudaDataType TypeOf(DType dtype) {
  if (dtype == DType::kBF16) return CUDA_R_16BF;
  return dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

}  // namespace

struct CublasLtProduct::Parts {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t choice = {};
  float beta = 0;
  bool ok = true;

  ~Parts() {
    if (preference != nullptr) cublasLtMatmulPreferenceDestroy(preference);
    for (cublasLtMatrixLayout_t layout : {first, second, result}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }

  void Need(cublasStatus_t status) { ok = ok && status == CUBLAS_STATUS_SUCCESS; }

  void MakeLayout(cublasLtMatrixLayout_t& layout, const ColumnMajorMatrix& x, DType dtype,
                  int64_t batch) {
    Need(cublasLtMatrixLayoutCreate(&layout, TypeOf(dtype), static_cast<uint64_t>(x.rows),
                                    static_cast<uint64_t>(x.columns), x.leading));
    if (!ok || batch == 1) return;
    const int32_t count = static_cast<int32_t>(batch);
    Need(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                          sizeof(count)));
    Need(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &x.stride, sizeof(x.stride)));
  }

  void MakeOperation(const ColumnMajorGemm& gemm) {
    Need(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    if (!ok) return;
    const cublasOperation_t turn[2] = {gemm.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                       gemm.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N};
    Need(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &turn[0],
                                        sizeof(turn[0])));
    Need(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &turn[1],
                                        sizeof(turn[1])));
  }

  void Prefer(cublasLtMatmulPreferenceAttributes_t attribute, const void* value, size_t bytes) {
    if (ok) Need(cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes));
  }

  void MakePreference(const DenseProduct& spec) {
    Need(cublasLtMatmulPreferenceCreate(&preference));
    Prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kMaxScratch, sizeof(kMaxScratch));
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE |
                                CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    Prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof(reductions));
    const auto alignment = [&](int64_t elements, DType dtype) {
      return static_cast<uint32_t>(EntryAlignment(spec, elements, dtype));
    };
    const uint32_t b = alignment(spec.k * spec.n, spec.in), a = alignment(spec.m * spec.k, spec.in);
    const uint32_t y = alignment(spec.m * spec.n, spec.out);
    Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b, sizeof(b));
    Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a, sizeof(a));
    Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &y, sizeof(y));
    Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &y, sizeof(y));
  }
};

CublasLtProduct::CublasLtProduct(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
CublasLtProduct::~CublasLtProduct() = default;

std::shared_ptr<const CublasLtProduct> CublasLtProduct::Create(const DenseProduct& spec) {
  if (spec.batch > INT32_MAX) return nullptr;
  auto parts = std::make_unique<Parts>();
  parts->handle = HandleOfDevice();
  if (parts->handle == nullptr) return nullptr;
  const ColumnMajorGemm gemm = ToColumnMajor(spec);
  parts->beta = spec.accumulate ? 1.0f : 0.0f;
  parts->MakeOperation(gemm);
  parts->MakeLayout(parts->first, gemm.first, spec.in, spec.batch);
  parts->MakeLayout(parts->second, gemm.second, spec.in, spec.batch);
  parts->MakeLayout(parts->result, gemm.result, spec.out, spec.batch);
  parts->MakePreference(spec);
  if (!parts->ok) return nullptr;
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      parts->handle, parts->operation, parts->first, parts->second, parts->result, parts->result,
      parts->preference, 1, &parts->choice, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) return nullptr;
  return std::shared_ptr<const CublasLtProduct>(new CublasLtProduct(std::move(parts)));
}

int64_t CublasLtProduct::scratch_bytes() const {
  const int64_t bytes = static_cast<int64_t>(parts_->choice.workspaceSize);
  return bytes > 0 ? bytes + static_cast<int64_t>(kScratchAlignment) : 0;
}

void CublasLtProduct::Run(CudaQueue& queue, const void* a, const void* b, void* y,
                          void* scratch) const {
  const float alpha = 1;
  const uint64_t address = reinterpret_cast<uint64_t>(scratch);
  void* aligned = reinterpret_cast<void*>((address + kScratchAlignment - 1) / kScratchAlignment *
                                          kScratchAlignment);
  const cublasStatus_t status = cublasLtMatmul(
      parts_->handle, parts_->operation, &alpha, b, parts_->first, a, parts_->second, &parts_->beta,
      y, parts_->result, y, parts_->result, &parts_->choice.algo, aligned,
      parts_->choice.workspaceSize, static_cast<cudaStream_t>(queue.stream));
  if (status == CUBLAS_STATUS_SUCCESS || queue.failed != nullptr) return;
  queue.failed = "cublasLtMatmul";
  queue.error = status;
}

}  // namespace colossus::cuda
