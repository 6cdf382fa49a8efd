// SPDX-License-Identifier: Apache-2.0
#include "worker/library_shapes.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"
#include "worker/library.hpp"
#include "worker/library/parameters.hpp"
#include "worker/library_cublaslt.hpp"
#include "worker/library_cudnn.hpp"
#include "worker/library_device.hpp"
#include "worker/library_loading.hpp"
#include "worker/library_sdpa_graph.hpp"
#include "worker/library_sweep.hpp"
#include "worker/library_tuning.hpp"

#if __has_include(<cublasLt.h>) && __has_include(<cuda_runtime_api.h>)
#include <cublasLt.h>
#endif
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif

using namespace kernelforge;
using namespace kernelforge::worker;
using namespace kernelforge::worker::library;

namespace {

using Argument = plan::ResolvedCallArgument;
using Kind = plan::CallArgument::Kind;

Argument buffer(const std::string& key, const std::string& name, const std::string& dtype,
                std::vector<std::int64_t> shape, bool transposed = false) {
    Argument argument;
    argument.key = key;
    argument.name = name;
    argument.dtype = dtype;
    argument.shape = std::move(shape);
    argument.transposed = transposed;
    return argument;
}

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

plan::ResolvedCall call(const std::string& function, std::vector<Argument> arguments) {
    plan::ResolvedCall result;
    result.function = function;
    result.arguments = std::move(arguments);
    result.position = {"candidate.cu", 7, 1};
    return result;
}

/// The message of the Error of this code that `f` throws.
template <class F>
std::string message_of(ErrorCode code, F&& f) {
    try {
        f();
    } catch (const Error& error) {
        CHECK(error.code() == code);
        return error.what();
    }
    FAIL("nothing was thrown");
    return {};
}

plan::ResolvedCall linear(std::vector<Argument> more = {}) {
    std::vector<Argument> arguments = {buffer("D", "y", "bf16", {8, 128, 96}),
                                       buffer("A", "x", "bf16", {8, 128, 64}),
                                       buffer("B", "w", "bf16", {96, 64}, true)};
    for (Argument& each : more) arguments.push_back(std::move(each));
    return call("matmul", std::move(arguments));
}

}  // namespace

TEST_CASE("a matmul takes all axes but the last as rows, and an operand as stored or transposed",
          "[library]") {
    const MatmulShape shape = matmul_shape(linear());
    CHECK(shape.m == 8 * 128);
    CHECK(shape.n == 96);
    CHECK(shape.k == 64);
    CHECK(shape.batch == 1);
    CHECK(shape.b_transposed);
    CHECK_FALSE(shape.a_transposed);
    CHECK(shape.beta == 0.0);
    CHECK_FALSE(shape.bias.given());
    const MatmulShape batched = matmul_shape(call(
        "matmul", {buffer("D", "d", "f32", {4, 16, 24}), buffer("A", "a", "f32", {4, 32, 16}, true),
                   buffer("B", "b", "f32", {4, 32, 24}), integer("batch", 4)}));
    CHECK(batched.m == 16);
    CHECK(batched.n == 24);
    CHECK(batched.k == 32);
    CHECK(batched.batch == 4);
}

TEST_CASE("a matmul with C has beta 1, and knows when D is written over C", "[library]") {
    const MatmulShape apart = matmul_shape(linear({buffer("C", "r", "bf16", {1024, 96})}));
    CHECK(apart.beta == 1.0);
    CHECK_FALSE(apart.in_place());
    const MatmulShape over =
        matmul_shape(linear({buffer("C", "y", "bf16", {1024, 96}), floating("beta", 0.5),
                             integer("alpha", 2), word("epilogue", "gelu")}));
    CHECK(over.in_place());
    CHECK(over.beta == 0.5);
    CHECK(over.alpha == 2.0);
    CHECK(over.epilogue == MatmulShape::Epilogue::gelu);
    CHECK(apart.key() != over.key());
}

