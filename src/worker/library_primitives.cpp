// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "worker/library/parameters.hpp"
#include "worker/library_shapes.hpp"
#include "worker/library_steps.hpp"

#ifndef KERNELFORGE_CUB_VERSION
#define KERNELFORGE_CUB_VERSION "none"
#endif

// Reductions and sorts: own kernels on the primitives of CUB, compiled with KernelForge.

namespace kernelforge::worker::library {

namespace {

std::size_t aligned(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    return (bytes + alignment - 1) / alignment * alignment;
}

std::string cub_text() {
    return std::string("CUB ") + KERNELFORGE_CUB_VERSION;
}

unsigned blocks_of(std::int64_t count, const plan::ResolvedCall& call) {
    constexpr std::int64_t most = 0x7fffffff;
    if (count > most) {
        throw Error(ErrorCode::unsupported, call.position,
                    fmt::format("{}: it would need {} blocks, at most {} are possible",
                                call.function, count, most));
    }
    return static_cast<unsigned>(count);
}

// --- reduce -------------------------------------------------------------------------------------

ElementType element_type(std::string_view dtype) {
    constexpr std::pair<std::string_view, ElementType> types[] = {
        {"f32", element_f32},   {"f64", element_f64}, {"f16", element_f16},
        {"bf16", element_bf16}, {"i32", element_i32}, {"i64", element_i64}};
    for (const auto& [name, type] : types) {
        if (name == dtype) return type;
    }
    throw Error(ErrorCode::unsupported,
                cub_text() + ": reduce and sort have no kernel of " + std::string(dtype));
}

/// The type in which elements are added up.
std::string_view accumulator(std::string_view dtype) {
    if (dtype == "f64") return "f64";
    return dtype.front() == 'i' ? "i64" : "f32";
}

class ReduceStep final : public LibraryStep {
  public:
    ReduceStep(const StepContext& context, const plan::ResolvedCall& call, ReduceShape shape)
        : kernels_(context.kernels),
          shape_(std::move(shape)),
          split_(split_reduction(shape_, context.device.multiprocessors)) {
        static constexpr std::array<std::string_view, 4> operations = {"sum", "max", "min", "sum"};
        const std::string_view op = operations[static_cast<std::size_t>(shape_.operation)];
        const std::string type = shape_.in.dtype;
        static_cast<void>(element_type(type));
        constexpr std::int64_t most_of_a_warp = 2048;
        const bool contiguous = shape_.inner == 1;
        form_ = !contiguous ? "column" : shape_.n <= most_of_a_warp ? "warp" : "row";
        function_ = find(form_, type, op);
        if (split_.splits > 1) {
            // Its inputs are the parts, in the accumulator's type.
            second_ = find(contiguous ? "warp" : "column", accumulator(type), op);
        }
        // Refused here, not when it is enqueued.
        static_cast<void>(blocks_of(blocks(first_pass()), call));
    }

    [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
        if (split_.splits == 1) return 0;
        return static_cast<std::size_t>(shape_.outer * split_.splits * shape_.inner) *
               element_bytes(accumulator(shape_.in.dtype));
    }

    void enqueue(CUstream stream, const Addresses& addresses, CUdeviceptr workspace) override {
        const double divisor =
            shape_.operation == ReduceShape::Operation::mean ? static_cast<double>(shape_.n) : 0.0;
        const CUdeviceptr out = address_of(addresses, shape_.out.name);
        const int out_type = element_type(shape_.out.dtype);
        ReduceParameters first = first_pass();
        first.in = address_of(addresses, shape_.in.name);
        if (split_.splits == 1) {
            first.out = out;
            first.out_type = out_type;
            first.divisor = divisor;
            launch(function_, form_, stream, first, shape_.in.dtype);
            return;
        }
        const std::string_view type = accumulator(shape_.in.dtype);
        first.out = workspace;
        first.out_type = element_type(type);
        launch(function_, form_, stream, first, shape_.in.dtype);
        ReduceParameters second;
        second.in = workspace;
        second.out = out;
        second.outer = shape_.outer;
        second.n = split_.splits;
        second.inner = shape_.inner;
        second.chunk = split_.splits;
        second.divisor = divisor;
        second.out_type = out_type;
        launch(second_, shape_.inner == 1 ? "warp" : "column", stream, second, type);
    }

    [[nodiscard]] std::string describe() const override {
        return fmt::format("{}: reduce by {}, {} part{} a result", cub_text(),
                           form_ == "row"    ? "blocks"
                           : form_ == "warp" ? "warps"
                                             : "columns",
                           split_.splits, split_.splits == 1 ? "" : "s");
    }

