// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cub/version.cuh>
#if CUB_VERSION < 300000
#include <cuda/std/cstdint>
#include <cuda/std/type_traits>
namespace std {
using namespace ::cuda::std;
}
#endif
#include <cub/agent/agent_radix_sort_histogram.cuh>
#include <cub/agent/agent_radix_sort_onesweep.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

#include "worker/library/parameters.hpp"

// Radix sort of rows of one key type (KERNELFORGE_SORT_KEY), stable, ascending and descending: a
// row that fits a block's tile by cub::BlockRadixSort, a longer one by the agents of
// cub::DeviceRadixSort (one histogram of all digits, then one pass of reading and scattering a
// digit).

// The agents' namespace before and from CCCL 3.0 on.
namespace cub::detail::radix_sort {}

namespace kernelforge::worker::library {

namespace {

using namespace cub;
using namespace cub::detail::radix_sort;

using Key = KERNELFORGE_SORT_KEY;

template <int bytes>
struct Bits;
template <>
struct Bits<2> {
    using Type = unsigned short;
};
template <>
struct Bits<4> {
    using Type = unsigned;
};
template <>
struct Bits<8> {
    using Type = unsigned long long;
};
using KeyBits = typename Bits<sizeof(Key)>::Type;

// Of this key type.
constexpr int small_items = sort_small_items;
constexpr int large_items = sizeof(Key) == 8 ? sort_large_items_wide : sort_large_items;

/// The key that sorts behind all others: what fills a tile. Positive NaN or the largest integer;
/// descending: negative NaN or the least integer.
template <bool descending>
__device__ Key last_key() {
    constexpr KeyBits sign = static_cast<KeyBits>(KeyBits(1) << (8 * sizeof(Key) - 1));
    union {
        KeyBits bits;
        Key key;
    } result{static_cast<KeyBits>(sign - 1)};
    if (descending)
        result.bits = KERNELFORGE_SORT_IS_FLOAT ? static_cast<KeyBits>(~KeyBits(0)) : sign;
    return result.key;
}

template <int threads, int items, bool pairs, bool descending>
__device__ void block_sort(const BlockSortParameters& p) {
    using Value = ::cuda::std::conditional_t<pairs, unsigned, NullType>;
    using Sort = BlockRadixSort<Key, threads, items, Value>;
    using Load = BlockLoad<Key, threads, items, BLOCK_LOAD_WARP_TRANSPOSE>;
    using LoadValues = BlockLoad<unsigned, threads, items, BLOCK_LOAD_WARP_TRANSPOSE>;
    __shared__ union {
        typename Sort::TempStorage sort;
        typename Load::TempStorage load;
        typename LoadValues::TempStorage load_values;
    } storage;
    const long long start = blockIdx.x * static_cast<long long>(p.n);
    Key keys[items];
    Load(storage.load)
        .Load(reinterpret_cast<const Key*>(p.keys_in) + start, keys, p.n, last_key<descending>());
    __syncthreads();
    if constexpr (pairs) {
        unsigned values[items];
        if (p.values_in != 0) {
            LoadValues(storage.load_values)
                .Load(reinterpret_cast<const unsigned*>(p.values_in) + start, values, p.n, 0u);
            __syncthreads();
        } else {
#pragma unroll
            for (int i = 0; i < items; ++i) values[i] = threadIdx.x * items + i;
        }
        if constexpr (descending) {
            Sort(storage.sort).SortDescendingBlockedToStriped(keys, values);
        } else {
            Sort(storage.sort).SortBlockedToStriped(keys, values);
        }
        StoreDirectStriped<threads>(threadIdx.x, reinterpret_cast<unsigned*>(p.values_out) + start,
                                    values, p.n);
    } else if constexpr (descending) {
        Sort(storage.sort).SortDescendingBlockedToStriped(keys);
    } else {
        Sort(storage.sort).SortBlockedToStriped(keys);
    }
    if (p.keys_out != 0) {
        StoreDirectStriped<threads>(threadIdx.x, reinterpret_cast<Key*>(p.keys_out) + start, keys,
                                    p.n);
    }
}

struct HistogramPolicy {
    static constexpr int BLOCK_THREADS = histogram_threads;
    static constexpr int ITEMS_PER_THREAD = histogram_items;
    static constexpr int NUM_PARTS = 1;
    static constexpr int RADIX_BITS = 8;
};

struct SweepPolicy {
    static constexpr int BLOCK_THREADS = sweep_threads;
    static constexpr int ITEMS_PER_THREAD = sizeof(Key) == 8 ? sweep_items_wide : sweep_items;
    static constexpr int RANK_NUM_PARTS = 1;
    static constexpr int RADIX_BITS = 8;
    static constexpr RadixRankAlgorithm RANK_ALGORITHM = RADIX_RANK_MATCH_EARLY_COUNTS_ANY;
    static constexpr BlockScanAlgorithm SCAN_ALGORITHM = BLOCK_SCAN_RAKING_MEMOIZE;
    static constexpr RadixSortStoreAlgorithm STORE_ALGORITHM = RADIX_SORT_STORE_DIRECT;
};

template <bool descending>
__device__ void histogram(const SweepParameters& p) {
    using Agent = AgentRadixSortHistogram<HistogramPolicy, descending, Key, unsigned>;
    __shared__ typename Agent::TempStorage storage;
    const long long row = blockIdx.y;
    Agent agent(storage, reinterpret_cast<unsigned*>(p.bins) + row * p.passes * sort_digits,
                reinterpret_cast<const Key*>(p.keys_in) + row * p.n, static_cast<unsigned>(p.n), 0,
                8 * static_cast<int>(sizeof(Key)));
    agent.Process();
}

template <bool pairs, bool descending>
__device__ void sweep(const SweepParameters& p) {
    using Value = ::cuda::std::conditional_t<pairs, unsigned, NullType>;
    using Agent = AgentRadixSortOnesweep<SweepPolicy, descending, Key, Value, unsigned, int>;
    __shared__ typename Agent::TempStorage storage;
    const long long row = blockIdx.y;
    const long long start = row * p.n;
    Value* values_out = nullptr;
    const Value* values_in = nullptr;
    if constexpr (pairs) {
        values_out = reinterpret_cast<Value*>(p.values_out) + start;
        values_in = reinterpret_cast<const Value*>(p.values_in) + start;
    }
    Agent agent(storage, reinterpret_cast<int*>(p.lookback) + row * p.tiles * sort_digits,
                reinterpret_cast<int*>(p.counters) + row * p.passes + p.pass, nullptr,
                reinterpret_cast<const unsigned*>(p.bins) + (row * p.passes + p.pass) * sort_digits,
                reinterpret_cast<Key*>(p.keys_out) + start,
                reinterpret_cast<const Key*>(p.keys_in) + start, values_out, values_in, p.n,
                8 * p.pass, 8);
    agent.Process();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(sort_digits) kf_sort_scan(ScanParameters p) {
    using Scan = cub::BlockScan<unsigned, sort_digits>;
    __shared__ typename Scan::TempStorage storage;
    unsigned* bins =
        reinterpret_cast<unsigned*>(p.bins) + blockIdx.x * static_cast<long long>(sort_digits);
    unsigned value = bins[threadIdx.x];
    Scan(storage).ExclusiveSum(value, value);
    bins[threadIdx.x] = value;
}

#define KERNELFORGE_SORT_BLOCK(size, kind, order, pairs, descending)           \
    extern "C" __global__ void __launch_bounds__(sort_##size##_threads)        \
        kf_sort_block_##size##_##kind##_##order(BlockSortParameters p) {       \
        block_sort<sort_##size##_threads, size##_items, pairs, descending>(p); \
    }
#define KERNELFORGE_SORT_ORDER(order, descending)                   \
    KERNELFORGE_SORT_BLOCK(small, keys, order, false, descending)   \
    KERNELFORGE_SORT_BLOCK(small, pairs, order, true, descending)   \
    KERNELFORGE_SORT_BLOCK(large, keys, order, false, descending)   \
    KERNELFORGE_SORT_BLOCK(large, pairs, order, true, descending)   \
    extern "C" __global__ void __launch_bounds__(histogram_threads) \
        kf_sort_histogram_##order(SweepParameters p) {              \
        histogram<descending>(p);                                   \
    }                                                               \
    extern "C" __global__ void __launch_bounds__(sweep_threads)     \
        kf_sort_sweep_keys_##order(SweepParameters p) {             \
        sweep<false, descending>(p);                                \
    }                                                               \
    extern "C" __global__ void __launch_bounds__(sweep_threads)     \
        kf_sort_sweep_pairs_##order(SweepParameters p) {            \
        sweep<true, descending>(p);                                 \
    }

KERNELFORGE_SORT_ORDER(ascending, false)
KERNELFORGE_SORT_ORDER(descending, true)

}  // namespace kernelforge::worker::library