TEST_CASE("the key of a matmul has all that an algorithm depends on and no names", "[library]") {
    const std::string key = matmul_shape(linear({buffer("bias", "b", "bf16", {96})})).key();
    CHECK(key ==
          "matmul m=1024 n=96 k=64 batch=1 A=bf16 B=bf16^T C=- D=bf16 bias=bf16 scales= "
          "epilogue=none compute=f32");
}

TEST_CASE("a matmul whose operands do not fit says which and how", "[library]") {
    const auto failing = [](plan::ResolvedCall bad) {
        return message_of(ErrorCode::invalid_argument,
                          [&] { static_cast<void>(matmul_shape(bad)); });
    };
    plan::ResolvedCall bad = linear();
    bad.arguments[2].shape = {96, 63};
    CHECK_THAT(failing(bad), ContainsSubstring("candidate.cu:7:1: matmul: B=w is 63 x 96, expected "
                                               "64 x 96"));
    CHECK_THAT(failing(linear({buffer("bias", "b", "bf16", {95})})),
               ContainsSubstring("bias=b has 95 elements, expected 96"));
    CHECK_THAT(failing(linear({integer("batch", 3)})),
               ContainsSubstring("batch=3 does not divide"));
    CHECK_THAT(failing(linear({word("epilogue", "silu")})), ContainsSubstring("'silu'"));
    CHECK_THAT(failing(linear({word("compute", "tf32")})), ContainsSubstring("compute is tf32"));
    CHECK_THAT(failing(linear({buffer("A_scale", "s", "f32", {1})})),
               ContainsSubstring("A_scale=s is for A and B of 8-bit floats"));
    CHECK_THAT(failing(call("matmul", {})), ContainsSubstring("A is missing"));
}

TEST_CASE("attention rows may lie apart in one buffer, and must lie within it", "[library]") {
    const auto packed = [](std::int64_t length, std::int64_t causal) {
        // One buffer [batch, len, q heads + 2 kv heads, dim].
        constexpr std::int64_t row = (8 + 2 + 2) * 64;
        const std::vector<std::int64_t> shape = {2, length, 12, 64};
        return call("sdpa",
                    {buffer("O", "o", "bf16", {2, length, 8, 64}),
                     buffer("Q", "qkv", "bf16", shape), buffer("K", "qkv", "bf16", shape),
                     buffer("V", "qkv", "bf16", shape), integer("batch", 2), integer("heads", 8),
                     integer("kv_heads", 2), integer("q_len", 100), integer("kv_len", 100),
                     integer("dim", 64), integer("causal", causal), floating("scale", 0.125),
                     integer("k_offset", 8 * 64), integer("v_offset", 10 * 64),
                     integer("q_stride", row), integer("k_stride", row), integer("v_stride", row)});
    };
    const SdpaShape shape = sdpa_shape(packed(100, 1));
    CHECK(shape.causal);
    CHECK(shape.v.offset == 640);
    CHECK(shape.v.stride == 768);
    CHECK(shape.o.stride == 512);
    CHECK_FALSE(shape.lse.given());
    CHECK_THAT(message_of(ErrorCode::invalid_argument,
                          [&] { static_cast<void>(sdpa_shape(packed(99, 1))); }),
               ContainsSubstring("sdpa: Q=qkv has 152064 elements, too few for 200 rows"));
    plan::ResolvedCall uneven = packed(100, 1);
    uneven.arguments[8].integer = 50;
    CHECK_THAT(
        message_of(ErrorCode::invalid_argument, [&] { static_cast<void>(sdpa_shape(uneven)); }),
        ContainsSubstring("expected equal lengths"));
}

TEST_CASE("a long reduction is split until the device is busy, in parts that start aligned",
          "[library]") {
    const auto split = [](std::int64_t outer, std::int64_t n, std::int64_t inner) {
        return split_reduction({{"a", "f32"}, {"d", "f32"}, {}, outer, n, inner}, 132);
    };
    CHECK(split(4096, 100000, 1).splits == 1);
    CHECK(split(1, 4096, 1).splits == 1);
    for (const std::int64_t inner : {1, 7, 64}) {
        const ReduceSplit parts = split(1, 10'000'019, inner);
        CHECK(parts.splits > 132);
        CHECK(parts.chunk % 16 == 0);
        CHECK(parts.chunk * parts.splits >= 10'000'019);
        CHECK(parts.chunk * (parts.splits - 1) < 10'000'019);
    }
}