  private:
    [[nodiscard]] CUfunction find(std::string_view form, std::string_view type,
                                  std::string_view op) {
        return kernels_->find(fmt::format("reduce_{}", type),
                              fmt::format("kf_reduce_{}_{}_{}", form, type, op));
    }

    [[nodiscard]] ReduceParameters first_pass() const {
        ReduceParameters parameters;
        parameters.outer = shape_.outer;
        parameters.n = shape_.n;
        parameters.inner = shape_.inner;
        parameters.splits = split_.splits;
        parameters.chunk = split_.chunk;
        return parameters;
    }

    /// Upper bound of the blocks of a launch.
    [[nodiscard]] std::int64_t blocks(const ReduceParameters& p) const {
        return shape_.inner == 1 ? p.outer * p.splits
                                 : p.outer * p.splits *
                                       ((p.inner + reduce_column_lanes - 1) / reduce_column_lanes);
    }

    void launch(CUfunction function, std::string_view form, CUstream stream, ReduceParameters p,
                std::string_view type) const {
        std::int64_t count = p.outer * p.splits;
        if (form == "warp") count = (p.outer + reduce_warps - 1) / reduce_warps;
        if (form == "column") {
            const auto bytes = static_cast<std::int64_t>(element_bytes(type));
            p.vector =
                p.inner * bytes % reduce_vector_bytes == 0 && p.in % reduce_vector_bytes == 0;
            const std::int64_t columns =
                reduce_column_lanes * (p.vector != 0 ? reduce_vector_bytes / bytes : 1);
            count *= (p.inner + columns - 1) / columns;
        }
        kernels_->launch(function, {static_cast<unsigned>(count), 1}, reduce_threads, stream, p);
    }

    std::shared_ptr<Kernels> kernels_;  ///< shared with the maker
    ReduceShape shape_;
    ReduceSplit split_;
    std::string_view form_;
    CUfunction function_ = nullptr;
    CUfunction second_ = nullptr;
};

// --- sort ---------------------------------------------------------------------------------------

/// Where the temporaries of a sort lie in its workspace.
struct SortPlaces {
    std::size_t keys = 0;
    std::size_t payload = 0;  ///< 32 bits an element, two of them when payloads are indices
    std::size_t payload_2 = 0;
    std::size_t bins = 0;
    std::size_t counters = 0;
    std::size_t lookback = 0;
    std::size_t total = 0;
};

class SortStep final : public LibraryStep {
  public:
    SortStep(const StepContext& context, const plan::ResolvedCall& call, SortShape shape)
        : driver_(context.driver), kernels_(context.kernels), shape_(std::move(shape)) {
        check(call);
        const std::string module = "sort_" + shape_.in.dtype;
        const std::string_view order = shape_.descending ? "descending" : "ascending";
        const std::string_view kind = shape_.values.given() ? "pairs" : "keys";
        const std::int64_t small = sort_small_threads * sort_small_items;
        const auto bytes = static_cast<std::int64_t>(element_bytes(shape_.in.dtype));
        const std::int64_t large =
            sort_large_threads * (bytes == 8 ? sort_large_items_wide : sort_large_items);
        indices_ = shape_.values.given() && element_bytes(shape_.values.dtype) != 4;
        if (shape_.n <= large) {
            threads_ = shape_.n <= small ? sort_small_threads : sort_large_threads;
            block_ = kernels_->find(
                module, fmt::format("kf_sort_block_{}_{}_{}", shape_.n <= small ? "small" : "large",
                                    kind, order));
            tile_ = shape_.n <= small ? small : large;
        } else {
            histogram_ = kernels_->find(module, fmt::format("kf_sort_histogram_{}", order));
            scan_ = kernels_->find(module, "kf_sort_scan");
            sweep_ = kernels_->find(module, fmt::format("kf_sort_sweep_{}_{}", kind, order));
            passes_ = static_cast<int>(bytes);
            tile_ = sweep_threads * (bytes == 8 ? sweep_items_wide : sweep_items);
            multiprocessors_ = context.device.multiprocessors;
        }
        if (indices_) {
            index_ = kernels_->find("common", "kf_sort_index");
            gather_ = kernels_->find("common", "kf_sort_gather");
        }
        places_ = place();
    }

    [[nodiscard]] std::size_t workspace_bytes() const noexcept override { return places_.total; }

