// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "emulator/async_tensor.hpp"
#include "emulator/matrix_wgmma.hpp"
#include "emulator/pure_ops.hpp"
#include "matrix_ptx.hpp"
#include "support/catch.hpp"
#include "unit/emulator_matrix.hpp"
#include "worker/driver.hpp"

// Matrix and tensor instructions of the emulator against the GPU's, one instruction at a time. The
// PTX is made here and compiled by the driver; nothing else of the emulator takes part.

namespace {

using namespace kernelforge;
using namespace kernelforge::emulator;
using namespace kernelforge::test;

using Bytes = std::vector<std::byte>;

class Gpu {
  public:
    Gpu() : driver_(worker::load_driver()) {
        REQUIRE(driver_ != nullptr);
        check(driver_->cuInit(0));
        check(driver_->cuDeviceGet(&device_, 0));
        check(driver_->cuDevicePrimaryCtxRetain(&context_, device_));
        check(driver_->cuCtxSetCurrent(context_));
        int major = 0;
        check(driver_->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                            device_));
        is_hopper_ = major == 9;
    }
    ~Gpu() {
        for (const CUdeviceptr address : memory_) driver_->cuMemFree(address);
        for (const CUmodule module : modules_) driver_->cuModuleUnload(module);
        driver_->cuDevicePrimaryCtxRelease(device_);
    }
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;

    [[nodiscard]] bool is_hopper() const { return is_hopper_; }
    [[nodiscard]] const worker::Driver& driver() const { return *driver_; }

    CUdeviceptr write(const Bytes& bytes) {
        CUdeviceptr address = 0;
        check(driver_->cuMemAlloc(&address, std::max<std::size_t>(bytes.size(), 16)));
        memory_.push_back(address);
        check(driver_->cuMemcpyHtoDAsync(address, bytes.data(), bytes.size(), nullptr));
        check(driver_->cuCtxSynchronize());
        return address;
    }
    Bytes read(CUdeviceptr address, std::size_t bytes) {
        Bytes result(bytes);
        check(driver_->cuMemcpyDtoHAsync(result.data(), address, bytes, nullptr));
        check(driver_->cuCtxSynchronize());
        return result;
    }
    CUfunction load(const std::string& ptx) {
        CUmodule module = nullptr;
        INFO(ptx);
        check(driver_->cuModuleLoadData(&module, ptx.c_str()));
        modules_.push_back(module);
        CUfunction function = nullptr;
        check(driver_->cuModuleGetFunction(&function, module, "k"));
        return function;
    }
    void launch(CUfunction function, unsigned threads, unsigned shared,
                std::vector<void*> arguments) {
        check(driver_->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          static_cast<int>(shared)));
        check(driver_->cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, shared, nullptr,
                                      arguments.data(), nullptr));
        check(driver_->cuCtxSynchronize());
    }
    void check(CUresult result) const { driver_->check(result, "the driver"); }

  private:
    std::unique_ptr<const worker::Driver> driver_;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    bool is_hopper_ = false;
    std::vector<CUdeviceptr> memory_;
    std::vector<CUmodule> modules_;
};

// Random elements of a type one after the other. `absolute`: without their signs.
Bytes random_elements(const std::string& type, std::size_t bytes, std::mt19937& random) {
    const int bits = element_bits(type);
    Bytes result(bytes);
    for (std::size_t i = 0; i < bytes * 8 / static_cast<std::size_t>(bits); ++i) {
        const std::uint64_t code = random_code(type, random);
        const std::size_t at = i * static_cast<std::size_t>(bits);
        if (bits >= 8) {
            std::memcpy(&result[at / 8], &code, static_cast<std::size_t>(bits / 8));
        } else {
            result[at / 8] |= static_cast<std::byte>(code << at % 8);
        }
    }
    return result;
}

Bytes without_signs(const std::string& type, Bytes bytes) {
    if (format_parts(type).exponent == 0) return bytes;
    const auto size = static_cast<std::size_t>(element_bits(type) / 8);
    for (std::size_t i = size - 1; i < bytes.size(); i += size) bytes[i] &= std::byte{0x7f};
    return bytes;
}

double element(const std::string& type, const Bytes& bytes, std::size_t i) {
    const auto size = static_cast<std::size_t>(element_bits(type) / 8);
    std::uint64_t code = 0;
    std::memcpy(&code, &bytes[i * size], size);
    return value_of(type, code);
}

