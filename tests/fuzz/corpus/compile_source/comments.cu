/* comment
   over lines */
#include <cuda_fp16.h>

extern "C" __global__ void k(float* x) {
    x[0] = undefined_thing; /* hey */ int unused;
	x[1] = another_bad("tab");
}
