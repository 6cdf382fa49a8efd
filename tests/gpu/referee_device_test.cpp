// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "referee/comparison.hpp"
#include "referee/device/digest_elements.hpp"
#include "referee/device_code.hpp"
#include "referee/digest.hpp"
#include "referee/distributions.hpp"
#include "referee/output_comparison.hpp"
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
    template <class T>
    CUdeviceptr written(const std::vector<T>& values) {
        const CUdeviceptr address = allocate(values.size() * sizeof(T));
        check(
            driver_->cuMemcpyHtoDAsync(address, values.data(), values.size() * sizeof(T), stream_));
        return address;
    }
    CompareResult compared(CompareParameters& c) {
        c.partials = allocate(tile_count(c) * sizeof(TilePartial));
        c.result = allocate(sizeof(CompareResult));
        launch("kf_compare_tiles", tiles_shape(c, 132), c);
        launch("kf_compare_reduce", reduce_shape(), c);
        launch("kf_compare_elements", tiles_shape(c, 132), c);
        launch("kf_compare_finish", finish_shape(), c);
        CompareResult result;
        const auto bytes = read(c.result, sizeof result);
        std::memcpy(&result, bytes.data(), sizeof result);
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

TEST_CASE("the device draws offsets, distinct values and used slices as the host does", "[gpu]") {
    OnDevice device;
    Task task;
    task.definition.inputs = {{"indptr", {"starts"}, false, DType::int32, ""},
                              {"cache", {"pages", "d"}, false, DType::bfloat16, ""},
                              {"table", {"named"}, false, DType::int64, ""}};
    task.init["indptr"].kind = InitSpec::Kind::offsets;
    task.init["indptr"].bound = "tokens";
    task.init["table"].kind = InitSpec::Kind::distinct;
    task.init["table"].bound = "pages";
    task.init["cache"].used_by = "table";
    for (const std::int64_t batch : {1, 2, 3, 16, 1000}) {
        const std::map<std::string, std::int64_t> axes = {
            {"starts", batch + 1}, {"tokens", 20911}, {"pages", 30163}, {"named", 20911}, {"d", 8}};
        for (const Distribution distribution : all_distributions) {
            for (std::uint32_t input = 0; input < 3; ++input) {
                FillParameters p = fill_parameters(task, axes, task.definition.inputs[input], input,
                                                   distribution, 0x987654321ULL);
                const CUdeviceptr address = device.filled(p);
                const std::vector<std::byte> expected = host_fill(p);
                INFO(task.definition.inputs[input].name << ", batch " << batch << ", "
                                                        << to_string(distribution));
                CHECK(device.read(address, expected.size()) == expected);
            }
        }
    }
}

TEST_CASE("the device compares logarithms and segments as the host does", "[gpu]") {
    OnDevice device;
    Task task;
    task.definition.inputs = {{"indptr", {"starts"}, false, DType::int32, ""}};
    task.definition.outputs = {{"o", {"rows", "d"}, false, DType::bfloat16, ""},
                               {"l", {"rows", "d"}, false, DType::float32, ""}};
    task.init["indptr"].kind = InitSpec::Kind::offsets;
    task.init["indptr"].bound = "tokens";
    task.compare["o"] = {
        .kind = CompareSpec::Kind::ragged, .tier = PrecisionTier::bfloat16, .offsets = "indptr"};
    task.compare["l"].kind = CompareSpec::Kind::lse;
    const std::map<std::string, std::int64_t> axes = {
        {"starts", 18}, {"tokens", 3000}, {"rows", 3010}, {"d", 96}};
    const FillParameters offsets =
        fill_parameters(task, axes, task.definition.inputs[0], 0, Distribution::structured, 31);
    for (const TensorSpec& output : task.definition.outputs) {
        const OutputComparison comparison(task, output, axes);
        FillParameters p =
            fill_parameters({}, output.dtype, comparison.shape(), Distribution::structured, 12, 0);
        FillParameters q = p;
        q.base = 0.02;
        CompareParameters c = comparison.parameters();
        std::vector<std::uint64_t> starts;
        if (output.name == "o") {
            starts = comparison.tile_starts(host_fill(offsets));
            c.starts = device.written(starts);
            c.tiles = starts.size() - 1;
        }
        c.expected = device.filled(p);
        c.found = device.filled(q);
        const std::size_t size = element_bytes(output.dtype);
        std::vector<std::byte> found = host_fill(q);
        // One element not written, and one behind the last segment.
        for (const std::size_t index : {std::size_t{1234}, std::size_t{3005} * 96}) {
            PoisonParameters poison{c.found + index * size, size};
            device.launch("kf_poison", bytes_shape(size, 132), poison);
            std::memset(found.data() + index * size, 0xFF, size);
        }
        const CompareResult result = device.compared(c);
        const CompareResult host =
            compare_on_host(comparison.parameters(), found, host_fill(p), starts);
        INFO("output " << output.name);
        CHECK(result.complete == compare_complete);
        CHECK(result.count == (output.name == "o" ? 3000U : 3010U) * 96U);
        CHECK(result.bad == (output.name == "o" ? 1U : 2U));
        CHECK(result.count == host.count);
        CHECK(result.bad == host.bad);
        CHECK(result.first_bad == host.first_bad);
        CHECK(result.far == host.far);
        CHECK(result.first_far == host.first_far);
        CHECK(result.worst_tile == host.worst_tile);
        CHECK(result.reference2 == Approx(host.reference2).epsilon(1e-12));
        CHECK(result.error2 == Approx(host.error2).epsilon(1e-12));
        CHECK(result.max_tile_rms == Approx(host.max_tile_rms).epsilon(1e-12));
        CHECK_FALSE(comparison.judge(result, "structured").ok);
    }
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

TEST_CASE("the device judges timed calls by digests as the host does", "[gpu]") {
    OnDevice device;
    for (const Shape& shape : {Shape{5}, Shape{40001}, Shape{300, 515}, Shape{700, 900}}) {
        for (const DType dtype : all_types) {
            TensorSpec tensor;
            tensor.dtype = dtype;
            FillParameters fill =
                fill_parameters(init_of({}, tensor), dtype, shape, Distribution::structured, 9, 0);
            const std::vector<std::byte> expected = host_fill(fill);
            const std::size_t size = element_bytes(dtype);
            const std::size_t count = expected.size() / size;
            const CompareSpec spec = default_compare(dtype);
            DigestParameters p = digest_parameters(spec, dtype, shape, 1, 1 << 17);
            p.seed = 0xABCDEF0123ULL;
            p.calls = 3;
            p.reference = 3;
            p.slot_bytes = digest_slot_bytes(p);
            p.slots = device.allocate(4 * p.slot_bytes);
            p.verdicts = device.allocate(3 * sizeof(DigestVerdict));
            const CUdeviceptr reference = device.filled(fill);
            // Call 0 is right, call 1 has bytes never written, call 2 had other inputs.
            std::vector<std::vector<std::byte>> found(3, expected);
            for (std::uint64_t call = 0; call < 3; ++call) {
                p.call = call;
                p.set = call == 2 ? 1 : 0;
                p.data = device.filled(fill);
                for (std::size_t i = 3; call == 1 && i < count; i += 9973) {
                    PoisonParameters poison{p.data + i * size, size};
                    device.launch("kf_poison", bytes_shape(size, 132), poison);
                    std::fill_n(found[call].begin() + static_cast<std::ptrdiff_t>(i * size), size,
                                std::byte{0xFF});
                }
                device.launch("kf_digest_tiles", digest_shape(p, 132), p);
                if (p.samples > 0) {
                    device.launch("kf_digest_sample", digest_sample_shape(p), p);
                }
            }
            p.set = 0;
            p.call = p.reference;
            p.data = reference;
            device.launch("kf_digest_tiles", digest_shape(p, 132), p);
            device.launch("kf_digest_judge", digest_judge_shape(p), p);
            const std::vector<std::byte> bytes = device.read(p.verdicts, 3 * sizeof(DigestVerdict));
            for (std::uint64_t call = 0; call < 3; ++call) {
                INFO(to_string(dtype) << " of " << count << " elements, call " << call);
                DigestVerdict v;
                std::memcpy(&v, bytes.data() + call * sizeof(v), sizeof(v));
                if (call == 2) {
                    CHECK(v.complete == 0);
                    continue;
                }
                p.call = call;
                const DigestVerdict host =
                    judge_on_host(p, digest_on_host(p, found[call]), found[call], expected);
                CHECK(v.complete == compare_complete);
                CHECK(v.bad == host.bad);
                CHECK(v.far == host.far);
                CHECK(v.over == host.over);
                CHECK(v.first == host.first);
                CHECK(v.projection2 == Approx(host.projection2).epsilon(1e-9).margin(1e-12));
                CHECK(v.reference2 == Approx(host.reference2).epsilon(1e-9));
                CHECK(v.worst_sample == Approx(host.worst_sample).epsilon(1e-9).margin(1e-15));
                CHECK(judge_digest("y", spec, p, v, "").ok == (call == 0));
            }
        }
    }
}
