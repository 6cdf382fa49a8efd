// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "worker/driver.hpp"
#include "worker/library_cublaslt.hpp"
#include "worker/library_shapes.hpp"

// A matmul as cuBLASLt describes it, and the algorithms that could do it.

namespace kernelforge::worker::library {

/// The library with its handle for the current context. [device]
struct LtSession {
    lt::Api api;
    lt::Handle handle = nullptr;

    /// @throws Error unsupported (the library is not there), device_unavailable
    explicit LtSession(const std::vector<std::string>& folders);
    ~LtSession();
    LtSession(const LtSession&) = delete;
    LtSession& operator=(const LtSession&) = delete;
};

/// Device addresses of a matmul's operands; 0 where there is none.
struct MatmulAddresses {
    CUdeviceptr a = 0;
    CUdeviceptr b = 0;
    CUdeviceptr c = 0;
    CUdeviceptr d = 0;
    CUdeviceptr bias = 0;
    CUdeviceptr a_scale = 0;
    CUdeviceptr b_scale = 0;
};

/// The descriptors of one matmul. cuBLASLt is column-major, so that it is given D^T = op(B)^T
/// op(A)^T: its A is our B, and a bias over its rows is one over our columns. [device]
class MatmulProblem {
  public:
    /// @throws Error unsupported, device_unavailable
    MatmulProblem(std::shared_ptr<const LtSession> session, MatmulShape shape);
    ~MatmulProblem();
    MatmulProblem(const MatmulProblem&) = delete;
    MatmulProblem& operator=(const MatmulProblem&) = delete;

    [[nodiscard]] const MatmulShape& shape() const noexcept { return shape_; }
    [[nodiscard]] const LtSession& session() const noexcept { return *session_; }

    /// At least `least` algorithms, the library's own proposals first and in its order, where it
    /// offers as many. None uses more than `workspace_bytes`, rounds f32 operands unless the shape
    /// allows tf32, or adds up parts in a type narrower than f32.
    /// @throws Error unsupported: there is none
    [[nodiscard]] std::vector<lt::HeuristicResult> algorithms(std::size_t least,
                                                              std::size_t workspace_bytes) const;
    /// Whether the library accepts this algorithm here; the workspace that it needs goes into the
    /// result.
    [[nodiscard]] bool accepts(const lt::Algorithm& algorithm, lt::HeuristicResult& result) const;
    /// "algorithm 66, tile 23, stages 12, split-k 2": the numbers of cublasLt.h.
    [[nodiscard]] std::string describe(const lt::Algorithm& algorithm) const;
    /// Enqueues the matmul. 0 or the library's status.
    [[nodiscard]] lt::Status run(const lt::Algorithm& algorithm, const MatmulAddresses& addresses,
                                 CUdeviceptr workspace, std::size_t workspace_bytes,
                                 CUstream stream);

  private:
    struct Family;

    void make_descriptors();
    void destroy() noexcept;
    [[nodiscard]] lt::Layout layout(lt::DataType type, std::int64_t columns, std::int64_t rows);
    template <class T>
    void set(lt::DescAttribute attribute, const T& value);
    [[nodiscard]] std::uint32_t reduction_schemes() const;
    [[nodiscard]] bool rounds_operands(const lt::Algorithm& algorithm) const;
    void propose(std::vector<lt::HeuristicResult>& list, std::size_t least,
                 std::size_t workspace_bytes) const;
    [[nodiscard]] std::vector<Family> families() const;
    void explore(std::vector<lt::HeuristicResult>& list, std::size_t least,
                 std::size_t workspace_bytes) const;
    void add(std::vector<lt::HeuristicResult>& list, const lt::HeuristicResult& result,
             std::size_t workspace_bytes) const;

    std::shared_ptr<const LtSession> session_;  ///< shared with the other steps
    MatmulShape shape_;
    lt::ComputeType compute_ = lt::compute_32f;
    lt::DataType scale_type_ = lt::r_32f;
    lt::DataType a_type_ = lt::r_32f;
    lt::DataType b_type_ = lt::r_32f;
    lt::DataType d_type_ = lt::r_32f;
    lt::MatmulDesc desc_ = nullptr;
    lt::Layout a_ = nullptr;
    lt::Layout b_ = nullptr;
    lt::Layout d_ = nullptr;  ///< also of C
};

}  // namespace kernelforge::worker::library