TEST_CASE("reduce and sort refuse shapes that do not fit", "[library]") {
    const auto reduce = [](const std::string& type, const std::string& op, std::int64_t n) {
        return call("reduce",
                    {buffer("D", "d", type, {4, 8}), buffer("A", "a", type, {4, 16, 8}),
                     word("op", op), integer("outer", 4), integer("n", n), integer("inner", 8)});
    };
    CHECK(reduce_shape(reduce("f16", "min", 16)).operation == ReduceShape::Operation::min);
    CHECK_THAT(message_of(ErrorCode::invalid_argument,
                          [&] { static_cast<void>(reduce_shape(reduce("f16", "min", 15))); }),
               ContainsSubstring("A=a has 512 elements, expected 480"));
    CHECK_THAT(message_of(ErrorCode::invalid_argument,
                          [&] { static_cast<void>(reduce_shape(reduce("i32", "mean", 16))); }),
               ContainsSubstring("op is mean"));
    plan::ResolvedCall sort =
        call("sort", {buffer("D", "d", "f32", {6, 10}), buffer("A", "a", "f32", {6, 10}),
                      integer("n", 10), integer("descending", 1)});
    CHECK(sort_shape(sort).rows == 6);
    CHECK(sort_shape(sort).descending);
    sort.arguments.push_back(buffer("values", "v", "i32", {6, 10}));
    CHECK_THAT(
        message_of(ErrorCode::invalid_argument, [&] { static_cast<void>(sort_shape(sort)); }),
        ContainsSubstring("values_out go together"));
    sort.arguments[2].integer = 7;
    CHECK_THAT(
        message_of(ErrorCode::invalid_argument, [&] { static_cast<void>(sort_shape(sort)); }),
        ContainsSubstring("n=7 does not divide"));
}

TEST_CASE("a library that is not there is named with every place that was tried", "[library]") {
    const TemporaryFolder folder;
    const std::string lib = folder.path().string() + "/cublas/lib";
    std::filesystem::create_directories(lib);
    std::ofstream(lib + "/libkernelforge-none.so.13") << "not a library";
    const std::string message = message_of(ErrorCode::unsupported, [&] {
        LoadedLibrary("Nothing", {"libkernelforge-none.so.13", "libkernelforge-none.so.12"},
                      wheel_folders(folder.path().string(), "cublas"));
    });
    CHECK_THAT(message, ContainsSubstring("Nothing is not there: tried " + lib +
                                          "/libkernelforge-none.so.13, "
                                          "libkernelforge-none.so.13, libkernelforge-none.so.12"));
    CHECK_THAT(message, ContainsSubstring(folder.path().string() + "/cu13/lib"));
    LoadedLibrary math("Mathematics", {"libm.so.6"}, {});
    double (*cosine)(double) = nullptr;
    math.find(cosine, "cos");
    CHECK(cosine(0.0) == 1.0);
    CHECK_THAT(message_of(ErrorCode::unsupported, [&] { math.find(cosine, "no_such_function"); }),
               ContainsSubstring("Mathematics (libm.so.6) has no function no_such_function"));
}

