// SPDX-License-Identifier: Apache-2.0
#include "worker/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "base/files.hpp"
#include "kernelforge/definition.hpp"
#include "referee/device/elements.hpp"
#include "support/catch.hpp"
#include "worker/library_shapes.hpp"
#include "worker/measure_device.hpp"

using namespace kernelforge;
using namespace kernelforge::worker;

namespace {

using Shape = std::vector<std::int64_t>;
using Argument = plan::ResolvedCallArgument;
using Kind = plan::CallArgument::Kind;

DType dtype_of(const std::string& name) {
    static const std::map<std::string, DType> types = {
        {"f64", DType::float64},   {"f32", DType::float32},        {"f16", DType::float16},
        {"bf16", DType::bfloat16}, {"e4m3", DType::float8_e4m3fn}, {"e5m2", DType::float8_e5m2},
        {"i32", DType::int32},     {"i64", DType::int64}};
    return types.at(name);
}

double decoded(const std::string& dtype, const std::byte* at) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, at, library::element_bytes(dtype));
    return referee::decode(static_cast<std::uint32_t>(dtype_of(dtype)), bits);
}

/// A buffer on the device with the host's view of it.
struct Buffer {
    std::string name;
    std::string dtype;
    Shape shape;
    CUdeviceptr address = 0;
    std::vector<std::byte> host;