// The first byte that differs is enough: these are large.
void check_bytes(const std::string& what, const Bytes& gpu, const Bytes& emulated) {
    REQUIRE(gpu.size() == emulated.size());
    const auto different = std::mismatch(gpu.begin(), gpu.end(), emulated.begin()).first;
    if (different == gpu.end()) {
        SUCCEED(what);
        return;
    }
    const auto at = static_cast<std::size_t>(different - gpu.begin());
    FAIL_CHECK(what << ": byte " << at << " of " << gpu.size() << " is "
                    << std::to_integer<int>(gpu[at]) << " on the GPU, "
                    << std::to_integer<int>(emulated[at]) << " in the emulator");
}

// Compares D of type `type`. `scale` has the sums of the terms' magnitudes. Exact types must be
// equal; for the others the largest error relative to the scale is told and bounded.
void compare(const std::string& what, const std::string& type, const Bytes& gpu,
             const Bytes& emulated, const Bytes& scale, double bound) {
    if (type == "s32") {
        check_bytes(what, gpu, emulated);
        return;
    }
    const std::size_t count = gpu.size() * 8 / static_cast<std::size_t>(element_bits(type));
    double largest = 0;
    std::size_t differing = 0, where = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double error = std::abs(element(type, gpu, i) - element(type, emulated, i)) /
                             std::max(element(type, scale, i), 0x1p-60);
        if (error > 0) ++differing;
        if (error > largest) {
            largest = error;
            where = i;
        }
    }
    WARN(what << ": " << differing << " of " << count << " elements differ, at most by 2^"
              << (largest > 0 ? std::log2(largest) : -INFINITY)
              << " of the sum of the terms' magnitudes");
    CAPTURE(what, bound);
    INFO("element " << where << ": GPU " << element(type, gpu, where) << ", emulator "
                    << element(type, emulated, where) << ", scale " << element(type, scale, where));
    CHECK(largest <= bound);
}

// Bounds: an f32 sum in the tensor core keeps at least 2^-22 of its largest term, of FP8 operands
// 2^-13 (they are added with fewer bits), f16 is rounded to 11 bits, f64 to 53 a step.
double bound_of(const std::string& d, const std::string& a) {
    if (d == "f64") return 0x1p-50;
    if (d == "f16") return 0x1p-10;
    return a == "e4m3" || a == "e5m2" ? 0x1p-12 : 0x1p-20;
}

struct Form {
    std::string shape, d, a, b;
    std::string extra;  // "satfinite" before the types, or "xor.popc" behind them
};

int registers(int elements, const std::string& type) {
    return elements * element_bits(type) / (type == "f64" ? 2048 : 1024);
}

void check_mma(Gpu& gpu, const Form& form, std::mt19937& random) {
    int m = 0, n = 0, k = 0;
    REQUIRE(std::sscanf(form.shape.c_str(), "m%dn%dk%d", &m, &n, &k) == 3);
    const RegisterGroup d{form.d == "f32" || form.d == "f64" ? form.d : "b32",
                          registers(m * n, form.d)};
    const std::string operand = form.a == "f64" ? "f64" : "b32";
    const RegisterGroup a{operand, registers(m * k, form.a)}, b{operand, registers(k * n, form.b)};
    std::vector<std::string> modifiers{"sync", "aligned", form.shape, "row", "col"};
    if (form.extra == "satfinite") modifiers.push_back(form.extra);
    for (const auto& type : {form.d, form.a, form.b, form.d}) modifiers.push_back(type);
    if (form.a == "b1") {
        modifiers.push_back(form.extra);
        modifiers.emplace_back("popc");
    }
    std::string name = "mma";
    for (const auto& word : modifiers) name += "." + word;
    const std::size_t width = form.a == "f64" ? 256 : 128;
    std::array<Bytes, 3> parts{
        random_elements(form.a, width * static_cast<std::size_t>(a.count), random),
        random_elements(form.b, width * static_cast<std::size_t>(b.count), random),
        random_elements(form.d, width * static_cast<std::size_t>(d.count), random)};
    const std::size_t out_bytes = parts[2].size();

    const auto emulate = [&](const std::array<Bytes, 3>& operands) {
        const auto op =
            find_mma(make_instruction("mma", modifiers, {d.count, a.count, b.count, d.count}),
                     best_isa_here());
        Frame frame;
        std::vector<RowRef> rows;
        const int total = 2 * d.count + a.count + b.count;
        for (int i = 0; i < total; ++i) rows.push_back(Frame::row(i));
        int row = d.count;
        for (const Bytes& part : operands) {
            for (std::size_t at = 0; at < part.size(); at += width) {
                std::memcpy(frame.words(row++), &part[at], width);
            }
        }
        op->run(frame.rows(), rows.data(), all_lanes);
        Bytes result(out_bytes);
        for (int i = 0; i < d.count; ++i) {
            std::memcpy(&result[static_cast<std::size_t>(i) * width], frame.words(i), width);
        }
        return result;
    };

    Bytes in;
    for (const Bytes& part : parts) in.insert(in.end(), part.begin(), part.end());
    CUdeviceptr in_address = gpu.write(in), out_address = gpu.write(Bytes(out_bytes));
    gpu.launch(gpu.load(mma_kernel(name, d, a, b)), 32, 0, {&in_address, &out_address});
    const Bytes found = gpu.read(out_address, out_bytes);
    const Bytes emulated = emulate(parts);
    const Bytes scale = emulate({without_signs(form.a, parts[0]), without_signs(form.b, parts[1]),
                                 without_signs(form.d, parts[2])});
    compare(name, form.d, found, emulated, scale, bound_of(form.d, form.a));
}