TEST_CASE("a choice is found again under its key, and not under another or in a damaged file",
          "[library]") {
    const TemporaryFolder folder;
    ChoiceKey key{"cublasLt 13.1.0", 13000, "NVIDIA H200", "GPU-1", "matmul m=1"};
    Choice choice;
    choice.algorithm = {66, 0xffffffffffffffff, 0, 1, 2, 3, 4, 5};
    choice.workspace_bytes = 1 << 20;
    choice.text = "algorithm 66";
    choice.tried = 168;
    choice.best_s = 1.5e-6;
    choice.first_s = 2e-6;
    const std::string root = folder.path().string();
    CHECK_FALSE(find_choice(root, key).has_value());
    keep_choice(root, key, choice);
    const std::optional<Choice> found = find_choice(root, key);
    REQUIRE(found.has_value());
    CHECK(found->algorithm == choice.algorithm);
    CHECK(found->workspace_bytes == choice.workspace_bytes);
    CHECK(found->text == choice.text);
    CHECK(found->tried == 168);
    CHECK(found->best_s == Approx(1.5e-6));
    CHECK(found->first_s == Approx(2e-6));
    ChoiceKey other = key;
    other.driver = 13010;
    CHECK(other.digest() != key.digest());
    CHECK_FALSE(find_choice(root, other).has_value());
    // The right name with the content of another key, and a torn file.
    const std::string file = root + "/library/" + key.digest() + ".json";
    write_file_atomically(file, choice_to_json(other, choice));
    CHECK_FALSE(find_choice(root, key).has_value());
    const std::string whole = choice_to_json(key, choice);
    CHECK(choice_from_json(whole, key).has_value());
    for (const std::size_t length : {std::size_t{0}, whole.size() / 2, whole.size() - 2}) {
        write_file_atomically(file, whole.substr(0, length));
        CHECK_FALSE(find_choice(root, key).has_value());
    }
    CHECK_FALSE(find_choice("", key).has_value());
}

TEST_CASE("a sweep times every contender once and ends with the fastest of the best", "[library]") {
    // Contender i takes 100 + (i * 37 mod 101) us; 13 does not run; the fastest is 71 (0 mod 101
    // is 0 itself, which takes 300).
    const auto seconds = [](std::size_t index) {
        if (index == 0) return 300e-6;
        return (100.0 + static_cast<double>(index * 37 % 101)) * 1e-6;
    };
    std::map<std::size_t, int> calls;
    const SweepResult result = sweep(
        101, 1e9,
        [&](std::size_t index, int count) {
            calls[index] += count;
            return index == 13 ? -1.0 : seconds(index);
        },
        [] { return 0.0; });
    CHECK(result.tried == 100);
    CHECK(result.first_s == Approx(300e-6));
    REQUIRE(result.ranking.size() == 9);  // eight and the library's own proposal
    CHECK(result.ranking.back().index == 0);
    for (std::size_t i = 0; i < 8; ++i) {
        CHECK(seconds(result.ranking[i].index) == Approx((101.0 + static_cast<double>(i)) * 1e-6));
        CHECK(calls[result.ranking[i].index] == 1 + 3 + 40);
    }
    std::size_t once = 0;
    for (const auto& [index, count] : calls) once += count == 1 ? 1 : 0;
    CHECK(once > 40);
    // Out of time after the first.
    double clock = 0.0;
    CHECK(sweep(
              50, 1.0, [](std::size_t, int) { return 1e-6; }, [&] { return clock += 0.6; })
              .tried == 1);
    CHECK(sweep(
              3, 1.0, [](std::size_t, int) { return -1.0; }, [] { return 0.0; })
              .ranking.empty());
}

TEST_CASE("scratch operands are finite whatever the random bits are", "[library]") {
    for (const std::uint64_t bits :
         {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0x123456789abcdef0}}) {
        const Pattern f32 = finite_pattern("f32");
        const std::uint64_t words = (bits & f32.keep) | f32.set;
        float values[2];
        std::memcpy(values, &words, sizeof values);
        for (const float value : values) {
            CHECK(std::abs(value) >= 0.5F);
            CHECK(std::abs(value) < 1.0F);
        }
        const Pattern f64 = finite_pattern("f64");
        const std::uint64_t word64 = (bits & f64.keep) | f64.set;
        double value = 0.0;
        std::memcpy(&value, &word64, sizeof value);
        CHECK(std::abs(value) >= 0.5);
        CHECK(std::abs(value) < 1.0);
    }
    CHECK(finite_pattern("bf16").set == 0x3f003f003f003f00);
    CHECK(finite_pattern("e4m3").set == 0x3030303030303030);
    CHECK(scratch_sets(1000, 1'000'000, 1 << 30) == 2001);
    CHECK(scratch_sets(10, 1'000'000, 1 << 30) == 4096);
    CHECK(scratch_sets(1000, 1'000'000, 5000) == 5);
    CHECK(scratch_sets(1 << 30, 1'000'000, 1000) == 1);
    CHECK_THAT(message_of(ErrorCode::unsupported, [] { static_cast<void>(finite_pattern("i32")); }),
               ContainsSubstring("i32"));
}

