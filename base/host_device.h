// HD marks a small function for use on the host and in device kernels alike.
//
// Both sides get it inlined, so that one functor serves the CPU loop and the device launch.
//
//   struct Square { HD float operator()(float x) const { return x * x; } };
#ifndef COLOSSUS_BASE_HOST_DEVICE_H_
#define COLOSSUS_BASE_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define HD __host__ __device__ __forceinline__
#else
#define HD inline __attribute__((always_inline))
#endif

#endif  // COLOSSUS_BASE_HOST_DEVICE_H_
