// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "referee/comparison.hpp"
#include "referee/device_code.hpp"
#include "referee/distributions.hpp"
#include "support/catch.hpp"
#include "worker/driver.hpp"

using namespace kernelforge;
using namespace kernelforge::referee;

namespace {

using Shape = std::vector<std::int64_t>;

/// The referee's module in a context of this process; only trusted code runs in it.
class OnDevice {
  public:
    OnDevice() : driver_(worker::load_driver()) {
        REQUIRE(driver_ != nullptr);
        check(driver_->cuInit(0));
        check(driver_->cuDeviceGet(&device_, 0));
        check(driver_->cuDevicePrimaryCtxRetain(&context_, device_));
        check(driver_->cuCtxSetCurrent(context_));
        check(driver_->cuModuleLoadData(&module_, device_ptx().data()));
        check(driver_->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    }
    ~OnDevice() {
        for (const CUdeviceptr address : memory_) driver_->cuMemFree(address);
        driver_->cuStreamDestroy(stream_);
        driver_->cuModuleUnload(module_);
        driver_->cuDevicePrimaryCtxRelease(device_);
    }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

    CUdeviceptr allocate(std::size_t bytes) {
        CUdeviceptr address = 0;
        check(driver_->cuMemAlloc(&address, std::max<std::size_t>(bytes, 1)));
        memory_.push_back(address);
        check(driver_->cuMemsetD8Async(address, 0, std::max<std::size_t>(bytes, 1), stream_));
        return address;
    }
    template <class Parameters>
    void launch(const char* kernel, const LaunchShape& shape, Parameters& parameters) {
        CUfunction function = nullptr;
        check(driver_->cuModuleGetFunction(&function, module_, kernel));
        void* arguments[] = {&parameters};
        check(driver_->cuLaunchKernel(function, shape.blocks, 1, 1, shape.threads, 1, 1,
                                      shape.dynamic_shared_bytes, stream_, arguments, nullptr));
    }
    std::vector<std::byte> read(CUdeviceptr address, std::size_t bytes) {
        std::vector<std::byte> result(bytes);
        check(driver_->cuMemcpyDtoHAsync(result.data(), address, bytes, stream_));
        check(driver_->cuCtxSynchronize());
        return result;
    }
    CUdeviceptr filled(FillParameters& p) {
        p.data = allocate(static_cast<std::size_t>(p.count) *
                          element_bytes(static_cast<DType>(p.dtype)));
        launch("kf_fill", fill_shape(p, 132), p);
        return p.data;
    }

  private:
    void check(CUresult result) { driver_->check(result, "referee on the device"); }

    std::unique_ptr<const worker::Driver> driver_;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    CUmodule module_ = nullptr;
    CUstream stream_ = nullptr;
    std::vector<CUdeviceptr> memory_;
};

constexpr DType all_types[] = {DType::float64,  DType::float32,       DType::float16,
                               DType::bfloat16, DType::float8_e4m3fn, DType::float8_e5m2,
                               DType::int64,    DType::int32,         DType::int16,
                               DType::int8,     DType::uint8,         DType::boolean};
constexpr Distribution all_distributions[] = {Distribution::natural, Distribution::scaled,
                                              Distribution::heavy_tails, Distribution::structured};

std::vector<std::byte> host_fill(const FillParameters& p) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(p.count) *
                                 element_bytes(static_cast<DType>(p.dtype)));
    fill_on_host(p, 0, bytes);
    return bytes;
}

}  // namespace

TEST_CASE("the device draws the same bits as the host, in every type, kind and distribution",
          "[gpu]") {
    OnDevice device;
    const Shape shape = {67, 301};
    for (const DType dtype : all_types) {
        for (int kind = 0; kind <= static_cast<int>(InitSpec::Kind::heavy_tail); ++kind) {
            InitSpec init;
            init.kind = static_cast<InitSpec::Kind>(kind);
            init.mean = 0.25;
            init.stddev = 3.0;
            init.low = -7.0;
            init.high = 90.0;
            for (const Distribution distribution : all_distributions) {
                FillParameters p =
                    fill_parameters(init, dtype, shape, distribution, 0x123456789ULL, 2);
                const CUdeviceptr address = device.filled(p);
                const std::vector<std::byte> expected = host_fill(p);
                INFO(to_string(dtype) << ", kind " << kind << ", " << to_string(distribution));
                CHECK(device.read(address, expected.size()) == expected);
            }
        }
    }
}

