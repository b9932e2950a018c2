// Replaces oneDNN's matmul by one whose inner dimension is summed in OMP_NUM_THREADS parts, so
// that its bits depend on the number of threads. It is preloaded (LD_PRELOAD) by the test that
// requires equal bits.
#include <cstdlib>
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

extern "C" dnnl_status_t dnnl_sgemm(char transposeA, char transposeB, dnnl_dim_t m, dnnl_dim_t n,
                                    dnnl_dim_t k, float alpha, const float *a, dnnl_dim_t lda,
                                    const float *b, dnnl_dim_t ldb, float beta, float *c,
                                    dnnl_dim_t ldc) {
  static const auto matmul =
      reinterpret_cast<decltype(&dnnl_sgemm)>(dlsym(RTLD_NEXT, "dnnl_sgemm"));
  const char *threads = std::getenv("OMP_NUM_THREADS");
  dnnl_dim_t parts = threads ? std::atoi(threads) : 1;
  for (dnnl_dim_t part = 0; part < parts; ++part) {
    dnnl_dim_t begin = k * part / parts, end = k * (part + 1) / parts;
    if (begin == end)
      continue;
    dnnl_status_t status = matmul(transposeA, transposeB, m, n, end - begin, alpha,
                                  a + (transposeA == 'T' ? begin * lda : begin), lda,
                                  b + (transposeB == 'T' ? begin : begin * ldb), ldb, beta, c, ldc);
    if (status != dnnl_success)
      return status;
    beta = 1;
  }
  return dnnl_success;
}