    [[nodiscard]] std::size_t count() const {
        return static_cast<std::size_t>(
            std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
    }
    [[nodiscard]] double at(std::size_t index) const {
        return decoded(dtype, host.data() + index * library::element_bytes(dtype));
    }
};

/// Libraries with a stream in a context of this process; only trusted code runs in it.
class Bench {
  public:
    explicit Bench(const std::string& cache_folder = "") : driver_(load_driver()) {
        REQUIRE(driver_ != nullptr);
        check(driver_->cuInit(0));
        info_ = list_devices(*driver_).at(0);
        check(driver_->cuDeviceGet(&device_, 0));
        check(driver_->cuDevicePrimaryCtxRetain(&context_, device_));
        check(driver_->cuCtxSetCurrent(context_));
        check(driver_->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
        void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
        upload_ = reinterpret_cast<Upload>(::dlsym(library, "cuMemcpyHtoD_v2"));
        REQUIRE(upload_ != nullptr);
        LibraryOptions options;
        options.cache_folder = cache_folder;
#ifdef KERNELFORGE_TEST_LIBRARY_FOLDER
        options.folders = {KERNELFORGE_TEST_LIBRARY_FOLDER};
#endif
        // More folders with the libraries, separated by colons.
        if (const char* text = std::getenv("KERNELFORGE_TEST_LIBRARY_FOLDERS")) {
            std::string folders(text);
            for (std::size_t colon = 0; !folders.empty();
                 folders.erase(0, std::min(colon, folders.size() - 1) + 1)) {
                colon = folders.find(':');
                options.folders.push_back(folders.substr(0, colon));
            }
        }
        libraries_ = open_libraries(*driver_, info_, stream_, options);
    }
    ~Bench() {
        libraries_.reset();
        for (const CUdeviceptr address : memory_) driver_->cuMemFree(address);
        driver_->cuStreamDestroy(stream_);
        driver_->cuDevicePrimaryCtxRelease(device_);
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;

    /// `make(i)` gives element i.
    template <class F>
    Buffer& add(const std::string& name, const std::string& dtype, Shape shape, F&& make) {
        Buffer& buffer = buffers_[name];
        buffer = {name, dtype, std::move(shape), 0, {}};
        const std::size_t bytes = library::element_bytes(dtype);
        buffer.host.resize(buffer.count() * bytes);
        for (std::size_t i = 0; i < buffer.count(); ++i) {
            const std::uint64_t bits =
                referee::encode(static_cast<std::uint32_t>(dtype_of(dtype)), make(i));
            std::memcpy(buffer.host.data() + i * bytes, &bits, bytes);
        }
        buffer.address = allocate(buffer.host.size());
        check(upload_(buffer.address, buffer.host.data(), buffer.host.size()));
        addresses_[name] = buffer.address;
        return buffer;
    }
    Buffer& random(const std::string& name, const std::string& dtype, Shape shape) {
        std::uniform_real_distribution<double> value(-1.0, 1.0);
        return add(name, dtype, std::move(shape), [&](std::size_t) { return value(generator_); });
    }
    /// Filled with bits that no right result has.
    Buffer& output(const std::string& name, const std::string& dtype, Shape shape) {
        return add(name, dtype, std::move(shape), [](std::size_t) { return -77.0; });
    }
    Buffer& operator[](const std::string& name) {
        return buffers_.at(name);
    }
    [[nodiscard]] Argument buffer(const std::string& key, const std::string& name,
                                  bool transposed = false) const {
        const Buffer& buffer = buffers_.at(name);
        Argument argument;
        argument.key = key;
        argument.name = name;
        argument.dtype = buffer.dtype;
        argument.shape = buffer.shape;
        argument.transposed = transposed;
        return argument;
    }

    /// Makes the step, checks its scratch, runs it twice with a poisoned workspace and reads all
    /// buffers back. Returns what the step says of itself.
    std::string run(const std::string& function, std::vector<Argument> arguments) {
        plan::ResolvedCall call;
        call.function = function;
        call.arguments = std::move(arguments);
        const auto start = std::chrono::steady_clock::now();
        const std::unique_ptr<LibraryStep> step = libraries_->make(call);
        made_in_s_ =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const std::size_t bytes = std::max<std::size_t>(step->workspace_bytes(), 1);
        const CUdeviceptr workspace = allocate(bytes);
        check(driver_->cuMemsetD8Async(workspace, 0xff, bytes, stream_));
        step->enqueue(stream_, addresses_, workspace);
        check(driver_->cuCtxSynchronize());
        for (auto& [name, buffer] : buffers_) {
            check(driver_->cuMemcpyDtoHAsync(buffer.host.data(), buffer.address, buffer.host.size(),
                                             stream_));
        }
        check(driver_->cuCtxSynchronize());
        return step->describe();
    }
    [[nodiscard]] double made_in_s() const {
        return made_in_s_;
    }
    [[nodiscard]] const DeviceInfo& info() const {
        return info_;
    }

  private:
    using Upload = CUresult (*)(CUdeviceptr, const void*, std::size_t);

    CUdeviceptr allocate(std::size_t bytes) {
        CUdeviceptr address = 0;
        check(driver_->cuMemAlloc(&address, bytes));
        memory_.push_back(address);
        return address;
    }
    void check(CUresult result) const {
        driver_->check(result, "library test");
    }

    std::unique_ptr<const Driver> driver_;
    DeviceInfo info_;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    CUstream stream_ = nullptr;
    Upload upload_ = nullptr;
    std::unique_ptr<Libraries> libraries_;
    std::vector<CUdeviceptr> memory_;
    std::map<std::string, Buffer> buffers_;
    Addresses addresses_;
    std::mt19937_64 generator_{5};
    double made_in_s_ = 0.0;
};

Argument integer(const std::string& key, std::int64_t value) {
    Argument argument;
    argument.key = key;
    argument.kind = Kind::integer;
    argument.integer = value;
    return argument;
}

Argument floating(const std::string& key, double value) {
    Argument argument;
    argument.key = key;
    argument.kind = Kind::floating;
    argument.floating = value;
    return argument;
}

Argument word(const std::string& key, const std::string& value) {
    Argument argument;
    argument.key = key;
    argument.kind = Kind::word;
    argument.name = value;
    return argument;
}

struct Difference {
    double rms = 0.0;    ///< of the error, over the rms of the reference
    double worst = 0.0;  ///< largest absolute error
    std::size_t at = 0;
    double found = 0.0;
    double expected = 0.0;
};

Difference compare(const Buffer& found, const std::vector<double>& expected) {
    REQUIRE(found.count() == expected.size());
    Difference difference;
    double errors = 0.0;
    double values = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double error = std::abs(found.at(i) - expected[i]);
        errors += error * error;
        values += expected[i] * expected[i];
        if (!(error <= difference.worst)) {
            difference.worst = error;
            difference.at = i;
            difference.found = found.at(i);
            difference.expected = expected[i];
        }
    }
    difference.rms = std::sqrt(errors / std::max(values, 1e-300));
    return difference;
}

/// One rounding of the output type is 2^-9 of bf16, 2^-12 of f16, 2^-25 of f32, of which the rms is
/// below a half; sums of a few hundred products in f32 add some 1e-7.
void expect_close(const Buffer& found, const std::vector<double>& expected, double rms_limit,
                  const std::string& description) {
    const Difference difference = compare(found, expected);
    INFO(description);
    INFO(fmt::format("{}[{}]: found {}, expected {}; rms error {:.3g}, limit {:.3g}", found.name,
                     difference.at, difference.found, difference.expected, difference.rms,
                     rms_limit));
    CHECK(difference.rms <= rms_limit);
}

struct Product {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t batch = 1;
    bool a_transposed = false;
    bool b_transposed = false;
};

/// op(A) op(B) of the host's copies.
std::vector<double> product(const Buffer& a, const Buffer& b, const Product& p) {
    std::vector<double> result(static_cast<std::size_t>(p.batch * p.m * p.n));
    const auto element = [](const Buffer& buffer, std::int64_t index) {
        return buffer.at(static_cast<std::size_t>(index));
    };
    for (std::int64_t g = 0; g < p.batch; ++g) {
        for (std::int64_t i = 0; i < p.m; ++i) {
            for (std::int64_t j = 0; j < p.n; ++j) {
                double sum = 0.0;
                for (std::int64_t l = 0; l < p.k; ++l) {
                    const std::int64_t in_a = p.a_transposed ? l * p.m + i : i * p.k + l;
                    const std::int64_t in_b = p.b_transposed ? j * p.k + l : l * p.n + j;
                    sum += element(a, g * p.m * p.k + in_a) * element(b, g * p.k * p.n + in_b);
                }
                result[static_cast<std::size_t>((g * p.m + i) * p.n + j)] = sum;
            }
        }
    }
    return result;
}

constexpr double bf16_limit = 3e-3;
constexpr double f32_limit = 1e-6;
/// Tensor cores drop the last bits of what they add up in f32.
constexpr double tensor_core_limit = 5e-6;

}  // namespace

TEST_CASE("cublasLt: bf16 linear layer with bias and relu", "[library][gpu]") {
    Bench bench;
    const Product p{192, 320, 256, 1, false, true};
    const Buffer& a = bench.random("x", "bf16", {4, 48, 256});
    const Buffer& b = bench.random("w", "bf16", {320, 256});
    const Buffer& bias = bench.random("b", "bf16", {320});
    bench.output("y", "bf16", {4, 48, 320});
    std::vector<double> expected = product(a, b, p);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = std::max(0.0, expected[i] + bias.at(i % 320));
    }
    const std::string text = bench.run(
        "matmul", {bench.buffer("D", "y"), bench.buffer("A", "x"), bench.buffer("B", "w", true),
                   bench.buffer("bias", "b"), word("epilogue", "relu")});
    expect_close(bench["y"], expected, bf16_limit, text);
    CHECK_THAT(text, ContainsSubstring("cublasLt "));
}