TEST_CASE("the library steps' PTX has every kernel that is launched by name", "[library]") {
    const auto has = [](std::string_view module, const std::string& kernel) {
        const std::string_view ptx = module_ptx(module);
        CHECK(ptx.data()[ptx.size()] == '\0');
        INFO(module << ": " << kernel);
        CHECK(ptx.find(".entry " + kernel + "(") != std::string_view::npos);
    };
    for (const char* kernel :
         {"kf_library_fill", "kf_library_delay", "kf_sort_index", "kf_sort_gather"}) {
        has("common", kernel);
    }
    CHECK_THAT(message_of(ErrorCode::unsupported, [] { static_cast<void>(module_ptx("sort_u8")); }),
               ContainsSubstring("sort_u8"));
    try {
        static_cast<void>(module_ptx("reduce_f32"));
    } catch (const Error& error) {
        CHECK_THAT(error.what(), ContainsSubstring("made without its headers"));
        return;
    }
    for (const std::string type : {"f32", "f64", "f16", "bf16", "i32", "i64"}) {
        for (const std::string op : {"sum", "max", "min"}) {
            for (const std::string form : {"row", "warp", "column"}) {
                has("reduce_" + type, "kf_reduce_" + form + "_" + type + "_" + op);
            }
        }
        const std::string module = "sort_" + type;
        has(module, "kf_sort_scan");
        for (const std::string order : {"ascending", "descending"}) {
            has(module, "kf_sort_histogram_" + order);
            for (const std::string kind : {"keys", "pairs"}) {
                has(module, "kf_sort_sweep_" + kind + "_" + order);
                has(module, "kf_sort_block_small_" + kind + "_" + order);
                has(module, "kf_sort_block_large_" + kind + "_" + order);
            }
        }
    }
}

#ifdef KERNELFORGE_TEST_LIBRARY_FOLDER
TEST_CASE("cuDNN accepts every descriptor of the attention graph where it is installed",
          "[library]") {
    // Descriptors are checked by the library without a device; an absent library is no failure.
    std::unique_ptr<dnn::Api> api;
    try {
        api = std::make_unique<dnn::Api>(std::vector<std::string>{KERNELFORGE_TEST_LIBRARY_FOLDER});
    } catch (const Error& error) {
        REQUIRE(error.code() == ErrorCode::unsupported);
        WARN("not checked: " << error.what());
        return;
    }
    for (const bool causal : {false, true}) {
        SdpaShape shape;
        shape.q.buffer = shape.k.buffer = shape.v.buffer = shape.o.buffer = {"x", "bf16"};
        shape.batch = 2;
        shape.heads = 8;
        shape.kv_heads = 2;
        shape.q_len = shape.kv_len = 200;
        shape.dim = 64;
        shape.q.stride = shape.k.stride = shape.v.stride = 768;
        shape.o.stride = 512;
        shape.causal = causal;
        if (!causal) shape.lse = {"lse", "f32"};
        CHECK_NOTHROW(SdpaGraph(*api, nullptr, shape));
    }
    dnn::Descriptor tensor(*api, dnn::descriptor_tensor, "tensor Z");
    CHECK_THAT(message_of(ErrorCode::device_unavailable, [&] { tensor.finalize(); }),
               ContainsSubstring("finalizing tensor Z: CUDNN_STATUS_"));
}
#endif

