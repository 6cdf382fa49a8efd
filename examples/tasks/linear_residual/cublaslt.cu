//@kernelforge 1
// The library's product, which adds the residual itself.
//@call matmul(D=y, A=x, B=w^T, C=r)
