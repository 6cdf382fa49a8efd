// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "worker/library_cudnn.hpp"
#include "worker/library_sdpa_graph.hpp"
#include "worker/library_steps.hpp"
#include "worker/library_tuning.hpp"

namespace kernelforge::worker::library {

namespace {

/// Device addresses of one call; `lse` may be 0.
struct SdpaAddresses {
    CUdeviceptr q = 0;
    CUdeviceptr k = 0;
    CUdeviceptr v = 0;
    CUdeviceptr o = 0;
    CUdeviceptr lse = 0;
};

/// An engine that was made ready for one shape.
struct Plan {
    std::shared_ptr<const SdpaGraph> graph;   ///< shared by the plans that were made from it
    std::unique_ptr<dnn::Descriptor> config;  ///< the plan refers to both
    std::unique_ptr<dnn::Descriptor> descriptor;
    std::size_t workspace_bytes = 0;
    std::int64_t engine = -1;
    std::string origin;  ///< "fastest of 3 tried"
};

/// What a shape's plan depends on, in one line.
std::string key_of(const SdpaShape& shape) {
    return fmt::format(
        "sdpa {} batch={} heads={}/{} len={}/{} dim={} strides={},{},{},{} "
        "causal={} lse={}",
        shape.q.buffer.dtype, shape.batch, shape.heads, shape.kv_heads, shape.q_len, shape.kv_len,
        shape.dim, shape.q.stride, shape.k.stride, shape.v.stride, shape.o.stride, shape.causal,
        shape.lse.given());
}

/// Enqueues a plan.
void execute(const dnn::Session& session, const Plan& plan, const SdpaShape& shape,
             const SdpaAddresses& at, CUdeviceptr workspace, CUstream stream) {
    const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
    float scale = static_cast<float>(shape.scale);
    // cuDNN before 9.10 takes the lowest number for a masked score instead of minus infinity.
    constexpr std::size_t takes_infinity = 91000;
    float masked = session.api.get_version() < takes_infinity
                       ? std::numeric_limits<float>::lowest()
                       : -std::numeric_limits<float>::infinity();
    std::vector<std::int64_t> ids = {sdpa_q, sdpa_k, sdpa_v, sdpa_o, sdpa_scale};
    std::vector<void*> pointers = {pointer(at.q), pointer(at.k), pointer(at.v), pointer(at.o),
                                   &scale};
    if (shape.causal) {
        ids.push_back(sdpa_masked);
        pointers.push_back(&masked);
    }
    if (shape.lse.given()) {
        ids.push_back(sdpa_lse);
        pointers.push_back(pointer(at.lse));
    }
    dnn::Descriptor pack(session.api, dnn::descriptor_variant_pack, "variant pack");
    void* scratch = pointer(workspace);
    pack.set(dnn::pack_ids, ids);
    pack.set(dnn::pack_pointers, dnn::type_void_ptr, static_cast<std::int64_t>(pointers.size()),
             pointers.data());
    pack.set(dnn::pack_workspace, dnn::type_void_ptr, 1, &scratch);
    pack.finalize();
    session.api.check(session.api.set_stream(session.handle, stream), "setting the stream");
    session.api.check(session.api.execute(session.handle, plan.descriptor->raw(), pack.raw()),
                      fmt::format("running engine {}", plan.engine));
}

class SdpaStep final : public LibraryStep {
  public:
    SdpaStep(std::shared_ptr<const dnn::Session> session, std::shared_ptr<const Plan> plan,
             SdpaShape shape)
        : session_(std::move(session)), plan_(std::move(plan)), shape_(std::move(shape)) {}

    [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
        return plan_->workspace_bytes;
    }

    void enqueue(CUstream stream, const Addresses& addresses, CUdeviceptr workspace) override {
        SdpaAddresses at;
        at.q = first(addresses, shape_.q);
        at.k = first(addresses, shape_.k);
        at.v = first(addresses, shape_.v);
        at.o = first(addresses, shape_.o);
        if (shape_.lse.given()) at.lse = address_of(addresses, shape_.lse.name);
        execute(*session_, *plan_, shape_, at, workspace, stream);
    }