#if __has_include(<cublasLt.h>) && __has_include(<cuda_runtime_api.h>)
TEST_CASE("the declarations of cuBLASLt agree with its header", "[library]") {
    STATIC_REQUIRE(sizeof(lt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
    STATIC_REQUIRE(sizeof(lt::HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
    STATIC_REQUIRE(offsetof(lt::HeuristicResult, state) ==
                   offsetof(cublasLtMatmulHeuristicResult_t, state));
    CHECK(int{lt::r_32f} == CUDA_R_32F);
    CHECK(int{lt::r_64f} == CUDA_R_64F);
    CHECK(int{lt::r_16f} == CUDA_R_16F);
    CHECK(int{lt::r_16bf} == CUDA_R_16BF);
    CHECK(int{lt::r_8f_e4m3} == CUDA_R_8F_E4M3);
    CHECK(int{lt::r_8f_e5m2} == CUDA_R_8F_E5M2);
    CHECK(int{lt::compute_32f} == CUBLAS_COMPUTE_32F);
    CHECK(int{lt::compute_64f} == CUBLAS_COMPUTE_64F);
    CHECK(int{lt::compute_32f_fast_tf32} == CUBLAS_COMPUTE_32F_FAST_TF32);
    CHECK(lt::op_n == CUBLAS_OP_N);
    CHECK(lt::op_t == CUBLAS_OP_T);
    CHECK(int{lt::layout_batch_count} == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
    CHECK(int{lt::layout_batch_offset} == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
    CHECK(int{lt::desc_transa} == CUBLASLT_MATMUL_DESC_TRANSA);
    CHECK(int{lt::desc_transb} == CUBLASLT_MATMUL_DESC_TRANSB);
    CHECK(int{lt::desc_epilogue} == CUBLASLT_MATMUL_DESC_EPILOGUE);
    CHECK(int{lt::desc_bias_pointer} == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
    CHECK(int{lt::desc_a_scale_pointer} == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
    CHECK(int{lt::desc_b_scale_pointer} == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
    CHECK(int{lt::desc_bias_data_type} == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
    CHECK(unsigned{lt::epilogue_default} == CUBLASLT_EPILOGUE_DEFAULT);
    CHECK(unsigned{lt::epilogue_relu} == CUBLASLT_EPILOGUE_RELU);
    CHECK(unsigned{lt::epilogue_bias} == CUBLASLT_EPILOGUE_BIAS);
    CHECK(unsigned{lt::epilogue_relu_bias} == CUBLASLT_EPILOGUE_RELU_BIAS);
    CHECK(unsigned{lt::epilogue_gelu} == CUBLASLT_EPILOGUE_GELU);
    CHECK(unsigned{lt::epilogue_gelu_bias} == CUBLASLT_EPILOGUE_GELU_BIAS);
    CHECK(int{lt::preference_max_workspace} == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
    CHECK(int{lt::preference_reduction_schemes} == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
    CHECK(unsigned{lt::reduction_in_place} == CUBLASLT_REDUCTION_SCHEME_INPLACE);
    CHECK(unsigned{lt::reduction_compute_type} == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    CHECK(unsigned{lt::reduction_output_type} == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
    CHECK(unsigned{lt::reduction_all} == CUBLASLT_REDUCTION_SCHEME_MASK);
    CHECK(int{lt::cap_splitk} == CUBLASLT_ALGO_CAP_SPLITK_SUPPORT);
    CHECK(int{lt::cap_reduction_mask} == CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK);
    CHECK(int{lt::cap_swizzling} == CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT);
    CHECK(int{lt::cap_tiles} == CUBLASLT_ALGO_CAP_TILE_IDS);
    CHECK(int{lt::cap_custom_max} == CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX);
    CHECK(int{lt::cap_stages} == CUBLASLT_ALGO_CAP_STAGES_IDS);
    CHECK(int{lt::cap_numerical_flags} == CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS);
    CHECK(int{lt::config_id} == CUBLASLT_ALGO_CONFIG_ID);
    CHECK(int{lt::config_tile} == CUBLASLT_ALGO_CONFIG_TILE_ID);
    CHECK(int{lt::config_splitk} == CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    CHECK(int{lt::config_reduction} == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
    CHECK(int{lt::config_swizzling} == CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING);
    CHECK(int{lt::config_custom} == CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION);
    CHECK(int{lt::config_stages} == CUBLASLT_ALGO_CONFIG_STAGES_ID);
    CHECK(int{lt::config_inner} == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID);
    CHECK(int{lt::config_cluster} == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
    CHECK(lt::flags_tensor_op == CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK);
    CHECK(lt::flags_input_f16 == CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F);
    CHECK(lt::flags_input_bf16 == CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF);
    CHECK(lt::flags_input_tf32 == CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32);
    CHECK(lt::version_text(CUBLAS_VERSION) == std::to_string(CUBLAS_VER_MAJOR) + "." +
                                                  std::to_string(CUBLAS_VER_MINOR) + "." +
                                                  std::to_string(CUBLAS_VER_PATCH));
}
#endif

#if __has_include(<cudnn_graph.h>)
TEST_CASE("the declarations of cuDNN agree with its header", "[library]") {
#define KERNELFORGE_SAME(ours, theirs) CHECK(static_cast<int>(ours) == static_cast<int>(theirs))
    KERNELFORGE_SAME(dnn::type_handle, CUDNN_TYPE_HANDLE);
    KERNELFORGE_SAME(dnn::type_data_type, CUDNN_TYPE_DATA_TYPE);
    KERNELFORGE_SAME(dnn::type_boolean, CUDNN_TYPE_BOOLEAN);
    KERNELFORGE_SAME(dnn::type_int64, CUDNN_TYPE_INT64);
    KERNELFORGE_SAME(dnn::type_void_ptr, CUDNN_TYPE_VOID_PTR);
    KERNELFORGE_SAME(dnn::type_heur_mode, CUDNN_TYPE_HEUR_MODE);
    KERNELFORGE_SAME(dnn::type_pointwise_mode, CUDNN_TYPE_POINTWISE_MODE);
    KERNELFORGE_SAME(dnn::type_descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::type_reduction_operator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
    KERNELFORGE_SAME(dnn::descriptor_pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_operation_pointwise,
                     CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_operation_matmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::descriptor_operation_reduction,
                     CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::data_float, CUDNN_DATA_FLOAT);
    KERNELFORGE_SAME(dnn::data_half, CUDNN_DATA_HALF);
    KERNELFORGE_SAME(dnn::data_int32, CUDNN_DATA_INT32);
    KERNELFORGE_SAME(dnn::data_bfloat16, CUDNN_DATA_BFLOAT16);
    KERNELFORGE_SAME(dnn::data_boolean, CUDNN_DATA_BOOLEAN);
    KERNELFORGE_SAME(dnn::pointwise_add, CUDNN_POINTWISE_ADD);
    KERNELFORGE_SAME(dnn::pointwise_mul, CUDNN_POINTWISE_MUL);
    KERNELFORGE_SAME(dnn::pointwise_div, CUDNN_POINTWISE_DIV);
    KERNELFORGE_SAME(dnn::pointwise_sub, CUDNN_POINTWISE_SUB);
    KERNELFORGE_SAME(dnn::pointwise_exp, CUDNN_POINTWISE_EXP);
    KERNELFORGE_SAME(dnn::pointwise_log, CUDNN_POINTWISE_LOG);
    KERNELFORGE_SAME(dnn::pointwise_cmp_ge, CUDNN_POINTWISE_CMP_GE);
    KERNELFORGE_SAME(dnn::pointwise_gen_index, CUDNN_POINTWISE_GEN_INDEX);
    KERNELFORGE_SAME(dnn::pointwise_binary_select, CUDNN_POINTWISE_BINARY_SELECT);
    KERNELFORGE_SAME(dnn::reduction_add, CUDNN_REDUCE_TENSOR_ADD);
    KERNELFORGE_SAME(dnn::reduction_max, CUDNN_REDUCE_TENSOR_MAX);
    KERNELFORGE_SAME(dnn::heuristics_mode_a, CUDNN_HEUR_MODE_A);
    KERNELFORGE_SAME(dnn::pointwise_mode.id, CUDNN_ATTR_POINTWISE_MODE);
    KERNELFORGE_SAME(dnn::pointwise_precision.id, CUDNN_ATTR_POINTWISE_MATH_PREC);
    KERNELFORGE_SAME(dnn::pointwise_axis.id, CUDNN_ATTR_POINTWISE_AXIS);
    KERNELFORGE_SAME(dnn::heuristics_mode.id, CUDNN_ATTR_ENGINEHEUR_MODE);
    KERNELFORGE_SAME(dnn::heuristics_graph.id, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    KERNELFORGE_SAME(dnn::heuristics_results.id, CUDNN_ATTR_ENGINEHEUR_RESULTS);
    KERNELFORGE_SAME(dnn::config_engine.id, CUDNN_ATTR_ENGINECFG_ENGINE);
    KERNELFORGE_SAME(dnn::plan_handle.id, 400);  // CUDNN_ATTR_EXECUTION_PLAN_HANDLE, deprecated
    KERNELFORGE_SAME(dnn::plan_config.id, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    KERNELFORGE_SAME(dnn::plan_workspace.id, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    KERNELFORGE_SAME(dnn::operation_pointwise_descriptor.id,
                     CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    KERNELFORGE_SAME(dnn::operation_pointwise_x.id, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    KERNELFORGE_SAME(dnn::operation_pointwise_b.id, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    KERNELFORGE_SAME(dnn::operation_pointwise_y.id, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    KERNELFORGE_SAME(dnn::operation_pointwise_t.id, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    KERNELFORGE_SAME(dnn::graph_operations.id, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    KERNELFORGE_SAME(dnn::tensor_alignment.id, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    KERNELFORGE_SAME(dnn::tensor_type.id, CUDNN_ATTR_TENSOR_DATA_TYPE);
    KERNELFORGE_SAME(dnn::tensor_dimensions.id, CUDNN_ATTR_TENSOR_DIMENSIONS);
    KERNELFORGE_SAME(dnn::tensor_strides.id, CUDNN_ATTR_TENSOR_STRIDES);
    KERNELFORGE_SAME(dnn::tensor_id.id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    KERNELFORGE_SAME(dnn::tensor_virtual.id, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    KERNELFORGE_SAME(dnn::tensor_by_value.id, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    KERNELFORGE_SAME(dnn::pack_ids.id, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    KERNELFORGE_SAME(dnn::pack_pointers.id, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    KERNELFORGE_SAME(dnn::pack_workspace.id, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    KERNELFORGE_SAME(dnn::engine_index.id, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    KERNELFORGE_SAME(dnn::matmul_type.id, CUDNN_ATTR_MATMUL_COMP_TYPE);
    KERNELFORGE_SAME(dnn::operation_matmul_a.id, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    KERNELFORGE_SAME(dnn::operation_matmul_b.id, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    KERNELFORGE_SAME(dnn::operation_matmul_c.id, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    KERNELFORGE_SAME(dnn::operation_matmul_descriptor.id, CUDNN_ATTR_OPERATION_MATMUL_DESC);
    KERNELFORGE_SAME(dnn::reduction_operator.id, CUDNN_ATTR_REDUCTION_OPERATOR);
    KERNELFORGE_SAME(dnn::reduction_type.id, CUDNN_ATTR_REDUCTION_COMP_TYPE);
    KERNELFORGE_SAME(dnn::operation_reduction_x.id, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    KERNELFORGE_SAME(dnn::operation_reduction_y.id, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    KERNELFORGE_SAME(dnn::operation_reduction_descriptor.id, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
#undef KERNELFORGE_SAME
}
#endif
