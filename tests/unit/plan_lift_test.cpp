// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "plan/plan.hpp"
#include "plan_support.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::plan;
using namespace kernelforge::plan::test;

namespace {

const std::string kernels =
    "#include <cuda_runtime.h>\n"
    "#include <torch/extension.h>\n"
    "#include <cuda_bf16.h>\n"
    "constexpr int BLOCK = 256;\n"
    "#define TILE 16\n"
    "__device__ float twice(float v) { return 2 * v; }\n"
    "__global__ void copy(const float* x, float* y, int n) { y[0] = twice(x[0]); }\n"
    "template <int T> __global__ void wide(const float* x, float* y, int n, float scale) {}\n";

std::string why(const std::string& launcher) {
    std::string reason;
    const auto lifted = lift_host_launcher(kernels + launcher, definition(), reason);
    return lifted ? "lifted:\n" + *lifted : reason;
}

/// The plan lines that lifting adds, joined by a bar.
std::string lines(const std::string& launcher) {
    const std::string text = why(launcher);
    std::string result;
    for (std::size_t at = text.find("//@"); at != std::string::npos;
         at = text.find("//@", at + 1)) {
        result += (result.empty() ? "" : " | ") + text.substr(at, text.find('\n', at) - at);
    }
    return result.empty() ? text : result;
}

}  // namespace

TEST_CASE("launchers that can be understood become launch lines", "[plan]") {
    const auto [launcher, expected] = GENERATE(table<std::string, std::string>({
        {"void launch(const float* x, float* y, int rows, cudaStream_t stream) { copy<<<rows, 256, "
         "0, stream>>>(x, y, rows); }",
         "//@launch copy<<<(rows), (256), 0>>>(x, y, rows)"},
        {"extern \"C\" void launch(const float* x, const void* w, float* y, int Rows) {\n  dim3 "
         "grid((Rows + BLOCK - 1) / BLOCK, 2);\n  dim3 block(BLOCK);\n"
         "  copy<<<grid, block>>>(x, y, Rows);\n  cudaDeviceSynchronize();\n}",
         "//@launch copy<<<((rows+(256)-1)/(256), 2), ((256))>>>(x, y, rows)"},
        {"void launch(float* a, float* b, float* out, int batch) { const int threads = TILE * "
         "TILE, n = (int)batch; copy<<<dim3(n, 1, 1), threads, threads * sizeof(float)>>>((const "
         "float*)a, out, n); }",
         "//@launch copy<<<((batch), 1, 1), (((16)*(16))), ((16)*(16))*4>>>(x, y, (batch))"},
        {"torch::Tensor forward(torch::Tensor x, torch::Tensor w) {\n  TORCH_CHECK(x.is_cuda() == "
         "true, \"x\");\n  auto y = torch::empty_like(x);\n  const int64_t n = x.size(0);\n"
         "  const int blocks = std::min<int>(n, static_cast<int>(x.numel() / 4));\n  if (n == 0) "
         "return y;\n"
         "  copy<<<blocks, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), "
         "static_cast<int>(n));\n  return y;\n}\n"
         "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"forward\", &forward); }",
         "//@launch copy<<<((min((rows),(numel(x)/4)))), (128)>>>(x, y, ((rows)))"},
        {"at::Tensor run(at::Tensor x, at::Tensor w, double eps) {\n  auto out = "
         "torch::zeros({x.size(0), x.size(-1)}, x.options());\n  auto xc = x.contiguous();\n"
         "  constexpr int T = 64;\n  wide<T><<<x.sizes()[0], T>>>(reinterpret_cast<const "
         "float*>(xc.data_ptr()), out.data_ptr<float>(), x.stride(0), 1.0f / sqrtf(eps));\n  "
         "return out;\n}",
         "//@memset y 0 | //@launch wide<(64)><<<(rows), ((64))>>>(x, y, stride(x, 0), "
         "1.0f/sqrt(eps))"},
        {"void launch(const float* x, float* y, int rows) { cudaMemsetAsync(y, 0, rows * 4, 0); "
         "copy<<<cdiv(rows, 2), 1>>>(x, y, rows); copy<<<ceil_div(rows, 2), 1>>>(x, y, rows); }",
         "//@memset y 0 | //@launch copy<<<(cdiv(rows,2)), (1)>>>(x, y, rows) | //@launch "
         "copy<<<(cdiv(rows,2)), (1)>>>(x, y, rows)"},
        {"void launch(const float* x, float* y, int rows) { dim3 grid{(unsigned)rows, 1}; dim3 "
         "block = dim3(32); copy<<<grid, block>>>(x, y, rows); }\nint main() { launch(nullptr, "
         "nullptr, 3); }",
         "//@launch copy<<<(rows, 1), (32)>>>(x, y, rows)"},
    }));
    CAPTURE(launcher);
    CHECK(lines(launcher) == expected);
}