Type type_of(const std::string& name) {
    const std::array<std::pair<const char*, Type>, 10> types{{{"f16", Type::f16},
                                                              {"bf16", Type::bf16},
                                                              {"tf32", Type::tf32},
                                                              {"e4m3", Type::e4m3},
                                                              {"e5m2", Type::e5m2},
                                                              {"s8", Type::s8},
                                                              {"u8", Type::u8},
                                                              {"s32", Type::s32},
                                                              {"f32", Type::f32},
                                                              {"f64", Type::f64}}};
    for (const auto& [text, type] : types) {
        if (name == text) return type;
    }
    return Type::none;
}

struct WgmmaForm {
    int n = 64;
    std::string d = "f32", a = "bf16", b = "bf16";
    std::uint64_t descriptor_a = 0, descriptor_b = 0;
    bool transposed_a = false, transposed_b = false, a_in_registers = false;
    int scale_a = 1, scale_b = 1;
    bool accumulates = true, saturate = false;
};

constexpr int image_bytes = 65536;

void check_wgmma(Gpu& gpu, const WgmmaForm& form, std::mt19937& random) {
    MatrixOp op;
    op.what = MatrixOp::What::wgmma;
    op.n = form.n;
    op.k = 256 / element_bits(form.a);
    op.a = type_of(form.a);
    op.b = type_of(form.b);
    op.d = type_of(form.d);
    op.a_in_registers = form.a_in_registers;
    op.scale_a = form.scale_a;
    op.scale_b = form.scale_b;
    op.transposed_a = form.transposed_a;
    op.transposed_b = form.transposed_b;
    op.destinations = form.n * element_bits(form.d) / 64;
    op.saturate = form.saturate;
    REQUIRE_FALSE(wgmma_unsupported(op).has_value());

    std::string name = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(form.n) + "k" +
                       std::to_string(op.k) + "." + form.d + "." + form.a + "." + form.b;
    std::string tail;
    if (form.d == "s32") {
        if (form.saturate) name += ".satfinite";
    } else {
        tail = ", " + std::to_string(form.scale_a) + ", " + std::to_string(form.scale_b);
        if (form.a == "f16" || form.a == "bf16") {
            if (!form.a_in_registers) tail += form.transposed_a ? ", 1" : ", 0";
            tail += form.transposed_b ? ", 1" : ", 0";
        }
    }
    const RegisterGroup d{form.d == "f32" ? "f32" : "b32", op.destinations};
    // Both operands read one image, which is of A's type; they differ in their descriptors.
    const Bytes image = random_elements(form.a, image_bytes, random);
    const Bytes d_in =
        random_elements(form.d, static_cast<std::size_t>(512 * op.destinations), random);
    const Bytes a_in = random_elements(form.a, 4 * 512, random);

    const auto emulate = [&](const Bytes& shared, const Bytes& start, const Bytes& a, bool scale) {
        MatrixOp used = op;
        if (scale) used.scale_a = used.scale_b = 1;
        Bytes result(start.size());
        for (std::size_t warp = 0; warp < 4; ++warp) {
            Frame frame;
            std::vector<RowRef> rows;
            const int count = op.destinations + (op.a_in_registers ? 4 : 1) + 2;
            for (int i = 0; i < count; ++i) rows.push_back(Frame::row(i));
            const auto at = [&](int reg) {
                return static_cast<std::size_t>(reg) * 512 + warp * 128;
            };
            for (int i = 0; i < op.destinations; ++i) {
                std::memcpy(frame.words(i), &start[at(i)], 128);
            }
            int row = op.destinations;
            if (op.a_in_registers) {
                for (int i = 0; i < 4; ++i) std::memcpy(frame.words(row++), &a[at(i)], 128);
            } else {
                frame.set_element(row++, 0, 0, 64, form.descriptor_a);
            }
            frame.set_element(row++, 0, 0, 64, form.descriptor_b);
            frame.words(row)[0] = form.accumulates ? 1 : 0;
            const auto error = multiply_warp_group(used, frame.rows(), rows.data(),
                                                   static_cast<int>(warp), shared, best_isa_here());
            if (error) FAIL(*error);
            for (int i = 0; i < op.destinations; ++i) {
                std::memcpy(&result[at(i)], frame.words(i), 128);
            }
        }
        return result;
    };

    Bytes in = d_in;
    in.insert(in.end(), a_in.begin(), a_in.end());
    CUdeviceptr in_address = gpu.write(in), out_address = gpu.write(Bytes(d_in.size()));
    CUdeviceptr image_address = gpu.write(image);
    std::uint64_t a = form.descriptor_a, b = form.descriptor_b;
    std::uint32_t scale = form.accumulates ? 1 : 0;
    gpu.launch(gpu.load(wgmma_kernel(name, d, form.a_in_registers, tail, image_bytes)), 128,
               image_bytes + 1024, {&in_address, &out_address, &image_address, &a, &b, &scale});
    const Bytes found = gpu.read(out_address, d_in.size());
    const std::string what = name + tail + " a " + std::to_string(a) + " b " + std::to_string(b) +
                             (form.a_in_registers ? " registers" : "");
    compare(what, form.d, found, emulate(image, d_in, a_in, false),
            emulate(without_signs(form.a, image), without_signs(form.d, d_in),
                    without_signs(form.a, a_in), true),
            bound_of(form.d, form.a));
}