TEST_CASE("cublasLt: C is added with its factor, apart and in place, and gelu is the tanh one",
          "[library][gpu]") {
    Bench bench;
    const Product p{128, 256, 64, 1, true, false};
    const Buffer& a = bench.random("a", "f16", {64, 128});
    const Buffer& b = bench.random("b", "f16", {64, 256});
    const Buffer c = bench.random("c", "f32", {128, 256});
    bench.output("d", "f32", {128, 256});
    std::vector<double> expected = product(a, b, p);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = 0.5 * expected[i] - 2.0 * c.at(i);
    }
    const auto arguments = [&](const char* d, const char* epilogue) {
        return std::vector<Argument>{bench.buffer("D", d),      bench.buffer("A", "a", true),
                                     bench.buffer("B", "b"),    bench.buffer("C", "c"),
                                     floating("alpha", 0.5),    floating("beta", -2.0),
                                     word("epilogue", epilogue)};
    };
    std::string text = bench.run("matmul", arguments("d", "none"));
    expect_close(bench["d"], expected, tensor_core_limit, text);
    std::vector<double> activated = expected;
    for (double& x : activated) {
        x = 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    }
    text = bench.run("matmul", arguments("d", "gelu"));
    // tanh.approx of the epilogue is good to some 2^-11.
    expect_close(bench["d"], activated, 1e-3, text);
    text = bench.run("matmul", arguments("c", "none"));
    expect_close(bench["c"], expected, tensor_core_limit, text);
}

