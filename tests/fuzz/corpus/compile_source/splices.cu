#define A 1 /* one
two

*/ + 2
int a = A;
_Pragma("unroll") 
__device__ const char* s = R"x(one
two)" )x";
#if 0
%:define B \  
 1
#endif
