//@kernelforge 1
// The library's product, which adds the residual itself: no kernel of its own.
//@call matmul(D=y, A=x, B=w^T, C=r)