TEST_CASE("cublasLt: f32 is not rounded to tf32 unless that is asked for", "[library][gpu]") {
    Bench bench;
    const Product p{256, 256, 512, 1, false, false};
    const Buffer& a = bench.random("a", "f32", {256, 512});
    const Buffer& b = bench.random("b", "f32", {512, 256});
    bench.output("d", "f32", {256, 256});
    const std::vector<double> expected = product(a, b, p);
    const std::vector<Argument> plain = {bench.buffer("D", "d"), bench.buffer("A", "a"),
                                         bench.buffer("B", "b")};
    std::string text = bench.run("matmul", plain);
    expect_close(bench["d"], expected, f32_limit, text);
    std::vector<Argument> rounded = plain;
    rounded.push_back(word("compute", "tf32"));
    text = bench.run("matmul", rounded);
    expect_close(bench["d"], expected, 1e-3, text);
    INFO(text);
    // A tf32 operand has 11 bits: an error that is not there would mean that it was ignored.
    CHECK(compare(bench["d"], expected).rms > f32_limit);
}

TEST_CASE("cublasLt: batches and f64", "[library][gpu]") {
    Bench bench;
    const Product p{40, 56, 72, 3, false, true};
    for (const std::string type : {"f64", "bf16"}) {
        const Buffer& a = bench.random("a", type, {3, 40, 72});
        const Buffer& b = bench.random("b", type, {3, 56, 72});
        bench.output("d", type, {3, 40, 56});
        const std::vector<double> expected = product(a, b, p);
        const std::string text =
            bench.run("matmul", {bench.buffer("D", "d"), bench.buffer("A", "a"),
                                 bench.buffer("B", "b", true), integer("batch", 3)});
        expect_close(bench["d"], expected, type == "f64" ? 1e-14 : bf16_limit, text);
    }
}

TEST_CASE("cublasLt: 8-bit floats with scales", "[library][gpu]") {
    Bench bench;
    const Product p{128, 192, 256, 1, false, true};
    const Buffer& a = bench.random("a", "e4m3", {128, 256});
    const Buffer& b = bench.random("b", "e4m3", {192, 256});
    bench.add("sa", "f32", {1}, [](std::size_t) { return 0.5; });
    bench.add("sb", "f32", {1}, [](std::size_t) { return 3.0; });
    bench.output("d", "bf16", {128, 192});
    std::vector<double> expected = product(a, b, p);
    for (double& x : expected) x *= 1.5;
    const std::string text = bench.run(
        "matmul", {bench.buffer("D", "d"), bench.buffer("A", "a"), bench.buffer("B", "b", true),
                   bench.buffer("A_scale", "sa"), bench.buffer("B_scale", "sb")});
    expect_close(bench["d"], expected, bf16_limit, text);
}

TEST_CASE("cublasLt: the sweep tries what was asked for and its choice is kept", "[library][gpu]") {
    const TemporaryFolder cache;
    struct Case {
        const char* dtype;
        std::int64_t m, n, k;
    };
    fmt::print("{:>6} {:>6} {:>6} {:>6}  sweep\n", "type", "m", "n", "k");
    for (const Case& each : {Case{"bf16", 128, 4096, 4096}, Case{"bf16", 2048, 4096, 4096},
                             Case{"f16", 16, 8192, 1024}, Case{"f32", 512, 512, 512}}) {
        const auto make = [&](Bench& bench) {
            bench.output("d", each.dtype, {each.m, each.n});
            bench.output("a", each.dtype, {each.m, each.k});
            bench.output("b", each.dtype, {each.n, each.k});
            return bench.run("matmul", {bench.buffer("D", "d"), bench.buffer("A", "a"),
                                        bench.buffer("B", "b", true)});
        };
        std::string first;
        {
            Bench bench(cache.path().string());
            first = make(bench);
            fmt::print("{:>6} {:>6} {:>6} {:>6}  {}; made in {:.2f} s\n", each.dtype, each.m,
                       each.n, each.k, first, bench.made_in_s());
            CHECK_THAT(first, ContainsSubstring("fastest of "));
            // Of f32 without tensor cores the library has fewer.
            const int least = std::string(each.dtype) == "f32" ? 20 : 100;
            CHECK(std::atoi(first.c_str() + first.find("fastest of ") + 11) >= least);
            CHECK(bench.made_in_s() < 5.0);
        }
        Bench again(cache.path().string());
        const std::string second = make(again);
        CHECK(second == first + ", kept");
        CHECK(again.made_in_s() < 1.0);
    }
}