std::uint64_t descriptor(unsigned start, unsigned leading, unsigned stride, unsigned swizzle,
                         unsigned base = 0) {
    const std::uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    return start >> 4 | std::uint64_t{leading >> 4} << 16 | std::uint64_t{stride >> 4} << 32 |
           std::uint64_t{base} << 49 | mode << 62;
}

// Executes one tensor copy on the GPU and in the emulator, and compares shared and global memory.
void check_tensor(Gpu& gpu, const std::string& operation, const TensorMapParameters& shape,
                  const std::vector<std::int32_t>& at, std::size_t tensor_bytes,
                  std::mt19937& random) {
    constexpr std::size_t shared_bytes = 32768;
    TensorMapParameters parameters = shape;
    Bytes global = random_elements("f16", tensor_bytes, random);
    const Bytes image = random_elements("f16", shared_bytes, random);
    CUdeviceptr global_address = gpu.write(global);
    parameters.address = global_address;
    CAPTURE(operation, parameters.rank, parameters.swizzle, parameters.data_type, at);

    CUtensorMap encoded;
    gpu.check(gpu.driver().cuTensorMapEncodeTiled(
        &encoded, static_cast<CUtensorMapDataType>(parameters.data_type), parameters.rank,
        reinterpret_cast<void*>(global_address), parameters.dimensions.data(),
        parameters.strides.data(), parameters.box.data(), parameters.element_strides.data(),
        CU_TENSOR_MAP_INTERLEAVE_NONE, static_cast<CUtensorMapSwizzle>(parameters.swizzle),
        CU_TENSOR_MAP_L2_PROMOTION_NONE, static_cast<CUtensorMapFloatOOBfill>(parameters.fill)));
    const EncodedTensorMap ours = encode_tensor_map(parameters);
    REQUIRE(ours.error.value_or("") == "");
    const auto map = decode_tensor_map(ours.bytes.data());
    REQUIRE(map.has_value());

    Bytes coordinates(at.size() * 4);
    std::memcpy(coordinates.data(), at.data(), coordinates.size());
    CUdeviceptr in_address = gpu.write(coordinates), image_address = gpu.write(image);
    CUdeviceptr out_address = gpu.write(Bytes(shared_bytes));
    const std::string ptx =
        tensor_kernel(operation, static_cast<int>(parameters.rank),
                      static_cast<int>(map->box_bytes), static_cast<int>(shared_bytes));
    gpu.launch(gpu.load(ptx), 32, shared_bytes + 1024,
               {&in_address, &out_address, &image_address, &encoded});

    Bytes shared = image;
    for (const TilePiece& piece : tile_pieces(*map, at, 0)) {
        std::byte* inner = &shared.at(piece.shared);
        if (!piece.inside) {
            if (operation == "load") fill_piece(*map, inner, piece.bytes);
            continue;
        }
        std::byte* outer = &global.at(piece.global - global_address);
        if (operation == "load") {
            std::memcpy(inner, outer, piece.bytes);
        } else {
            std::memcpy(outer, inner, piece.bytes);
        }
    }
    check_bytes("shared memory", gpu.read(out_address, shared_bytes), shared);
    check_bytes("global memory", gpu.read(global_address, tensor_bytes), global);
}

}  // namespace