    void enqueue(CUstream stream, const Addresses& addresses, CUdeviceptr workspace) override {
        const CUdeviceptr keys_in = address_of(addresses, shape_.in.name);
        const CUdeviceptr keys_out = address_of(addresses, shape_.out.name);
        CUdeviceptr values_in = 0;
        CUdeviceptr values_out = 0;
        if (shape_.values.given()) {
            values_in = address_of(addresses, shape_.values.name);
            values_out = address_of(addresses, shape_.values_out.name);
        }
        // Values that are not of 32 bits follow indices, which are sorted in their place.
        const CUdeviceptr payload_out = indices_ ? workspace + places_.payload_2 : values_out;
        if (block_ != nullptr) {
            BlockSortParameters p;
            p.keys_in = keys_in;
            p.keys_out = keys_out;
            p.values_in = indices_ ? 0 : values_in;
            p.values_out = payload_out;
            p.rows = shape_.rows;
            p.n = static_cast<int>(shape_.n);
            kernels_->launch(block_, {static_cast<unsigned>(shape_.rows), 1}, threads_, stream, p);
        } else {
            sort_long(stream, workspace, {keys_in, keys_out, values_in, payload_out});
        }
        if (indices_) {
            GatherParameters p;
            p.index = payload_out;
            p.in = values_in;
            p.out = values_out;
            p.count = count();
            p.n = static_cast<int>(shape_.n);
            p.bytes = static_cast<int>(element_bytes(shape_.values.dtype));
            kernels_->launch(gather_, elements_grid(), elements_threads, stream, p);
        }
    }

    [[nodiscard]] std::string describe() const override {
        if (block_ != nullptr) {
            return fmt::format("{}: BlockRadixSort, tile {}", cub_text(), tile_);
        }
        return fmt::format("{}: onesweep radix sort, {} passes of 8 bits, tile {}", cub_text(),
                           passes_, tile_);
    }

  private:
    static constexpr unsigned elements_threads = 256;
    static constexpr unsigned most_rows_of_a_launch = 65535;  // gridDim.y

    struct Buffers {
        CUdeviceptr keys_in = 0;
        CUdeviceptr keys_out = 0;
        CUdeviceptr values_in = 0;
        CUdeviceptr values_out = 0;
    };

    void check(const plan::ResolvedCall& call) const {
        static_cast<void>(element_type(shape_.in.dtype));
        // A look-back word has 30 bits for a count.
        constexpr std::int64_t most = (std::int64_t{1} << 30) - 1;
        if (shape_.n > most) {
            throw Error(
                ErrorCode::unsupported, call.position,
                fmt::format("sort: runs of {} elements, at most {} are possible", shape_.n, most));
        }
        static_cast<void>(blocks_of(shape_.rows, call));
    }

    [[nodiscard]] std::int64_t count() const { return shape_.rows * shape_.n; }
    [[nodiscard]] std::int64_t tiles() const { return (shape_.n + tile_ - 1) / tile_; }
    [[nodiscard]] Kernels::Grid elements_grid() const {
        constexpr std::int64_t most = 4096;
        return {static_cast<unsigned>(std::min(most, count() / elements_threads + 1)), 1};
    }

    [[nodiscard]] SortPlaces place() const {
        SortPlaces places;
        const auto take = [&](std::size_t bytes) {
            const std::size_t at = places.total;
            places.total += aligned(bytes);
            return at;
        };
        const auto elements = static_cast<std::size_t>(count());
        const auto rows = static_cast<std::size_t>(shape_.rows);
        constexpr std::size_t word = 4;
        if (indices_) places.payload_2 = take(elements * word);
        if (block_ != nullptr) return places;
        places.keys = take(elements * element_bytes(shape_.in.dtype));
        if (shape_.values.given()) places.payload = take(elements * word);
        // Bins and counters are zeroed together.
        places.bins = take(rows * static_cast<std::size_t>(passes_) * sort_digits * word);
        places.counters = take(rows * static_cast<std::size_t>(passes_) * word);
        places.lookback = take(rows * static_cast<std::size_t>(tiles()) * sort_digits * word);
        return places;
    }

    void zero(CUstream stream, CUdeviceptr begin, CUdeviceptr end) const {
        driver_.check(driver_.cuMemsetD8Async(begin, 0, end - begin, stream),
                      "clearing a sort's workspace");
    }