TEST_CASE("library errors name the call, the library and what does not fit", "[library][gpu]") {
    Bench bench;
    bench.output("d", "f32", {8, 8});
    bench.output("a", "i32", {8, 8});
    CHECK_THROWS_WITH(bench.run("matmul", {bench.buffer("D", "d"), bench.buffer("A", "a"),
                                           bench.buffer("B", "a")}),
                      ContainsSubstring("cublasLt: there is no matmul of i32"));
    CHECK_THROWS_WITH(bench.run("fft", {}), ContainsSubstring("no library function 'fft'"));
}

namespace {

struct Attention {
    std::int64_t batch, heads, kv_heads, q_len, kv_len, dim;
    bool causal;
    double scale;
};

/// Row of a buffer [batch, len, heads, dim] with a row stride.
struct RowsOf {
    const Buffer& buffer;
    std::int64_t offset, stride;
    [[nodiscard]] double at(std::int64_t row, std::int64_t head, std::int64_t dim,
                            std::int64_t d) const {
        return buffer.at(static_cast<std::size_t>(offset + row * stride + head * dim + d));
    }
};

void attention(const Attention& a, const RowsOf& q, const RowsOf& k, const RowsOf& v,
               std::vector<double>& o, std::vector<double>& lse) {
    o.assign(static_cast<std::size_t>(a.batch * a.q_len * a.heads * a.dim), 0.0);
    lse.assign(static_cast<std::size_t>(a.batch * a.heads * a.q_len), 0.0);
    std::vector<double> scores(static_cast<std::size_t>(a.kv_len));
    for (std::int64_t b = 0; b < a.batch; ++b) {
        for (std::int64_t h = 0; h < a.heads; ++h) {
            const std::int64_t kv_head = h / (a.heads / a.kv_heads);
            for (std::int64_t i = 0; i < a.q_len; ++i) {
                const std::int64_t visible = a.causal ? i + 1 : a.kv_len;
                double sum = 0.0;
                for (std::int64_t j = 0; j < visible; ++j) {
                    double dot = 0.0;
                    for (std::int64_t d = 0; d < a.dim; ++d) {
                        dot += q.at(b * a.q_len + i, h, a.dim, d) *
                               k.at(b * a.kv_len + j, kv_head, a.dim, d);
                    }
                    scores[static_cast<std::size_t>(j)] = std::exp(a.scale * dot);
                    sum += scores[static_cast<std::size_t>(j)];
                }
                lse[static_cast<std::size_t>((b * a.heads + h) * a.q_len + i)] = std::log(sum);
                for (std::int64_t d = 0; d < a.dim; ++d) {
                    double value = 0.0;
                    for (std::int64_t j = 0; j < visible; ++j) {
                        value += scores[static_cast<std::size_t>(j)] / sum *
                                 v.at(b * a.kv_len + j, kv_head, a.dim, d);
                    }
                    o[static_cast<std::size_t>(((b * a.q_len + i) * a.heads + h) * a.dim + d)] =
                        value;
                }
            }
        }
    }
}

std::vector<Argument> sizes(const Attention& a) {
    return {integer("batch", a.batch),           integer("heads", a.heads),
            integer("kv_heads", a.kv_heads),     integer("q_len", a.q_len),
            integer("kv_len", a.kv_len),         integer("dim", a.dim),
            integer("causal", a.causal ? 1 : 0), floating("scale", a.scale)};
}

}  // namespace

TEST_CASE("cudnn: attention over one packed buffer with grouped heads, causal and not",
          "[library][gpu]") {
    for (const bool causal : {true, false}) {
        for (const std::string dtype : {"bf16", "f16"}) {
            Bench bench;
            const Attention a{2, 4, 2, 200, 200, 64, causal, 0.125};
            const std::int64_t row = (a.heads + 2 * a.kv_heads) * a.dim;
            const Buffer& qkv = bench.random("qkv", dtype, {a.batch, a.q_len, row});
            bench.output("o", dtype, {a.batch, a.q_len, a.heads, a.dim});
            bench.output("lse", "f32", {a.batch, a.heads, a.q_len});
            std::vector<double> o;
            std::vector<double> lse;
            const std::int64_t k_offset = a.heads * a.dim;
            const std::int64_t v_offset = k_offset + a.kv_heads * a.dim;
            attention(a, {qkv, 0, row}, {qkv, k_offset, row}, {qkv, v_offset, row}, o, lse);
            std::vector<Argument> arguments = sizes(a);
            for (Argument& each : std::vector<Argument>{
                     bench.buffer("O", "o"), bench.buffer("Q", "qkv"), bench.buffer("K", "qkv"),
                     bench.buffer("V", "qkv"), bench.buffer("lse", "lse"), integer("q_stride", row),
                     integer("k_stride", row), integer("v_stride", row),
                     integer("k_offset", k_offset), integer("v_offset", v_offset)}) {
                arguments.push_back(each);
            }
            const std::string text = bench.run("sdpa", arguments);
            fmt::print("sdpa {} {}: {}; made in {:.2f} s\n", dtype, causal ? "causal" : "full",
                       text, bench.made_in_s());
            // Probabilities are rounded to the operands' type too.
            expect_close(bench["o"], o, dtype == "bf16" ? 8e-3 : 1e-3, text);
            expect_close(bench["lse"], lse, 1e-4, text);
        }
    }
}

