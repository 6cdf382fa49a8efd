// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "emulator/async_tensor.hpp"
#include "emulator/driver_state.hpp"

namespace kernelforge::emulator {

namespace {

constexpr cuuint32_t most_dimensions = 5;

CUresult CUDAAPI encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                              void* address, const cuuint64_t* dimensions,
                              const cuuint64_t* strides, const cuuint32_t* box,
                              const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                              CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill fill) {
    return on_device([&](DriverState& state) {
        if (map == nullptr || dimensions == nullptr || box == nullptr ||
            element_strides == nullptr || rank == 0 || rank > most_dimensions ||
            (rank > 1 && strides == nullptr)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        TensorMapParameters parameters;
        parameters.data_type = type;
        parameters.rank = rank;
        parameters.address = reinterpret_cast<std::uintptr_t>(address);
        std::copy_n(dimensions, rank, parameters.dimensions.begin());
        if (rank > 1) std::copy_n(strides, rank - 1, parameters.strides.begin());
        std::copy_n(box, rank, parameters.box.begin());
        std::copy_n(element_strides, rank, parameters.element_strides.begin());
        parameters.interleave = interleave;
        parameters.swizzle = swizzle;
        parameters.fill = fill;
        const EncodedTensorMap encoded = encode_tensor_map(parameters);
        if (encoded.error) {
            state.refusal = *encoded.error;
            return CUDA_ERROR_INVALID_VALUE;
        }
        static_assert(sizeof(encoded.bytes) == sizeof(*map));
        std::memcpy(map, encoded.bytes.data(), sizeof(*map));
        return CUDA_SUCCESS;
    });
}

}  // namespace

void add_tensor_map_functions(worker::Driver& table) {
    table.cuTensorMapEncodeTiled = encode_tiled;
}

}  // namespace kernelforge::emulator