TEST_CASE("mma of the emulator agrees with the GPU", "[gpu][emulator]") {
    Gpu gpu;
    std::mt19937 random(1);
    std::vector<Form> forms{
        {"m16n8k8", "f16", "f16", "f16", ""},   {"m16n8k16", "f16", "f16", "f16", ""},
        {"m16n8k8", "f32", "f16", "f16", ""},   {"m16n8k16", "f32", "f16", "f16", ""},
        {"m16n8k8", "f32", "bf16", "bf16", ""}, {"m16n8k16", "f32", "bf16", "bf16", ""},
        {"m16n8k4", "f32", "tf32", "tf32", ""}, {"m16n8k8", "f32", "tf32", "tf32", ""},
        {"m8n8k4", "f64", "f64", "f64", ""}};
    if (gpu.is_hopper()) {
        for (const char* shape : {"m16n8k4", "m16n8k8", "m16n8k16"}) {
            forms.push_back({shape, "f64", "f64", "f64", ""});
        }
        for (const char* shape : {"m16n8k16", "m16n8k32"}) {
            for (const char* d : {"f16", "f32"}) {
                forms.push_back({shape, d, "e4m3", "e5m2", ""});
                forms.push_back({shape, d, "e5m2", "e4m3", ""});
            }
        }
    }
    for (const char* extra : {"", "satfinite"}) {
        for (const char* shape : {"m8n8k16", "m16n8k16", "m16n8k32"}) {
            forms.push_back({shape, "s32", "s8", "u8", extra});
            forms.push_back({shape, "s32", "u8", "s8", extra});
        }
        for (const char* shape : {"m8n8k32", "m16n8k32", "m16n8k64"}) {
            forms.push_back({shape, "s32", "s4", "u4", extra});
            forms.push_back({shape, "s32", "u4", "s4", extra});
        }
    }
    for (const char* shape : {"m8n8k128", "m16n8k128", "m16n8k256"}) {
        forms.push_back({shape, "s32", "b1", "b1", "xor"});
        forms.push_back({shape, "s32", "b1", "b1", "and"});
    }
    for (const Form& form : forms) check_mma(gpu, form, random);
}

TEST_CASE("wgmma of the emulator agrees with the GPU", "[gpu][emulator]") {
    Gpu gpu;
    if (!gpu.is_hopper()) return;
    std::mt19937 random(2);
    for (const unsigned swizzle : {0U, 32U, 64U, 128U}) {
        const unsigned width = swizzle == 0 ? 16 : swizzle;
        // K-major: eight rows, then the next eight; strides that are larger than they need be.
        const unsigned stride = 8 * width + (swizzle == 0 ? 128 : 8 * swizzle);
        WgmmaForm form;
        form.descriptor_a = descriptor(0, 8192, stride, swizzle);
        form.descriptor_b = descriptor(16384, 12288, stride, swizzle);
        for (const auto& [a, b, d] :
             std::vector<std::array<std::string, 3>>{{"bf16", "bf16", "f32"},
                                                     {"f16", "f16", "f32"},
                                                     {"f16", "f16", "f16"},
                                                     {"tf32", "tf32", "f32"},
                                                     {"e4m3", "e4m3", "f32"},
                                                     {"e5m2", "e5m2", "f16"},
                                                     {"s8", "s8", "s32"},
                                                     {"u8", "u8", "s32"}}) {
            form.a = a;
            form.b = b;
            form.d = d;
            form.saturate = a == "u8";
            form.a_in_registers = false;
            check_wgmma(gpu, form, random);
            form.a_in_registers = true;
            check_wgmma(gpu, form, random);
        }
        // The second and third steps of K within a swizzled row.
        form = {};
        if (swizzle == 128) {
            form.descriptor_a = descriptor(32, 16, 1024, swizzle);
            form.descriptor_b = descriptor(16384 + 64, 16, 1024, swizzle);
            check_wgmma(gpu, form, random);
        }
        // Transposed operands.
        const unsigned tile = 16 * width + 1024;
        for (const int which : {1, 2, 3}) {
            form = {};
            form.n = 128;
            form.transposed_a = (which & 1) != 0;
            form.transposed_b = (which & 2) != 0;
            const auto major = [&](unsigned start, bool transposed) {
                if (!transposed) return descriptor(start, 8192, 8 * width, swizzle);
                return swizzle == 0 ? descriptor(start, 4096, 128, swizzle)
                                    : descriptor(start, tile, 8 * width, swizzle);
            };
            form.descriptor_a = major(0, form.transposed_a);
            form.descriptor_b = major(32768, form.transposed_b);
            form.scale_a = which == 1 ? -1 : 1;
            form.scale_b = which == 3 ? -1 : 1;
            form.accumulates = which != 2;
            check_wgmma(gpu, form, random);
        }
    }
    for (const int n : {8, 24, 80, 160, 256}) {
        WgmmaForm form;
        form.n = n;
        form.descriptor_a = descriptor(0, 16, 1024, 128);
        form.descriptor_b = descriptor(16384, 16, 1024, 128);
        check_wgmma(gpu, form, random);
    }
}