TEST_CASE("cudnn: attention of few queries over many keys, without lse", "[library][gpu]") {
    Bench bench;
    const Attention a{3, 4, 4, 16, 384, 128, false, 0.088388};
    const Buffer& q = bench.random("q", "bf16", {a.batch, a.q_len, a.heads, a.dim});
    const Buffer& k = bench.random("k", "bf16", {a.batch, a.kv_len, a.heads, a.dim});
    const Buffer& v = bench.random("v", "bf16", {a.batch, a.kv_len, a.heads, a.dim});
    bench.output("o", "bf16", {a.batch, a.q_len, a.heads, a.dim});
    std::vector<double> o;
    std::vector<double> lse;
    const std::int64_t row = a.heads * a.dim;
    attention(a, {q, 0, row}, {k, 0, row}, {v, 0, row}, o, lse);
    std::vector<Argument> arguments = sizes(a);
    for (const auto& [key, name] :
         std::map<std::string, std::string>{{"O", "o"}, {"Q", "q"}, {"K", "k"}, {"V", "v"}}) {
        arguments.push_back(bench.buffer(key, name));
    }
    const std::string text = bench.run("sdpa", arguments);
    expect_close(bench["o"], o, 8e-3, text);
}

TEST_CASE("reduce: every operation and type, rows short and long, and columns", "[library][gpu]") {
    struct Case {
        std::int64_t outer, n, inner;
    };
    Bench bench;
    for (const std::string dtype : {"f32", "f64", "f16", "bf16", "i32", "i64"}) {
        for (const std::string op : {"sum", "max", "min", "mean"}) {
            const bool whole = dtype[0] == 'i';
            if (whole && op == "mean") continue;
            for (const Case& c : {Case{7, 100, 1}, Case{3, 5001, 1}, Case{1, 300'007, 1},
                                  Case{2, 333, 17}, Case{2, 70, 256}, Case{1, 20'000, 8}}) {
                std::mt19937_64 generator(9);
                const Buffer& a = bench.add("a", dtype, {c.outer, c.n, c.inner}, [&](std::size_t) {
                    return static_cast<double>(generator() % 2001) / (whole ? 1.0 : 1000.0) -
                           (whole ? 1000.0 : 1.0);
                });
                // The accumulator's type, so that a sum is not lost in its rounding.
                const std::string wide = dtype == "f64" ? "f64" : whole ? "i64" : "f32";
                bench.output("d", wide, {c.outer, c.inner});
                std::vector<double> expected;
                double scale = 1e-300;
                for (std::int64_t o = 0; o < c.outer; ++o) {
                    for (std::int64_t i = 0; i < c.inner; ++i) {
                        double sum = 0.0;
                        double size = 0.0;
                        double most = -1e300;
                        double least = 1e300;
                        for (std::int64_t j = 0; j < c.n; ++j) {
                            const double x =
                                a.at(static_cast<std::size_t>((o * c.n + j) * c.inner + i));
                            sum += x;
                            size += std::abs(x);
                            most = std::max(most, x);
                            least = std::min(least, x);
                        }
                        const double n = static_cast<double>(c.n);
                        expected.push_back(op == "sum"   ? sum
                                           : op == "max" ? most
                                           : op == "min" ? least
                                                         : sum / n);
                        scale = std::max(scale, op == "mean" ? size / n : size);
                    }
                }
                const std::string text =
                    bench.run("reduce", {bench.buffer("D", "d"), bench.buffer("A", "a"),
                                         word("op", op), integer("outer", c.outer),
                                         integer("n", c.n), integer("inner", c.inner)});
                const Difference difference = compare(bench["d"], expected);
                INFO(fmt::format("{} {} of [{}, {}, {}]: {}: found {}, expected {}", dtype, op,
                                 c.outer, c.n, c.inner, text, difference.found,
                                 difference.expected));
                // Exact but for sums of floats, whose error is relative to the sum of magnitudes.
                const bool exact = whole || op == "max" || op == "min";
                const double unit = dtype == "f64" ? 1e-15 : 1e-6;
                CHECK(difference.worst <= (exact ? 0.0 : unit * scale));
            }
        }
    }
}

TEST_CASE("reduce: a NaN is the largest and the least, and narrow results are rounded once",
          "[library][gpu]") {
    Bench bench;
    const Buffer& a = bench.add("a", "bf16", {3, 64}, [](std::size_t i) {
        return i == 70 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(i);
    });
    bench.output("d", "bf16", {3});
    const std::string text =
        bench.run("reduce", {bench.buffer("D", "d"), bench.buffer("A", "a"), word("op", "max"),
                             integer("outer", 3), integer("n", 64)});
    INFO(text);
    CHECK(bench["d"].at(0) == a.at(63));
    CHECK(std::isnan(bench["d"].at(1)));
    CHECK(bench["d"].at(2) == a.at(191));
}

TEST_CASE("sort: runs of every length, both orders, stable with their values", "[library][gpu]") {
    struct Case {
        std::int64_t rows, n;
    };
    Bench bench;
    for (const std::string dtype : {"f32", "bf16", "f16", "i32", "i64", "f64"}) {
        for (const bool descending : {false, true}) {
            for (const std::string values : {"", "i32", "i64"}) {
                for (const Case& c :
                     {Case{5, 1}, Case{300, 100}, Case{9, 1024}, Case{3, 5000}, Case{2, 4096},
                      Case{2, 8192}, Case{3, 8193}, Case{1, 300'001}}) {
                    std::mt19937_64 generator(3);
                    // Few different keys, so that stability shows; both zeros among them.
                    const Buffer& a = bench.add("a", dtype, {c.rows, c.n}, [&](std::size_t i) {
                        const double key = static_cast<double>(generator() % 601) - 300.0;
                        return key == 0.0 && i % 2 == 0 ? -0.0 : key;
                    });
                    bench.output("d", dtype, {c.rows, c.n});
                    std::vector<Argument> arguments = {bench.buffer("D", "d"),
                                                       bench.buffer("A", "a"), integer("n", c.n),
                                                       integer("descending", descending ? 1 : 0)};
                    if (!values.empty()) {
                        bench.add("v", values, {c.rows, c.n},
                                  [](std::size_t i) { return static_cast<double>(3 * i + 1); });
                        bench.output("w", values, {c.rows, c.n});
                        arguments.push_back(bench.buffer("values", "v"));
                        arguments.push_back(bench.buffer("values_out", "w"));
                    }
                    std::vector<double> keys;
                    std::vector<double> moved;
                    for (std::int64_t r = 0; r < c.rows; ++r) {
                        std::vector<std::size_t> order(static_cast<std::size_t>(c.n));
                        std::iota(order.begin(), order.end(), static_cast<std::size_t>(r * c.n));
                        std::stable_sort(
                            order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
                                return descending ? a.at(x) > a.at(y) : a.at(x) < a.at(y);
                            });
                        for (const std::size_t index : order) {
                            keys.push_back(a.at(index));
                            moved.push_back(static_cast<double>(3 * index + 1));
                        }
                    }
                    const std::string text = bench.run("sort", arguments);
                    INFO(fmt::format("{} {} rows of {}, values '{}', {}: {}", dtype, c.rows, c.n,
                                     values, descending ? "descending" : "ascending", text));
                    const Difference difference = compare(bench["d"], keys);
                    INFO(fmt::format("key {}: found {}, expected {}", difference.at,
                                     difference.found, difference.expected));
                    CHECK(difference.worst == 0.0);
                    if (values.empty()) continue;
                    const Difference payload = compare(bench["w"], moved);
                    INFO(fmt::format("value {}: found {}, expected {}", payload.at, payload.found,
                                     payload.expected));
                    CHECK(payload.worst == 0.0);
                }
            }
        }
    }
}