    [[nodiscard]] std::string describe() const override {
        return fmt::format("cudnn {}: engine {}; {}", session_->api.version(), plan_->engine,
                           plan_->origin);
    }

  private:
    static CUdeviceptr first(const Addresses& addresses, const SdpaShape::Rows& rows) {
        constexpr CUdeviceptr alignment = 16;  // as the graph's tensors say
        const CUdeviceptr address =
            address_of(addresses, rows.buffer.name) +
            static_cast<CUdeviceptr>(rows.offset) * element_bytes(rows.buffer.dtype);
        if (address % alignment == 0) return address;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("sdpa: {} with offset {} is at {:#x}, expected a multiple of {}",
                                rows.buffer.name, rows.offset, address, alignment));
    }

    std::shared_ptr<const dnn::Session> session_;  ///< shared with the other steps
    std::shared_ptr<const Plan> plan_;             ///< shared with steps of equal shape
    SdpaShape shape_;
};

/// Engine configurations that the library's heuristic proposes, best first.
std::vector<std::unique_ptr<dnn::Descriptor>> configurations(const dnn::Api& api,
                                                             const SdpaGraph& graph) {
    dnn::Descriptor heuristics(api, dnn::descriptor_heuristics, "sdpa heuristics");
    heuristics.set(dnn::heuristics_graph, graph.descriptor());
    heuristics.set(dnn::heuristics_mode, dnn::type_heur_mode, dnn::heuristics_mode_a);
    heuristics.finalize();
    constexpr std::int64_t most = 8;
    std::vector<std::unique_ptr<dnn::Descriptor>> configs;
    std::vector<dnn::RawDescriptor> raw;
    for (std::int64_t i = 0; i < most; ++i) {
        configs.push_back(std::make_unique<dnn::Descriptor>(api, dnn::descriptor_engine_config,
                                                            "engine configuration"));
        raw.push_back(configs.back()->raw());
    }
    std::int64_t count = 0;
    api.check(api.get_attribute(heuristics.raw(), dnn::heuristics_results.id, dnn::type_descriptor,
                                most, &count, raw.data()),
              "sdpa heuristics, attribute ENGINEHEUR_RESULTS (202)");
    configs.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, most)));
    return configs;
}

std::int64_t engine_of(const dnn::Api& api, const dnn::Descriptor& config) {
    dnn::Descriptor engine(api, dnn::descriptor_engine, "engine");
    dnn::RawDescriptor raw = engine.raw();
    std::int64_t count = 0;
    std::int64_t index = -1;
    if (api.get_attribute(config.raw(), dnn::config_engine.id, dnn::type_descriptor, 1, &count,
                          &raw) != 0 ||
        api.get_attribute(raw, dnn::engine_index.id, dnn::type_int64, 1, &count, &index) != 0) {
        return -1;
    }
    return index;
}

Plan plan_of(const dnn::Session& session, std::shared_ptr<const SdpaGraph> graph,
             std::unique_ptr<dnn::Descriptor> config) {
    Plan plan;
    plan.graph = std::move(graph);
    plan.config = std::move(config);
    plan.engine = engine_of(session.api, *plan.config);
    plan.descriptor = std::make_unique<dnn::Descriptor>(
        session.api, dnn::descriptor_plan, fmt::format("plan of engine {}", plan.engine));
    plan.descriptor->set(dnn::plan_handle, dnn::type_handle, 1, &session.handle);
    plan.descriptor->set(dnn::plan_config, *plan.config);
    plan.descriptor->finalize();
    std::int64_t count = 0;
    std::int64_t bytes = 0;
    session.api.check(session.api.get_attribute(plan.descriptor->raw(), dnn::plan_workspace.id,
                                                dnn::type_int64, 1, &count, &bytes),
                      "plan, attribute EXECUTION_PLAN_WORKSPACE_SIZE (402)");
    plan.workspace_bytes = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0));
    return plan;
}

class SdpaMaker final : public StepMaker {
  public:
    explicit SdpaMaker(StepContext context) : context_(std::move(context)) {}

