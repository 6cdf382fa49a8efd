#if 0
R"(
#endif
#error rawskip
)"
#endif
extern "C" __global__ void k(float*x){ }
