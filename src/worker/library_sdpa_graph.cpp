// SPDX-License-Identifier: Apache-2.0
#include "worker/library_sdpa_graph.hpp"

#include <utility>

namespace kernelforge::worker::library {

SdpaGraph::SdpaGraph(const dnn::Api& api, dnn::Handle handle, const SdpaShape& shape)
    : api_(api),
      shape_(shape),
      type_(shape.q.buffer.dtype == "f16" ? dnn::data_half : dnn::data_bfloat16) {
    Tensor probabilities = softmax(masked(scaled_scores()));
    Tensor v = rows("V", sdpa_v, shape_.v, shape_.kv_heads, shape_.kv_len, false);
    Tensor o = rows("O", sdpa_o, shape_.o, shape_.heads, shape_.q_len, false);
    matmul("second matmul", probabilities, v, o);
    close(handle);
}

SdpaGraph::Tensor SdpaGraph::tensor(const std::string& name, std::int64_t id, dnn::DataType type,
                                    Extents dimensions, Extents strides, bool is_virtual,
                                    bool by_value) {
    constexpr std::int64_t alignment = 16;
    parts_.push_back(
        std::make_unique<dnn::Descriptor>(api_, dnn::descriptor_tensor, "tensor " + name));
    dnn::Descriptor& made = *parts_.back();
    made.set(dnn::tensor_type, dnn::type_data_type, type);
    made.set(dnn::tensor_dimensions, dimensions);
    made.set(dnn::tensor_strides, strides);
    made.set(dnn::tensor_id, id);
    made.set(dnn::tensor_alignment, alignment);
    made.set(dnn::tensor_virtual, is_virtual);
    made.set(dnn::tensor_by_value, by_value);
    made.finalize();
    return made;
}

SdpaGraph::Tensor SdpaGraph::inner(const std::string& name, dnn::DataType type,
                                   std::int64_t columns) {
    const std::int64_t rows = shape_.q_len;
    return tensor(name, next_id_++, type, {shape_.batch, shape_.heads, rows, columns},
                  {shape_.heads * rows * columns, rows * columns, columns, 1}, true, false);
}

SdpaGraph::Tensor SdpaGraph::scalar(const std::string& name, SdpaTensor id) {
    return tensor(name, id, dnn::data_float, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

SdpaGraph::Tensor SdpaGraph::rows(const std::string& name, SdpaTensor id,
                                  const SdpaShape::Rows& rows, std::int64_t heads,
                                  std::int64_t length, bool transposed) {
    Extents dimensions = {shape_.batch, heads, length, shape_.dim};
    Extents strides = {length * rows.stride, shape_.dim, rows.stride, 1};
    if (transposed) {
        std::swap(dimensions[2], dimensions[3]);
        std::swap(strides[2], strides[3]);
    }
    return tensor(name, id, type_, dimensions, strides, false, false);
}

dnn::Descriptor& SdpaGraph::operation(dnn::DescriptorType type, const std::string& name) {
    parts_.push_back(std::make_unique<dnn::Descriptor>(api_, type, name));
    operations_.push_back(parts_.back()->raw());
    return *parts_.back();
}

void SdpaGraph::matmul(const std::string& name, Tensor a, Tensor b, Tensor c) {
    parts_.push_back(
        std::make_unique<dnn::Descriptor>(api_, dnn::descriptor_matmul, name + " settings"));
    dnn::Descriptor& settings = *parts_.back();
    settings.set(dnn::matmul_type, dnn::type_data_type, dnn::data_float);
    settings.finalize();
    dnn::Descriptor& op = operation(dnn::descriptor_operation_matmul, name);
    op.set(dnn::operation_matmul_a, a);
    op.set(dnn::operation_matmul_b, b);
    op.set(dnn::operation_matmul_c, c);
    op.set(dnn::operation_matmul_descriptor, settings);
    op.finalize();
}

void SdpaGraph::reduce(const std::string& name, dnn::ReductionOperator reduction, Tensor x,
                       Tensor y) {
    parts_.push_back(
        std::make_unique<dnn::Descriptor>(api_, dnn::descriptor_reduction, name + " settings"));
    dnn::Descriptor& settings = *parts_.back();
    settings.set(dnn::reduction_operator, dnn::type_reduction_operator, reduction);
    settings.set(dnn::reduction_type, dnn::type_data_type, dnn::data_float);
    settings.finalize();
    dnn::Descriptor& op = operation(dnn::descriptor_operation_reduction, name);
    op.set(dnn::operation_reduction_x, x);
    op.set(dnn::operation_reduction_y, y);
    op.set(dnn::operation_reduction_descriptor, settings);
    op.finalize();
}

void SdpaGraph::pointwise(const std::string& name, const Pointwise& wanted) {
    parts_.push_back(
        std::make_unique<dnn::Descriptor>(api_, dnn::descriptor_pointwise, name + " settings"));
    dnn::Descriptor& settings = *parts_.back();
    settings.set(dnn::pointwise_mode, dnn::type_pointwise_mode, wanted.mode);
    settings.set(dnn::pointwise_precision, dnn::type_data_type, wanted.precision);
    if (wanted.axis >= 0) settings.set(dnn::pointwise_axis, wanted.axis);
    settings.finalize();
    dnn::Descriptor& op = operation(dnn::descriptor_operation_pointwise, name);
    op.set(dnn::operation_pointwise_descriptor, settings);
    op.set(dnn::operation_pointwise_x, *wanted.x);
    if (wanted.b != nullptr) op.set(dnn::operation_pointwise_b, *wanted.b);
    if (wanted.t != nullptr) op.set(dnn::operation_pointwise_t, *wanted.t);
    op.set(dnn::operation_pointwise_y, *wanted.y);
    op.finalize();
}

SdpaGraph::Tensor SdpaGraph::scaled_scores() {
    Tensor q = rows("Q", sdpa_q, shape_.q, shape_.heads, shape_.q_len, false);
    Tensor k = rows("K^T", sdpa_k, shape_.k, shape_.kv_heads, shape_.kv_len, true);
    Tensor scores = inner("scores", dnn::data_float, shape_.kv_len);
    matmul("first matmul", q, k, scores);
    Tensor scale = scalar("scale", sdpa_scale);
    Tensor scaled = inner("scaled scores", dnn::data_float, shape_.kv_len);
    pointwise("scale", {.mode = dnn::pointwise_mul, .x = &scores, .b = &scale, .y = &scaled});
    return scaled;
}

SdpaGraph::Tensor SdpaGraph::masked(Tensor scores) {
    // One query of one key sees it; nothing is masked.
    if (!shape_.causal || shape_.kv_len == 1) return scores;
    constexpr std::int64_t row_axis = 2;
    constexpr std::int64_t column_axis = 3;
    Tensor row = inner("row index", dnn::data_int32, shape_.kv_len);
    pointwise("row index",
              {.mode = dnn::pointwise_gen_index, .axis = row_axis, .x = &scores, .y = &row});
    Tensor column = inner("column index", dnn::data_int32, shape_.kv_len);
    pointwise("column index",
              {.mode = dnn::pointwise_gen_index, .axis = column_axis, .x = &scores, .y = &column});
    Tensor visible = inner("visible", dnn::data_boolean, shape_.kv_len);
    pointwise("row >= column", {.mode = dnn::pointwise_cmp_ge,
                                .precision = dnn::data_boolean,
                                .x = &row,
                                .b = &column,
                                .y = &visible});
    Tensor minus_infinity = scalar("masked score", sdpa_masked);
    Tensor result = inner("masked scores", dnn::data_float, shape_.kv_len);
    pointwise("mask", {.mode = dnn::pointwise_binary_select,
                       .x = &scores,
                       .b = &minus_infinity,
                       .t = &visible,
                       .y = &result});
    return result;
}

SdpaGraph::Tensor SdpaGraph::softmax(Tensor scores) {
    Tensor maximum = inner("maximum", dnn::data_float, 1);
    reduce("row maximum", dnn::reduction_max, scores, maximum);
    Tensor shifted = inner("shifted scores", dnn::data_float, shape_.kv_len);
    pointwise("shift", {.mode = dnn::pointwise_sub, .x = &scores, .b = &maximum, .y = &shifted});
    Tensor exponentials = inner("exponentials", dnn::data_float, shape_.kv_len);
    pointwise("exponential", {.mode = dnn::pointwise_exp, .x = &shifted, .y = &exponentials});
    Tensor sum = inner("sum", dnn::data_float, 1);
    reduce("row sum", dnn::reduction_add, exponentials, sum);
    // The engines' pattern has the log-sum-exp even where nobody reads it.
    Tensor logarithm = inner("logarithm", dnn::data_float, 1);
    pointwise("logarithm", {.mode = dnn::pointwise_log, .x = &sum, .y = &logarithm});
    Tensor lse = shape_.lse.given()
                     ? tensor("lse", sdpa_lse, dnn::data_float,
                              {shape_.batch, shape_.heads, shape_.q_len, 1},
                              {shape_.heads * shape_.q_len, shape_.q_len, 1, 1}, false, false)
                     : inner("lse", dnn::data_float, 1);
    pointwise("log-sum-exp",
              {.mode = dnn::pointwise_add, .x = &maximum, .b = &logarithm, .y = &lse});
    // The second product wants its operands in one type.
    Tensor result = inner("probabilities", type_, shape_.kv_len);
    pointwise("divide", {.mode = dnn::pointwise_div, .x = &exponentials, .b = &sum, .y = &result});
    return result;
}

void SdpaGraph::close(dnn::Handle handle) {
    graph_ = std::make_unique<dnn::Descriptor>(api_, dnn::descriptor_graph, "sdpa graph");
    if (handle != nullptr) graph_->set(dnn::graph_handle, dnn::type_handle, 1, &handle);
    graph_->set(dnn::graph_operations, dnn::type_descriptor,
                static_cast<std::int64_t>(operations_.size()), operations_.data());
    graph_->finalize();
}

}  // namespace kernelforge::worker::library
