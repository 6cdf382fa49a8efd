//@kernelforge 1
// The library's product in fp32.
//@call matmul(D=c, A=a, B=b, compute=f32)