TEST_CASE("the device compares as the host does", "[gpu]") {
    OnDevice device;
    for (const Shape& shape : {Shape{5}, Shape{40001}, Shape{300, 515}, Shape{3, 50, 300}}) {
        for (const DType dtype : all_types) {
            // The same draw twice, with a few elements of one never written.
            TensorSpec tensor;
            tensor.dtype = dtype;
            FillParameters p =
                fill_parameters(init_of({}, tensor), dtype, shape, Distribution::structured, 9, 0);
            const std::vector<std::byte> expected = host_fill(p);
            const std::size_t size = element_bytes(dtype);
            CompareParameters c = compare_parameters(default_compare(dtype), dtype, shape);
            c.expected = device.filled(p);
            c.found = device.filled(p);
            c.partials = device.allocate(tile_count(c) * sizeof(TilePartial));
            c.result = device.allocate(sizeof(CompareResult));
            std::vector<std::byte> found = expected;
            const std::size_t count = expected.size() / size;
            for (std::size_t i = 3; i < count; i += 9973) {
                PoisonParameters poison{c.found + i * size, size};
                device.launch("kf_poison", bytes_shape(size, 132), poison);
                std::memset(found.data() + i * size, 0xFF, size);
            }
            device.launch("kf_compare_tiles", tiles_shape(c, 132), c);
            device.launch("kf_compare_reduce", reduce_shape(), c);
            device.launch("kf_compare_elements", tiles_shape(c, 132), c);
            device.launch("kf_compare_finish", finish_shape(), c);
            CompareResult result;
            const auto bytes = device.read(c.result, sizeof result);
            std::memcpy(&result, bytes.data(), sizeof result);
            const CompareResult host = compare_on_host(c, found, expected);
            INFO(to_string(dtype) << ", " << count << " elements");
            CHECK(result.complete == compare_complete);
            CHECK(result.count == host.count);
            CHECK(result.bad == host.bad);
            CHECK(result.first_bad == host.first_bad);
            CHECK(result.far == host.far);
            CHECK(result.first_far == host.first_far);
            CHECK(result.max_index == host.max_index);
            CHECK(result.shown_index == host.shown_index);
            CHECK(result.reference2 == Approx(host.reference2).epsilon(1e-12));
            CHECK(result.error2 == Approx(host.error2).epsilon(1e-12));
            CHECK(result.max_tile_rms == Approx(host.max_tile_rms).epsilon(1e-12));
            CHECK(result.bad + result.far > 0);
        }
    }
}

TEST_CASE("the device finds what is off by little as the host does", "[gpu]") {
    // bf16 values against the same draw in another distribution's scale: all elements differ.
    OnDevice device;
    const Shape shape = {256, 384};
    FillParameters p = fill_parameters({}, DType::bfloat16, shape, Distribution::natural, 5, 0);
    FillParameters q = p;
    q.base = 0.03;  // a mean that the other has not
    CompareSpec spec;
    spec.tier = PrecisionTier::bfloat16;
    CompareParameters c = compare_parameters(spec, DType::bfloat16, shape);
    c.expected = device.filled(p);
    c.found = device.filled(q);
    c.partials = device.allocate(tile_count(c) * sizeof(TilePartial));
    c.result = device.allocate(sizeof(CompareResult));
    device.launch("kf_compare_tiles", tiles_shape(c, 132), c);
    device.launch("kf_compare_reduce", reduce_shape(), c);
    device.launch("kf_compare_elements", tiles_shape(c, 132), c);
    device.launch("kf_compare_finish", finish_shape(), c);
    CompareResult result;
    const auto bytes = device.read(c.result, sizeof result);
    std::memcpy(&result, bytes.data(), sizeof result);
    const CompareResult host = compare_on_host(c, host_fill(q), host_fill(p));
    CHECK(result.far == host.far);
    CHECK(result.error2 == Approx(host.error2).epsilon(1e-12));
    CHECK(result.max_tile_rms == Approx(host.max_tile_rms).epsilon(1e-12));
    CHECK(result.worst_tile == host.worst_tile);
    CHECK(result.max_error == host.max_error);
    CHECK_FALSE(judge("y", spec, result, "natural").ok);
}

TEST_CASE("poison covers exactly its bytes and non-zero bytes are counted, at any alignment",
          "[gpu]") {
    OnDevice device;
    for (const std::size_t offset : {0, 1, 7, 15, 16}) {
        for (const std::size_t bytes : {0, 1, 5, 16, 31, 1000, 100003}) {
            const CUdeviceptr address = device.allocate(bytes + 64);
            PoisonParameters poison{address + offset, bytes};
            device.launch("kf_poison", bytes_shape(bytes, 132), poison);
            const CUdeviceptr counter = device.allocate(sizeof(u64));
            CountNonzeroParameters count{address, bytes + 64, counter};
            device.launch("kf_count_nonzero", bytes_shape(bytes + 64, 132), count);
            const auto memory = device.read(address, bytes + 64);
            u64 counted = 0;
            std::memcpy(&counted, device.read(counter, sizeof counted).data(), sizeof counted);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < memory.size(); ++i) {
                const bool inside = i >= offset && i < offset + bytes;
                wrong += memory[i] != (inside ? std::byte{0xFF} : std::byte{0}) ? 1 : 0;
            }
            INFO(bytes << " bytes at offset " << offset);
            CHECK(wrong == 0);
            CHECK(counted == bytes);
        }
    }
}