TEST_CASE("a lifted text has no host code, and its device code keeps its lines", "[plan]") {
    const std::string launcher =
        "using namespace std;\nvoid launch(const float* x, float* y, int rows) {\n  copy<<<rows, "
        "256>>>(x, y, rows);\n}\n"
        "static void helper(int n) { launch(nullptr, nullptr, n); }\nint main() { helper(3); "
        "return 0; }\n"
        "__device__ int after(int v) { return v; }\n";
    const std::string text = why(launcher).substr(8);
    for (const char* gone :
         {"launch(const", "main", "helper", "torch", "cuda_runtime", "namespace std"}) {
        CAPTURE(gone);
        CHECK(text.find(gone) == std::string::npos);
    }
    for (const char* kept :
         {"cuda_bf16", "constexpr int BLOCK", "#define TILE", "twice", "after"}) {
        CAPTURE(kept);
        CHECK(text.find(kept) != std::string::npos);
    }
    const std::string before = kernels + launcher;
    CHECK(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("after")),
                     '\n') ==
          std::count(before.begin(),
                     before.begin() + static_cast<std::ptrdiff_t>(before.find("after")), '\n'));
    CHECK(has_plan(text));
}

TEST_CASE("launchers that could mean something else are refused with the reason", "[plan]") {
    const auto [launcher, expected] = GENERATE(table<std::string, std::string>({
        {"", "there is no host function with kernel<<<…>>>(…)"},
        {"//@launch copy<<<1, 1>>>(x, y, 1)", "the text has //@launch lines already"},
        {"void a(float* x) { copy<<<1, 1>>>(x, x, 1); } void b(float* x) { copy<<<1, 1>>>(x, x, "
         "1); }",
         "several host functions launch kernels: 'a' and 'b'"},
        {"void launch(const float* x, float* y, int n) { copy<<<1, 1>>>(x, y, n); }",
         "cannot tell what 'n' is: no axis or scalar input"},
        {"void launch(const float* x, float* z, int rows) { copy<<<1, 1>>>(x, z, rows); }",
         "cannot tell what 'z' is: the launcher has 2 buffers, the definition has 3"},
        {"void launch(const float* w, const float* x, float* y, int rows) { copy<<<1, 1>>>(x, y, "
         "rows); }",
         "lifted"},
        {"void launch(const float* w, const float* q, float* y, int rows) { copy<<<1, 1>>>(q, y, "
         "rows); }",
         "the launcher's parameter 'w' stands where the definition has 'x'"},
        {"void launch(const float* x, const float* w, const float* o, int rows) { copy<<<1, "
         "1>>>(x, o, rows); }",
         "is a pointer to const and stands for the output 'y'"},
        {"void launch(const float* x, float* y, int rows) { for (int i = 0; i < 3; ++i) copy<<<1, "
         "1>>>(x, y, rows); }",
         "in a branch, loop or lambda of 'launch'"},
        {"void launch(const float* x, float* y, int rows) { if (rows > 3) { copy<<<1, 1>>>(x, y, "
         "rows); } else { copy<<<2, 1>>>(x, y, rows); } }",
         "in a branch, loop or lambda"},
        {"void launch(const float* x, float* y, int rows) { DISPATCH(x, [&] { copy<<<1, 1>>>(x, y, "
         "rows); }); }",
         "in a branch, loop or lambda"},
        {"void launch(const float* x, float* y, int rows) { int t = 256; if (rows < 256) t = 64; "
         "copy<<<rows, t>>>(x, y, rows); }",
         "'t' is changed after its declaration"},
        {"void launch(const float* x, float* y, int rows) { int t = 256; t *= 2; copy<<<rows, "
         "t>>>(x, y, rows); }",
         "'t' is changed after its declaration"},
        {"void launch(const float* x, float* y, int rows) { int t = 0; occupancy(&t, 3); "
         "copy<<<rows, t>>>(x, y, rows); }",
         "'t' is changed after its declaration"},
        {"void launch(const float* x, float* y, int rows) { dim3 g(1); g.x = 3; copy<<<g, 1>>>(x, "
         "y, rows); }",
         "'g' is changed after its declaration"},
        {"void launch(const float* x, float* y, int rows) { float* t; cudaMalloc(&t, 4); copy<<<1, "
         "1>>>(x, t, rows); }",
         "uses cudaMalloc"},
        {"void launch(const float* x, float* y, int rows) { copy<<<pick(rows), 1>>>(x, y, rows); }",
         "calls 'pick'"},
        {"void launch(const float* x, float* y, int rows) { copy<<<rows, other>>>(x, y, rows); }",
         "cannot tell what 'other' is"},
        {"void launch(const float* x, float* y, int rows) { int a = a; copy<<<a, 1>>>(x, y, rows); "
         "}",
         "nest too deep"},
        {"void launch(const float* x, float* y, int rows) { copy<<<rows, sizeof(x)>>>(x, y, rows); "
         "}",
         "cannot tell the size of 'x'"},
        {"void launch(const float* x, float* y, int rows) { copy<<<rows, 1>>>(x, y); }",
         "expected 3 arguments"},
        {"void launch(const float* x, float* y, int rows) { wide<4><<<rows, 1>>>(x, y, rows, rows "
         "/ 3); }",
         "cannot tell whether 'rows/3' divides integers"},
        {"template <class T> void launch(const T* x, T* y, int rows) { copy<<<rows, 1>>>(x, y, "
         "rows); }",
         "the launcher 'launch' is a template"},
        {"torch::Tensor f(torch::Tensor x, torch::Tensor w) { auto t = torch::empty({4}); auto y = "
         "torch::empty_like(x); copy<<<1, 1>>>(t.data_ptr<float>(), y.data_ptr<float>(), 3); "
         "return y; }",
         "cannot tell what 't' is"},
        {"void launch(const float* x, float* y, int rows) { copy<<<rows",
         "there is no host function"},
        {"void launch(const float* x, float* y, int rows) { copy<<<rows; }", "has no '>>>('"},
    }));
    CAPTURE(launcher);
    CHECK_THAT(why(launcher), ContainsSubstring(expected));
}

TEST_CASE("reading a launcher takes no time on hostile text", "[plan]") {
    std::string reason;
    for (const char* part :
         {"(", "{", "void f(", "a<", "<<<", "f(){", "x=x;", "dim3 a(", "#", "template<"}) {
        std::string text;
        while (text.size() < 200000) text += part;
        CHECK_FALSE(lift_host_launcher(text, definition(), reason));
        CHECK_FALSE(
            lift_host_launcher("void f(float* x) { k<<<1,1>>>(x); " + text, definition(), reason));
        CHECK_FALSE(lift_host_launcher("void f(float* x) { k<<<1,1>>>(" + text + ");}",
                                       definition(), reason));
    }
}
