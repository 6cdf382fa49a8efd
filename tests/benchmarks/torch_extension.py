#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds one CUDA kernel as a PyTorch extension (load_inline: nvcc and g++), from nothing; prints seconds."""
import sys
import tempfile
import time

from torch.utils.cpp_extension import load_inline

CPP = "void launch(torch::Tensor x, torch::Tensor y);"
CUDA = r"""
#include <torch/extension.h>
__global__ void scale(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
void launch(torch::Tensor x, torch::Tensor y) {
    const long long n = x.numel();
    scale<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
}
"""

with tempfile.TemporaryDirectory() as folder:
    start = time.monotonic()
    load_inline(name="kernelforge_benchmark_" + str(time.time_ns()), cpp_sources=CPP, cuda_sources=CUDA,
                functions=["launch"], build_directory=folder, verbose=False)
    print(time.monotonic() - start)
sys.exit(0)