    void sort_long(CUstream stream, CUdeviceptr workspace, const Buffers& buffers) const {
        zero(stream, workspace + places_.bins, workspace + places_.lookback);
        SweepParameters p;
        p.bins = workspace + places_.bins;
        p.counters = workspace + places_.counters;
        p.lookback = workspace + places_.lookback;
        p.n = static_cast<int>(shape_.n);
        p.tiles = static_cast<int>(tiles());
        p.passes = passes_;
        p.keys_in = buffers.keys_in;
        // As many blocks as the device holds at once, over all rows.
        constexpr std::int64_t blocks_a_multiprocessor = 8;
        const std::int64_t chunk = histogram_threads * histogram_items;
        const std::int64_t wanted = std::clamp<std::int64_t>(
            multiprocessors_ * blocks_a_multiprocessor / shape_.rows, 1, shape_.n / chunk + 1);
        over_rows(histogram_, static_cast<unsigned>(wanted), histogram_threads, stream, p);
        ScanParameters scan;
        scan.bins = p.bins;
        kernels_->launch(scan_, {static_cast<unsigned>(shape_.rows * passes_), 1}, sort_digits,
                         stream, scan);
        p.values_in = buffers.values_in;
        if (indices_) {
            IndexParameters index;
            index.out = buffers.values_out;
            index.count = count();
            index.n = p.n;
            kernels_->launch(index_, elements_grid(), elements_threads, stream, index);
            p.values_in = buffers.values_out;
        }
        // The number of passes is even: the last one writes the outputs.
        for (p.pass = 0; p.pass < passes_; ++p.pass) {
            const bool to_workspace = p.pass % 2 == 0;
            p.keys_out = to_workspace ? workspace + places_.keys : buffers.keys_out;
            p.values_out = to_workspace ? workspace + places_.payload : buffers.values_out;
            zero(stream, p.lookback, workspace + places_.total);
            over_rows(sweep_, static_cast<unsigned>(p.tiles), sweep_threads, stream, p);
            p.keys_in = p.keys_out;
            p.values_in = p.values_out;
        }
    }

    /// One launch for every 65535 rows.
    void over_rows(CUfunction function, unsigned blocks, unsigned threads, CUstream stream,
                   SweepParameters p) const {
        const auto key_bytes = element_bytes(shape_.in.dtype);
        for (std::int64_t row = 0; row < shape_.rows; row += most_rows_of_a_launch) {
            const auto rows = std::min<std::int64_t>(most_rows_of_a_launch, shape_.rows - row);
            kernels_->launch(function, {blocks, static_cast<unsigned>(rows)}, threads, stream, p);
            const auto elements = static_cast<std::uint64_t>(rows) * static_cast<unsigned>(p.n);
            const auto words = static_cast<std::uint64_t>(rows) * 4;
            const auto passes = static_cast<std::uint64_t>(p.passes);
            p.keys_in += elements * key_bytes;
            p.keys_out += elements * key_bytes;
            p.values_in += elements * 4;
            p.values_out += elements * 4;
            p.bins += words * passes * sort_digits;
            p.counters += words * passes;
            p.lookback += words * static_cast<unsigned>(p.tiles) * sort_digits;
        }
    }

    const Driver& driver_;
    std::shared_ptr<Kernels> kernels_;  ///< shared with the maker
    SortShape shape_;
    bool indices_ = false;  ///< the payload of the sort is an index, gathered at the end
    CUfunction block_ = nullptr;
    CUfunction histogram_ = nullptr;
    CUfunction scan_ = nullptr;
    CUfunction sweep_ = nullptr;
    CUfunction index_ = nullptr;
    CUfunction gather_ = nullptr;
    unsigned threads_ = 0;
    std::int64_t tile_ = 1;
    int passes_ = 0;
    int multiprocessors_ = 1;
    SortPlaces places_;
};

template <class Step, class Shape, Shape (*shape_of)(const plan::ResolvedCall&)>
class PrimitiveMaker final : public StepMaker {
  public:
    explicit PrimitiveMaker(StepContext context) : context_(std::move(context)) {}

    [[nodiscard]] std::unique_ptr<LibraryStep> make(const plan::ResolvedCall& call) override {
        return std::make_unique<Step>(context_, call, shape_of(call));
    }

  private:
    StepContext context_;
};

}  // namespace

std::unique_ptr<StepMaker> reduce_maker(const StepContext& context) {
    return std::make_unique<PrimitiveMaker<ReduceStep, ReduceShape, reduce_shape>>(context);
}

std::unique_ptr<StepMaker> sort_maker(const StepContext& context) {
    return std::make_unique<PrimitiveMaker<SortStep, SortShape, sort_shape>>(context);
}

}  // namespace kernelforge::worker::library
