// SPDX-License-Identifier: Apache-2.0
#include "worker/library_algorithms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernelforge/error.hpp"

namespace kernelforge::worker::library {

LtSession::LtSession(const std::vector<std::string>& folders) : api(folders) {
    api.check(api.create(&handle), "making a handle");
}

LtSession::~LtSession() {
    api.destroy(handle);
}

// --- descriptors --------------------------------------------------------------------------------

MatmulProblem::MatmulProblem(std::shared_ptr<const LtSession> session, MatmulShape shape)
    : session_(std::move(session)), shape_(std::move(shape)) {
    a_type_ = lt::data_type(shape_.a.dtype);
    b_type_ = lt::data_type(shape_.b.dtype);
    d_type_ = lt::data_type(shape_.d.dtype);
    if (shape_.a.dtype == "f64") {
        compute_ = lt::compute_64f;
        scale_type_ = lt::r_64f;
    } else if (shape_.tf32) {
        compute_ = lt::compute_32f_fast_tf32;
    }
    try {
        make_descriptors();
    } catch (...) {
        destroy();
        throw;
    }
}

MatmulProblem::~MatmulProblem() {
    destroy();
}

void MatmulProblem::destroy() noexcept {
    const lt::Api& api = session_->api;
    for (const lt::Layout layout : {a_, b_, d_}) {
        if (layout != nullptr) api.layout_destroy(layout);
    }
    if (desc_ != nullptr) api.desc_destroy(desc_);
}

template <class T>
void MatmulProblem::set(lt::DescAttribute attribute, const T& value) {
    session_->api.check(
        session_->api.desc_set(desc_, attribute, &value, sizeof value),
        fmt::format("matmul descriptor, attribute {}", static_cast<int>(attribute)));
}

lt::Layout MatmulProblem::layout(lt::DataType type, std::int64_t columns, std::int64_t rows) {
    const lt::Api& api = session_->api;
    lt::Layout made = nullptr;
    // A row-major matrix is a column-major one with rows and columns exchanged.
    api.check(api.layout_create(&made, type, static_cast<std::uint64_t>(columns),
                                static_cast<std::uint64_t>(rows), columns),
              "making a matrix layout");
    if (shape_.batch == 1) return made;
    const auto count = static_cast<std::int32_t>(shape_.batch);
    const std::int64_t offset = rows * columns;
    try {
        api.check(api.layout_set(made, lt::layout_batch_count, &count, sizeof count),
                  "matrix layout, batch count");
        api.check(api.layout_set(made, lt::layout_batch_offset, &offset, sizeof offset),
                  "matrix layout, batch offset");
    } catch (...) {
        api.layout_destroy(made);
        throw;
    }
    return made;
}

void MatmulProblem::make_descriptors() {
    const lt::Api& api = session_->api;
    api.check(api.desc_create(&desc_, compute_, scale_type_), "making a matmul descriptor");
    set(lt::desc_transa, std::int32_t{shape_.b_transposed ? lt::op_t : lt::op_n});
    set(lt::desc_transb, std::int32_t{shape_.a_transposed ? lt::op_t : lt::op_n});
    std::uint32_t epilogue = shape_.epilogue == MatmulShape::Epilogue::relu   ? lt::epilogue_relu
                             : shape_.epilogue == MatmulShape::Epilogue::gelu ? lt::epilogue_gelu
                                                                              : 0U;
    if (shape_.bias.given()) {
        epilogue |= lt::epilogue_bias;
        set(lt::desc_bias_data_type, static_cast<std::int32_t>(lt::data_type(shape_.bias.dtype)));
    }
    set(lt::desc_epilogue, epilogue == 0 ? std::uint32_t{lt::epilogue_default} : epilogue);
    a_ = layout(b_type_, shape_.b_transposed ? shape_.k : shape_.n,
                shape_.b_transposed ? shape_.n : shape_.k);
    b_ = layout(a_type_, shape_.a_transposed ? shape_.m : shape_.k,
                shape_.a_transposed ? shape_.k : shape_.m);
    d_ = layout(d_type_, shape_.n, shape_.m);
    // The heuristic derives alignments from these pointers; the real ones come with each call.
    constexpr CUdeviceptr aligned = 256;
    if (shape_.bias.given()) set(lt::desc_bias_pointer, aligned);
    if (shape_.b_scale.given()) set(lt::desc_a_scale_pointer, aligned);
    if (shape_.a_scale.given()) set(lt::desc_b_scale_pointer, aligned);
}

lt::Status MatmulProblem::run(const lt::Algorithm& algorithm, const MatmulAddresses& addresses,
                              CUdeviceptr workspace, std::size_t workspace_bytes, CUstream stream) {
    if (shape_.bias.given()) set(lt::desc_bias_pointer, addresses.bias);
    if (shape_.b_scale.given()) set(lt::desc_a_scale_pointer, addresses.b_scale);
    if (shape_.a_scale.given()) set(lt::desc_b_scale_pointer, addresses.a_scale);
    const float alpha = static_cast<float>(shape_.alpha);
    const float beta = static_cast<float>(shape_.beta);
    const bool wide = scale_type_ == lt::r_64f;
    const void* alpha_at = wide ? static_cast<const void*>(&shape_.alpha) : &alpha;
    const void* beta_at = wide ? static_cast<const void*>(&shape_.beta) : &beta;
    const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
    const CUdeviceptr c = shape_.c.given() ? addresses.c : addresses.d;
    return session_->api.matmul(session_->handle, desc_, alpha_at, pointer(addresses.b), a_,
                                pointer(addresses.a), b_, beta_at, pointer(c), d_,
                                pointer(addresses.d), d_, &algorithm, pointer(workspace),
                                workspace_bytes, stream);
}

// --- which algorithms ---------------------------------------------------------------------------

std::uint32_t MatmulProblem::reduction_schemes() const {
    // Of a narrower D, parts of a split k are added up in f32 only.
    const bool wide = d_type_ == lt::r_32f || d_type_ == lt::r_64f;
    return wide ? std::uint32_t{lt::reduction_all} : std::uint32_t{lt::reduction_compute_type};
}

bool MatmulProblem::rounds_operands(const lt::Algorithm& algorithm) const {
    if (shape_.a.dtype != "f32" || shape_.tf32) return false;
    std::uint64_t flags = 0;
    std::size_t written = 0;
    if (session_->api.capability(&algorithm, lt::cap_numerical_flags, &flags, sizeof flags,
                                 &written) != 0) {
        return true;  // unknown is not trusted
    }
    constexpr std::uint64_t rounded =
        lt::flags_tensor_op | lt::flags_input_tf32 | lt::flags_input_f16 | lt::flags_input_bf16;
    return (flags & rounded) != 0;
}

bool MatmulProblem::accepts(const lt::Algorithm& algorithm, lt::HeuristicResult& result) const {
    result.algorithm = algorithm;
    return session_->api.check_algorithm(session_->handle, desc_, a_, b_, d_, d_, &algorithm,
                                         &result) == 0 &&
           result.state == 0;
}

void MatmulProblem::add(std::vector<lt::HeuristicResult>& list, const lt::HeuristicResult& result,
                        std::size_t workspace_bytes) const {
    if (result.state != 0 || result.workspace_bytes > workspace_bytes ||
        rounds_operands(result.algorithm)) {
        return;
    }
    const bool known = std::any_of(list.begin(), list.end(), [&](const lt::HeuristicResult& each) {
        return each.algorithm == result.algorithm;
    });
    if (!known) list.push_back(result);
}

void MatmulProblem::propose(std::vector<lt::HeuristicResult>& list, std::size_t least,
                            std::size_t workspace_bytes) const {
    const lt::Api& api = session_->api;
    lt::Preference preference = nullptr;
    api.check(api.preference_create(&preference), "making a preference");
    const std::unique_ptr<void, lt::Status (*)(lt::Preference)> owner(preference,
                                                                      api.preference_destroy);
    const std::uint32_t schemes = reduction_schemes();
    api.check(
        api.preference_set(preference, lt::preference_reduction_schemes, &schemes, sizeof schemes),
        "preference, reduction schemes");
    std::vector<lt::HeuristicResult> found(std::max<std::size_t>(2 * least, 1));
    // The largest first: the first proposal is what a user of the library's default gets.
    for (const std::size_t divisor : {1, 2, 16, 0}) {
        const std::uint64_t limit = divisor == 0 ? 0 : workspace_bytes / divisor;
        api.check(
            api.preference_set(preference, lt::preference_max_workspace, &limit, sizeof limit),
            "preference, workspace");
        int count = 0;
        const lt::Status status =
            api.heuristic(session_->handle, desc_, a_, b_, d_, d_, preference,
                          static_cast<int>(found.size()), found.data(), &count);
        if (status != 0) continue;  // none within this limit
        for (int i = 0; i < count; ++i) {
            add(list, found[static_cast<std::size_t>(i)], workspace_bytes);
        }
    }
}

/// All configurations of one algorithm, visited in a scattered order.
struct MatmulProblem::Family {
    struct Split {
        std::int32_t parts = 1;
        std::uint32_t scheme = lt::reduction_none;
    };
    lt::Algorithm base;
    std::vector<std::uint32_t> tiles;
    std::vector<std::uint32_t> stages;
    std::vector<Split> splits;
    std::vector<std::uint32_t> swizzles;
    std::vector<std::uint32_t> customs;
    std::vector<std::uint16_t> clusters;
    std::size_t visited = 0;