    [[nodiscard]] std::unique_ptr<LibraryStep> make(const plan::ResolvedCall& call) override {
        SdpaShape shape = sdpa_shape(call);
        if (session_ == nullptr) {
            session_ = std::make_shared<const dnn::Session>(context_.options.folders);
        }
        std::shared_ptr<const Plan>& plan = plans_[key_of(shape)];
        if (plan == nullptr) plan = std::make_shared<const Plan>(choose(shape));
        return std::make_unique<SdpaStep>(session_, plan, std::move(shape));
    }

  private:
    /// The plans that can be made, in the heuristic's order.
    [[nodiscard]] std::vector<Plan> candidates(const SdpaShape& shape) const {
        const auto graph =
            std::make_shared<const SdpaGraph>(session_->api, session_->handle, shape);
        std::vector<Plan> plans;
        std::string reasons;
        for (auto& config : configurations(session_->api, *graph)) {
            try {
                plans.push_back(plan_of(*session_, graph, std::move(config)));
            } catch (const Error& error) {
                // Another proposal may do; where none does, all reasons are the error.
                reasons += std::string(reasons.empty() ? ": " : "; ") + error.what();
            }
        }
        if (plans.empty()) {
            throw Error(
                ErrorCode::unsupported,
                fmt::format("cudnn {} ({}): it has no engine for {}{}", session_->api.version(),
                            session_->api.library.path(), key_of(shape), reasons));
        }
        return plans;
    }

    [[nodiscard]] Plan choose(const SdpaShape& shape) const {
        std::vector<Plan> plans = candidates(shape);
        std::size_t workspace = 0;
        for (const Plan& plan : plans) workspace = std::max(workspace, plan.workspace_bytes);
        const auto bytes = [&](const SdpaShape::Rows& rows, std::int64_t length) {
            return static_cast<std::size_t>(shape.batch * length * rows.stride) *
                   element_bytes(rows.buffer.dtype);
        };
        const std::string& type = shape.q.buffer.dtype;
        Scratch scratch(
            context_.driver, context_.device, context_.stream, *context_.kernels,
            {{type, bytes(shape.q, shape.q_len)},
             {type, bytes(shape.k, shape.kv_len)},
             {type, bytes(shape.v, shape.kv_len)},
             {type, bytes(shape.o, shape.q_len)},
             {"f32", static_cast<std::size_t>(shape.batch * shape.heads * shape.q_len) * 4}},
            workspace);
        CallClock clock(context_.driver, context_.stream, *context_.kernels);
        std::size_t set = 0;
        std::string reason;
        const auto time = [&](std::size_t index, int calls) {
            const auto enqueue = [&] {
                SdpaAddresses at{scratch.address(0, set), scratch.address(1, set),
                                 scratch.address(2, set), scratch.address(3, set),
                                 scratch.address(4, set)};
                ++set;
                execute(*session_, plans[index], shape, at, scratch.workspace(), context_.stream);
            };
            try {
                if (calls == 1) enqueue();
                return clock.seconds(calls, enqueue);
            } catch (const DriverError&) {
                throw;
            } catch (const Error& error) {
                reason = error.what();
                return -1.0;
            }
        };
        constexpr double budget_s = 8.0;
        const auto start = std::chrono::steady_clock::now();
        const SweepResult result = sweep(plans.size(), budget_s, time, [&] {
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        });
        if (result.ranking.empty()) throw Error(ErrorCode::unsupported, reason);
        Plan best = std::move(plans[result.ranking.front().index]);
        best.origin = fmt::format("fastest of {} tried, {:.3g} us", result.tried,
                                  result.ranking.front().seconds * 1e6);
        return best;
    }

    StepContext context_;
    std::shared_ptr<const dnn::Session> session_;  ///< shared with the steps
    /// By key_of; shared with the steps, since making one may compile a kernel.
    std::map<std::string, std::shared_ptr<const Plan>> plans_;
};

}  // namespace

std::unique_ptr<StepMaker> sdpa_maker(const StepContext& context) {
    return std::make_unique<SdpaMaker>(context);
}

}  // namespace kernelforge::worker::library
