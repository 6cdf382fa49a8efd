// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/library_cudnn.hpp"
#include "worker/library_shapes.hpp"

// Attention as a graph of cuDNN operations, in the form that its fused engines match: scores,
// scale, mask, softmax by its parts, second product.

namespace kernelforge::worker::library {

/// Ids of the tensors that a call supplies. [device]
enum SdpaTensor : std::int64_t {
    sdpa_q = 1,
    sdpa_k = 2,
    sdpa_v = 3,
    sdpa_o = 4,
    sdpa_lse = 5,
    sdpa_scale = 6,   ///< host memory, one float
    sdpa_masked = 7,  ///< host memory, one float: what masked scores become
};

class SdpaGraph {
  public:
    /// `handle` may be null: then the graph can only be finalized, not run.
    /// @throws Error unsupported, device_unavailable, naming descriptor and attribute
    SdpaGraph(const dnn::Api& api, dnn::Handle handle, const SdpaShape& shape);

    [[nodiscard]] const dnn::Descriptor& descriptor() const noexcept { return *graph_; }

  private:
    using Tensor = const dnn::Descriptor&;
    using Extents = std::vector<std::int64_t>;

    Tensor tensor(const std::string& name, std::int64_t id, dnn::DataType type, Extents dimensions,
                  Extents strides, bool is_virtual, bool by_value);
    /// A tensor that exists only inside the graph: `[batch, heads, q_len, columns]`.
    Tensor inner(const std::string& name, dnn::DataType type, std::int64_t columns);
    Tensor scalar(const std::string& name, SdpaTensor id);
    Tensor rows(const std::string& name, SdpaTensor id, const SdpaShape::Rows& rows,
                std::int64_t heads, std::int64_t length, bool transposed);
    dnn::Descriptor& operation(dnn::DescriptorType type, const std::string& name);
    void matmul(const std::string& name, Tensor a, Tensor b, Tensor c);
    void reduce(const std::string& name, dnn::ReductionOperator op, Tensor x, Tensor y);
    struct Pointwise {
        dnn::PointwiseMode mode = dnn::pointwise_add;
        dnn::DataType precision = dnn::data_float;
        std::int64_t axis = -1;
        const dnn::Descriptor* x = nullptr;
        const dnn::Descriptor* b = nullptr;
        const dnn::Descriptor* t = nullptr;
        const dnn::Descriptor* y = nullptr;
    };
    void pointwise(const std::string& name, const Pointwise& op);
    Tensor scaled_scores();
    Tensor masked(Tensor scores);
    Tensor softmax(Tensor scores);
    void close(dnn::Handle handle);

    const dnn::Api& api_;
    SdpaShape shape_;
    dnn::DataType type_ = dnn::data_half;
    std::int64_t next_id_ = 100;
    std::vector<std::unique_ptr<dnn::Descriptor>> parts_;
    std::vector<dnn::RawDescriptor> operations_;
    std::unique_ptr<dnn::Descriptor> graph_;
};

}  // namespace kernelforge::worker::library