    [[nodiscard]] std::size_t size() const {
        return tiles.size() * stages.size() * splits.size() * swizzles.size() * customs.size() *
               clusters.size();
    }
    /// The next configuration; false where the library does not take one of its values.
    bool next(const lt::Api& api, lt::Algorithm& algorithm) {
        // A step that shares no factor with the size reaches each configuration once.
        constexpr std::size_t golden = 2'654'435'761;
        std::size_t step = golden % size();
        while (std::gcd(step, size()) != 1) ++step;
        std::size_t index = visited++ * step % size();
        const auto take = [&](const auto& values) {
            const auto value = values[index % values.size()];
            index /= values.size();
            return value;
        };
        algorithm = base;
        const auto set = [&](lt::Config config, const auto& value) {
            return api.config_set(&algorithm, config, &value, sizeof value) == 0;
        };
        const std::uint16_t cluster = take(clusters);
        const Split split = take(splits);
        return set(lt::config_tile, take(tiles)) && set(lt::config_stages, take(stages)) &&
               set(lt::config_swizzling, take(swizzles)) && set(lt::config_custom, take(customs)) &&
               set(lt::config_splitk, split.parts) && set(lt::config_reduction, split.scheme) &&
               (cluster == 0 || set(lt::config_cluster, cluster));
    }
};

namespace {

/// A list capability; `{0}` (undefined) where it is empty.
std::vector<std::uint32_t> list_of(const lt::Api& api, const lt::Algorithm& algorithm,
                                   lt::Capability capability) {
    std::size_t bytes = 0;
    if (api.capability(&algorithm, capability, nullptr, 0, &bytes) != 0 || bytes == 0) return {0};
    std::vector<std::uint32_t> values(bytes / sizeof(std::uint32_t));
    if (api.capability(&algorithm, capability, values.data(), bytes, &bytes) != 0) return {0};
    return values.empty() ? std::vector<std::uint32_t>{0} : values;
}

template <class T>
T number_of(const lt::Api& api, const lt::Algorithm& algorithm, lt::Capability capability) {
    T value = 0;
    std::size_t written = 0;
    return api.capability(&algorithm, capability, &value, sizeof value, &written) == 0 ? value : 0;
}

}  // namespace

std::vector<MatmulProblem::Family> MatmulProblem::families() const {
    constexpr int most_ids = 256;
    const lt::Api& api = session_->api;
    std::vector<int> ids(most_ids);
    int count = 0;
    if (api.ids(session_->handle, compute_, scale_type_, b_type_, a_type_, d_type_, d_type_,
                most_ids, ids.data(), &count) != 0) {
        return {};
    }
    std::vector<Family> result;
    for (int i = 0; i < count; ++i) {
        Family family;
        if (api.init(session_->handle, compute_, scale_type_, b_type_, a_type_, d_type_, d_type_,
                     ids[static_cast<std::size_t>(i)], &family.base) != 0 ||
            rounds_operands(family.base)) {
            continue;
        }
        family.tiles = list_of(api, family.base, lt::cap_tiles);
        family.stages = list_of(api, family.base, lt::cap_stages);
        family.splits = {{}};
        const auto schemes = number_of<std::uint32_t>(api, family.base, lt::cap_reduction_mask) &
                             reduction_schemes();
        if (number_of<std::int32_t>(api, family.base, lt::cap_splitk) != 0) {
            for (const std::int32_t parts : {2, 4, 8}) {
                for (const std::uint32_t scheme :
                     {lt::reduction_in_place, lt::reduction_compute_type,
                      lt::reduction_output_type}) {
                    if ((schemes & scheme) != 0) family.splits.push_back({parts, scheme});
                }
            }
        }
        family.swizzles = {0};
        if (number_of<std::uint32_t>(api, family.base, lt::cap_swizzling) != 0) {
            family.swizzles.push_back(1);
        }
        constexpr std::int32_t most_customs = 8;
        const auto customs = std::clamp(
            number_of<std::int32_t>(api, family.base, lt::cap_custom_max) + 1, 1, most_customs);
        for (std::int32_t custom = 0; custom < customs; ++custom) {
            family.customs.push_back(static_cast<std::uint32_t>(custom));
        }
        // cublasLtClusterShape_t: automatic, 1x1, 2x1, 1x2, 2x2, 4x1, 1x4. Where there are no
        // clusters the check refuses them.
        family.clusters = {0, 2, 3, 5, 6, 4, 8};
        result.push_back(std::move(family));
    }
    return result;
}

void MatmulProblem::explore(std::vector<lt::HeuristicResult>& list, std::size_t least,
                            std::size_t workspace_bytes) const {
    constexpr std::size_t most_checks = 50'000;  // some microseconds each
    std::vector<Family> all = families();
    std::size_t checks = 0;
    for (bool any = true; any && list.size() < least && checks < most_checks;) {
        any = false;
        for (Family& family : all) {
            if (family.visited >= family.size() || list.size() >= least) continue;
            any = true;
            ++checks;
            lt::Algorithm algorithm;
            lt::HeuristicResult result;
            if (family.next(session_->api, algorithm) && accepts(algorithm, result)) {
                result.algorithm = algorithm;
                add(list, result, workspace_bytes);
            }
        }
    }
}

std::vector<lt::HeuristicResult> MatmulProblem::algorithms(std::size_t least,
                                                           std::size_t workspace_bytes) const {
    std::vector<lt::HeuristicResult> list;
    propose(list, least, workspace_bytes);
    if (list.size() < least) explore(list, least, workspace_bytes);
    if (list.empty()) {
        throw Error(
            ErrorCode::unsupported,
            fmt::format("cublasLt {} ({}): it has no algorithm for {}", session_->api.version(),
                        session_->api.library.path(), shape_.key()));
    }
    return list;
}

std::string MatmulProblem::describe(const lt::Algorithm& algorithm) const {
    const auto get = [&](lt::Config config, auto value) {
        std::size_t written = 0;
        return session_->api.config_get(&algorithm, config, &value, sizeof value, &written) == 0
                   ? static_cast<long long>(value)
                   : -1LL;
    };
    std::string text = fmt::format(
        "algorithm {}, tile {}, stages {}", get(lt::config_id, std::int32_t{0}),
        get(lt::config_tile, std::uint32_t{0}), get(lt::config_stages, std::uint32_t{0}));
    const std::pair<const char*, long long> rest[] = {
        {"split-k", get(lt::config_splitk, std::int32_t{0})},
        {"reduction", get(lt::config_reduction, std::uint32_t{0})},
        {"swizzle", get(lt::config_swizzling, std::uint32_t{0})},
        {"custom", get(lt::config_custom, std::uint32_t{0})},
        {"inner", get(lt::config_inner, std::uint16_t{0})},
        {"cluster", get(lt::config_cluster, std::uint16_t{0})}};
    for (const auto& [name, value] : rest) {
        if (value > (std::string_view(name) == "split-k" ? 1 : 0)) {
            text += fmt::format(", {} {}", name, value);
        }
    }
    return text;
}

}  // namespace kernelforge::worker::library