TEST_CASE("wgmma's base offset means on the GPU what it means in the emulator", "[gpu][emulator]") {
    Gpu gpu;
    if (!gpu.is_hopper()) return;
    std::mt19937 random(3);
    for (const unsigned base : {1U, 2U, 5U}) {
        WgmmaForm form;
        form.descriptor_a = descriptor(128 * base, 16, 1024, 128, base);
        form.descriptor_b = descriptor(16384 + 128 * base, 16, 1024, 128, base);
        check_wgmma(gpu, form, random);
        // A start within the pattern without a base offset.
        form.descriptor_a = descriptor(128 * base, 16, 1024, 128);
        form.descriptor_b = descriptor(16384 + 128 * base, 16, 1024, 128);
        check_wgmma(gpu, form, random);
    }
}

TEST_CASE("tensor copies of the emulator move what the GPU moves", "[gpu][emulator]") {
    Gpu gpu;
    if (!gpu.is_hopper()) return;
    std::mt19937 random(4);
    for (const char* operation : {"load", "cp.async.bulk.tensor"}) {
        TensorMapParameters cube;
        cube.data_type = 7;
        cube.rank = 3;
        cube.dimensions = {24, 10, 4};
        cube.strides = {112, 1120};
        cube.box = {8, 4, 2};
        cube.element_strides = {1, 1, 1};
        for (const std::vector<std::int32_t>& at : std::vector<std::vector<std::int32_t>>{
                 {0, 0, 0}, {20, 8, 3}, {-3, -2, -1}, {24, 0, 0}}) {
            check_tensor(gpu, operation, cube, at, 4480, random);
        }
        for (const int swizzle : {1, 2, 3}) {
            TensorMapParameters plane;
            plane.data_type = 6;
            plane.rank = 2;
            plane.dimensions = {500, 77};
            plane.strides = {1024};
            plane.box = {static_cast<std::uint32_t>(8 << swizzle), 32};
            plane.element_strides = {1, 1};
            plane.swizzle = swizzle;
            check_tensor(gpu, operation, plane, {0, 0}, 77 * 1024, random);
            check_tensor(gpu, operation, plane, {480, 60}, 77 * 1024, random);
            check_tensor(gpu, operation, plane, {-5, -3}, 77 * 1024, random);
        }
        TensorMapParameters line;
        line.data_type = 9;
        line.rank = 1;
        line.dimensions = {100};
        line.box = {64};
        line.element_strides = {1};
        check_tensor(gpu, operation, line, {64}, 200, random);
        TensorMapParameters five;
        five.data_type = 0;
        five.rank = 5;
        five.dimensions = {48, 3, 4, 2, 5};
        five.strides = {48, 144, 576, 1152};
        five.box = {16, 2, 3, 2, 2};
        five.element_strides = {1, 1, 1, 1, 1};
        check_tensor(gpu, operation, five, {40, 2, 1, 1, 4}, 5760, random);
        if (std::string(operation) == "load") {
            five.element_strides = {1, 1, 2, 1, 1};
            check_tensor(gpu, operation, five, {16, 1, 1, 0, 3}, 5760, random);
        }
    }
}
