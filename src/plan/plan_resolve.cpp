// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "plan/architecture.hpp"
#include "plan/plan.hpp"
#include "plan/scalar_bytes.hpp"
#include "plan/source_text.hpp"
#include "plan/steps.hpp"

namespace kernelforge::plan {
namespace {

/// Limits of the CUDA programming model that no device so far differs in (CUDA C++ Programming
/// Guide, "Technical Specifications per Compute Capability"); the others come with the device.
constexpr std::array<std::int64_t, 3> most_blocks = {2147483647, 65535, 65535};
constexpr std::array<std::int64_t, 3> most_threads = {1024, 1024, 64};
/// Over 8 blocks a kernel has to be allowed the size that is not portable (CUDA C++ Programming
/// Guide, "Thread Block Clusters"); 16 is the most that sm_90 and sm_100 have.
constexpr std::int64_t most_cluster_blocks = 16;
constexpr std::size_t tensor_map_bytes = 128;
constexpr std::int64_t most_shared_bytes = std::int64_t{1}
                                           << 30;  // where the device's limit is unknown

[[noreturn]] void fail(const SourcePosition& position, const std::string& message) {
    throw Error(ErrorCode::invalid_argument, position, message);
}

int architecture_number(std::string_view arch) {
    if (arch.starts_with("sm_")) arch.remove_prefix(3);
    int number = 0;
    std::from_chars(arch.data(), arch.data() + arch.size(), number);
    return number;
}

std::string extents_text(const std::array<std::int64_t, 3>& extents) {
    return "(" + std::to_string(extents[0]) + ", " + std::to_string(extents[1]) + ", " +
           std::to_string(extents[2]) + ")";
}

std::int64_t product(const std::array<std::int64_t, 3>& extents) {
    return extents[0] * extents[1] * extents[2];
}

class Resolver {
  public:
    Resolver(const Plan& plan, const Environment& environment)
        : plan_(plan),
          environment_(environment),
          lets_(plan.lets.size()),
          shapes_(plan.workspaces.size()),
          busy_(plan.workspaces.size()),
          prepared_(prepared_workspaces(plan)) {
        names_.integer = [this](const std::string& name, std::int64_t& value) {
            return integer(name, value);
        };
        names_.query = [this](const std::string& function, const std::string& name,
                              const std::vector<std::int64_t>& rest) {
            return query(function, name, rest);
        };
    }

    ResolvedPlan resolve() {
        check_architecture();
        check_bindings();
        ResolvedPlan resolved;
        if (!is_valid()) {
            resolved.valid = false;
            return resolved;
        }
        check_conditions();
        choose_case();
        for (std::size_t i = 0; i < plan_.workspaces.size(); ++i)
            resolved.workspaces.push_back(workspace(i));
        check_total(resolved.workspaces);
        for (const TensorMap& each : plan_.tensor_maps)
            resolved.tensor_maps.push_back(tensor_map(each));
        add_steps(resolved.prepare, plan_.prepare);
        add_implied_memsets(resolved);
        add_steps(resolved.steps, plan_.steps);
        if (chosen_ != nullptr) add_steps(resolved.steps, chosen_->steps);
        return resolved;
    }

    [[nodiscard]] bool is_valid() const { return !plan_.valid || evaluate(*plan_.valid) != 0; }

  private:
    [[nodiscard]] std::int64_t evaluate(const Expression& expression) const {
        return expression.evaluate(names_);
    }

    void check_architecture() const {
        if (architecture_suits(plan_.requires_arch, environment_.device.arch)) return;
        fail(plan_.requires_position, "the candidate requires " + plan_.requires_arch +
                                          ", the device has " + environment_.device.arch);
    }

    void check_bindings() const {
        for (const auto& [name, value] : environment_.bindings) {
            const auto tune =
                std::find_if(plan_.tunes.begin(), plan_.tunes.end(),
                             [&bound = name](const Tune& t) { return t.name == bound; });
            if (tune == plan_.tunes.end())
                fail({plan_.file, 0, 0}, "the plan has no tunable '" + name + "'");
            if (std::find(tune->values.begin(), tune->values.end(), value) == tune->values.end()) {
                fail(tune->position,
                     "the tunable '" + name + "' has no value " + std::to_string(value));
            }
        }
    }

    void check_conditions() const {
        for (const Tune& tune : plan_.tunes) {
            if (!tune.condition || evaluate(*tune.condition) != 0) continue;
            fail(tune.condition->position(), "the tunable '" + tune.name + "' is " +
                                                 std::to_string(binding(tune)) +
                                                 ", for which its condition " +
                                                 quoted(tune.condition->text()) + " does not hold");
        }
    }

    [[nodiscard]] std::int64_t binding(const Tune& tune) const {
        const auto bound = environment_.bindings.find(tune.name);
        return bound != environment_.bindings.end() ? bound->second : tune.values.front();
    }

    bool integer(const std::string& name, std::int64_t& value) {
        const auto axis = environment_.axes.find(name);
        if (axis != environment_.axes.end()) {
            value = axis->second;
            return true;
        }
        for (const Tune& tune : plan_.tunes) {
            if (tune.name != name) continue;
            value = binding(tune);
            return true;
        }
        for (std::size_t i = 0; i < plan_.lets.size(); ++i) {
            if (plan_.lets[i].name != name) continue;
            // A let sees only earlier ones, so this ends.
            if (!lets_[i]) lets_[i] = evaluate(plan_.lets[i].value);
            value = *lets_[i];
            return true;
        }
        return device_fact(name, value);
    }

    bool device_fact(const std::string& name, std::int64_t& value) const {
        if (name == "SMS")
            value = environment_.device.multiprocessors;
        else if (name == "L2")
            value = environment_.device.l2_bytes;
        else if (name == "SMEM_MAX")
            value = environment_.device.max_shared_bytes_per_block;
        else
            return false;
        return true;
    }

    /// Errors have no position here: the expression adds its own.
    std::int64_t query(const std::string& function, const std::string& name,
                       const std::vector<std::int64_t>& rest) {
        if (function == "OCC") return occupancy(name);
        if (function == "CLUSTERS") return clusters(name);
        std::vector<std::int64_t> shape;
        std::int64_t alignment = 256;
        describe(name, shape, alignment);
        if (function == "align") return alignment;
        std::size_t first = 0;
        if (function == "stride") {
            const auto axis = rest.at(0);
            if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) {
                throw Error(ErrorCode::invalid_argument,
                            "stride(" + name + ", " + std::to_string(axis) +
                                "): expected an axis from 0 to " +
                                std::to_string(static_cast<std::int64_t>(shape.size()) - 1));
            }
            first = static_cast<std::size_t>(axis) + 1;
        }
        std::int64_t count = 1;
        for (std::size_t i = first; i < shape.size(); ++i) {
            if (__builtin_mul_overflow(count, shape[i], &count))
                throw Error(ErrorCode::invalid_argument,
                            "64-bit overflow of " + function + "(" + name + ")");
        }
        return count;
    }

    void describe(const std::string& name, std::vector<std::int64_t>& shape,
                  std::int64_t& alignment) {
        const auto tensor = environment_.tensors.find(name);
        if (tensor != environment_.tensors.end()) {
            constexpr std::uint64_t most = 4096;
            shape = tensor->second.shape;
            const std::uint64_t address = tensor->second.address;
            if (address != 0)
                alignment = static_cast<std::int64_t>(std::min(address & (~address + 1), most));
            return;
        }
        for (std::size_t i = 0; i < plan_.workspaces.size(); ++i) {
            if (plan_.workspaces[i].name != name) continue;
            shape = workspace_shape(i);
            alignment = plan_.workspaces[i].align;
            return;
        }
        throw Error(ErrorCode::invalid_argument, "'" + name + "' is no tensor of this workload");
    }

    /// Computed once; extents may ask about other workspaces.
    const std::vector<std::int64_t>& workspace_shape(std::size_t i) {
        const Workspace& space = plan_.workspaces[i];
        if (shapes_[i]) return *shapes_[i];
        if (busy_[i])
            throw Error(ErrorCode::invalid_argument,
                        "the size of the workspace '" + space.name + "' depends on itself");
        busy_[i] = true;
        std::vector<std::int64_t> shape;
        for (const Expression& extent : space.extents) {
            shape.push_back(evaluate(extent));
            if (shape.back() < 1) {
                fail(extent.position(), "the workspace '" + space.name + "' has the extent " +
                                            std::to_string(shape.back()) + ", expected at least 1");
            }
        }
        shapes_[i] = std::move(shape);
        return *shapes_[i];
    }

    /// The launch that OCC and CLUSTERS speak of: the first one of this kernel that will run, or,
    /// while the case is not chosen, the first one of the plan.
    [[nodiscard]] const Launch& launch_of(const std::string& kernel) const {
        const auto in = [&](const std::vector<Step>& steps) -> const Launch* {
            for (const Step& step : steps) {
                const auto* launch = std::get_if<Launch>(&step);
                if (launch != nullptr && launch->kernel == kernel) return launch;
            }
            return nullptr;
        };
        if (const Launch* launch = in(plan_.steps)) return *launch;
        if (chosen_ != nullptr) {
            if (const Launch* launch = in(chosen_->steps)) return *launch;
        }
        for (const Case& each : plan_.cases) {
            if (const Launch* launch = in(each.steps)) return *launch;
        }
        if (const Launch* launch = in(plan_.prepare)) return *launch;
        throw Error(ErrorCode::invalid_argument, "the plan launches no kernel '" + kernel + "'");
    }

    std::int64_t occupancy(const std::string& kernel) {
        if (!environment_.occupancy) return 1;
        const auto known = occupancy_.find(kernel);
        if (known != occupancy_.end()) return known->second;
        const Launch& launch = launch_of(kernel);
        const int blocks = environment_.occupancy(kernel, static_cast<int>(product(block(launch))),
                                                  shared_bytes(launch));
        occupancy_.emplace(kernel, blocks);
        return blocks;
    }

    std::int64_t clusters(const std::string& kernel) {
        if (!environment_.clusters) return 1;
        const Launch& launch = launch_of(kernel);
        std::array<std::int64_t, 3> size = {1, 1, 1};
        static_cast<void>(cluster(launch, size));
        return environment_.clusters(kernel, static_cast<int>(product(block(launch))),
                                     shared_bytes(launch), static_cast<int>(product(size)));
    }

    void choose_case() {
        for (const Case& each : plan_.cases) {
            if (each.condition && evaluate(*each.condition) == 0) continue;
            chosen_ = &each;
            occupancy_.clear();
            return;
        }
        if (plan_.cases.empty()) return;
        std::string values;
        for (const auto& [name, value] : environment_.axes)
            values += (values.empty() ? "" : ", ") + name + "=" + std::to_string(value);
        fail(plan_.cases.back().position,
             "no //@case holds for " + values +
                 "; add //@case else, or exclude the shape with //@valid");
    }

    ResolvedWorkspace workspace(std::size_t i) {
        const Workspace& space = plan_.workspaces[i];
        std::int64_t bytes = static_cast<std::int64_t>(space.element_bytes);
        for (const std::int64_t extent : workspace_shape(i)) {
            if (__builtin_mul_overflow(bytes, extent, &bytes))
                fail(space.position,
                     "the size of the workspace '" + space.name + "' overflows 64 bits");
        }
        const std::int64_t limit = environment_.device.memory_bytes;
        if (limit > 0 && bytes > limit) {
            fail(space.position, "the workspace '" + space.name + "' needs " +
                                     std::to_string(bytes) + " bytes, the device has " +
                                     std::to_string(limit));
        }
        return {space.name,
                bytes,
                space.align,
                space.init,
                prepared_.count(space.name) != 0,
                space.element,
                workspace_shape(i)};
    }

    void check_total(const std::vector<ResolvedWorkspace>& spaces) const {
        const std::int64_t limit = environment_.device.memory_bytes;
        std::int64_t total = 0;
        for (std::size_t i = 0; i < spaces.size(); ++i) {
            const bool overflow = __builtin_add_overflow(total, spaces[i].bytes, &total);
            if (overflow || (limit > 0 && total > limit))
                fail(plan_.workspaces[i].position,
                     "the workspaces together need more than the device's " +
                         std::to_string(limit) + " bytes");
        }
    }

    void add_implied_memsets(ResolvedPlan& resolved) const {
        for (const Workspace& space : plan_.workspaces) {
            if (space.init == Workspace::Init::zero)
                resolved.steps.emplace_back(ResolvedMemset{space.name, 0, true, space.position});
        }
    }

    void add_steps(std::vector<ResolvedStep>& list, const std::vector<Step>& steps) {
        for (const Step& step : steps) {
            if (const auto* launch = std::get_if<Launch>(&step)) {
                if (launch->pdl) check_overlap(*launch, list);
                list.emplace_back(resolve_launch(*launch));
            } else if (const auto* call = std::get_if<Call>(&step)) {
                list.emplace_back(resolve_call(*call));
            } else {
                list.emplace_back(memset(std::get<Memset>(step)));
            }
        }
    }

    /// A launch with pdl overlaps the step above it, which has to be a launch of the same call.
    static void check_overlap(const Launch& launch, const std::vector<ResolvedStep>& above) {
        const std::string rule = "pdl overlaps the launch directly above it, ";
        if (above.empty()) fail(launch.position, rule + "and this is the first step that runs");
        if (std::holds_alternative<ResolvedLaunch>(above.back())) return;
        const auto* memset = std::get_if<ResolvedMemset>(&above.back());
        const std::string what = memset == nullptr ? "a library step"
                                 : memset->implied ? "the memset of an init=zero workspace"
                                                   : "a memset";
        fail(launch.position, rule + "where " + what + " runs");
    }

    [[nodiscard]] std::string buffer_type(const std::string& name) const {
        const auto tensor = environment_.tensors.find(name);
        if (tensor != environment_.tensors.end()) return element_type(tensor->second.dtype);
        for (const Workspace& space : plan_.workspaces) {
            if (space.name == name) return space.element;
        }
        return {};
    }

    [[nodiscard]] std::vector<std::int64_t> evaluate(const std::vector<Expression>& list) const {
        std::vector<std::int64_t> values;
        for (const Expression& each : list) values.push_back(evaluate(each));
        return values;
    }

    ResolvedTensorMap tensor_map(const TensorMap& map) {
        if (architecture_number(environment_.device.arch) < 90)
            fail(map.position,
                 "tensor maps need sm_90 or later, the device has " + environment_.device.arch);
        ResolvedTensorMap result;
        result.name = map.name;
        result.buffer = map.buffer;
        result.dtype = map.dtype;
        result.dims = evaluate(map.dims);
        result.strides = evaluate(map.strides);
        result.box = evaluate(map.box);
        result.steps =
            map.steps.empty() ? std::vector<std::int64_t>(map.dims.size(), 1) : evaluate(map.steps);
        result.offset = map.offset ? evaluate(*map.offset) : 0;
        result.swizzle = map.swizzle;
        result.l2 = map.l2;
        result.nan_fill = map.nan_fill;
        result.position = map.position;
        check_tensor_map(map, result, buffer_bytes(map));
        return result;
    }

    [[nodiscard]] std::int64_t buffer_bytes(const TensorMap& map) {
        std::vector<std::int64_t> shape;
        std::int64_t alignment = 0;
        try {
            describe(map.buffer, shape, alignment);
        } catch (const Error& error) {
            if (error.position().line != 0) throw;
            fail(map.position, error.what());
        }
        std::int64_t bits = static_cast<std::int64_t>(element_bits(buffer_type(map.buffer)));
        for (const std::int64_t extent : shape) {
            if (__builtin_mul_overflow(bits, extent, &bits)) return INT64_MAX / 8;
        }
        return bits / 8;
    }

    ResolvedCall resolve_call(const Call& call) {
        ResolvedCall result;
        result.function = call.function;
        result.position = call.position;
        for (const CallArgument& each : call.arguments)
            result.arguments.push_back(call_argument(each));
        check_call(call, result);
        return result;
    }

    ResolvedCallArgument call_argument(const CallArgument& argument) {
        ResolvedCallArgument result;
        result.key = argument.key;
        result.kind = argument.kind;
        result.name = argument.name;
        result.transposed = argument.transposed;
        if (argument.integer) result.integer = evaluate(*argument.integer);
        if (argument.floating) result.floating = floating_value(*argument.floating);
        if (argument.kind != CallArgument::Kind::buffer) return result;
        std::int64_t alignment = 0;
        describe(argument.name, result.shape, alignment);
        result.dtype = argument.type.empty() ? buffer_type(argument.name) : argument.type;
        return result;
    }

    ResolvedMemset memset(const Memset& memset) const {
        const std::int64_t value = evaluate(memset.value);
        if (value < 0 || value > 255)
            fail(memset.value.position(),
                 "expected a byte from 0 to 255, found " + std::to_string(value));
        return {memset.buffer, static_cast<std::uint8_t>(value), false, memset.position};
    }

    [[nodiscard]] std::array<std::int64_t, 3> extents(const std::array<Expression, 3>& expressions,
                                                      const SourcePosition& position,
                                                      const std::array<std::int64_t, 3>& most,
                                                      const std::string& what) const {
        std::array<std::int64_t, 3> values{};
        for (std::size_t i = 0; i < 3; ++i) {
            values[i] = evaluate(expressions[i]);
            if (values[i] >= 1 && values[i] <= most[i]) continue;
            const SourcePosition& own = expressions[i].position();
            fail(own.line != 0 ? own : position, what + " extent " + std::string(1, "xyz"[i]) +
                                                     " is " + std::to_string(values[i]) +
                                                     ", expected 1 to " + std::to_string(most[i]));
        }
        return values;
    }

    [[nodiscard]] std::array<std::int64_t, 3> block(const Launch& launch) const {
        const auto values = extents(launch.block, launch.position, most_threads, "block");
        const std::int64_t limit = environment_.device.max_threads_per_block;
        if (product(values) > limit) {
            fail(launch.block[0].position(),
                 "the block " + extents_text(values) + " has " + std::to_string(product(values)) +
                     " threads, the device allows " + std::to_string(limit));
        }
        return values;
    }

    [[nodiscard]] std::int64_t shared_bytes(const Launch& launch) const {
        const std::int64_t bytes = evaluate(launch.shared_bytes);
        const std::int64_t device = environment_.device.max_shared_bytes_per_block;
        const std::int64_t limit = device > 0 ? device : most_shared_bytes;
        if (bytes < 0 || bytes > limit) {
            fail(launch.shared_bytes.position(),
                 "the launch asks for " + std::to_string(bytes) +
                     " bytes of dynamic shared memory, expected 0 to " + std::to_string(limit));
        }
        return bytes;
    }

    /// @returns whether the launch itself sets the cluster; `size` is also the kernel's own one
    bool cluster(const Launch& launch, std::array<std::int64_t, 3>& size) const {
        const std::array<std::int64_t, 3> most = {most_cluster_blocks, most_cluster_blocks,
                                                  most_cluster_blocks};
        std::optional<std::array<std::int64_t, 3>> fixed;
        if (launch.fixed_cluster)
            fixed = extents(*launch.fixed_cluster, launch.position, most, "__cluster_dims__");
        if (fixed) size = *fixed;
        if (launch.cluster) size = extents(*launch.cluster, launch.position, most, "cluster");
        if (!launch.cluster && !fixed) return false;
        const SourcePosition& position =
            launch.cluster ? (*launch.cluster)[0].position() : launch.position;
        if (fixed && *fixed != size)
            fail(position, "the cluster " + extents_text(size) +
                               " differs from the kernel's __cluster_dims__ " +
                               extents_text(*fixed));
        if (product(size) > most_cluster_blocks) {
            fail(position, "the cluster " + extents_text(size) + " has " +
                               std::to_string(product(size)) + " blocks, expected at most " +
                               std::to_string(most_cluster_blocks));
        }
        if (architecture_number(environment_.device.arch) < 90)
            fail(position,
                 "clusters need sm_90 or later, the device has " + environment_.device.arch);
        // A cluster that the kernel sets must not be set by the launch as well.
        return !fixed;
    }

    ResolvedLaunch resolve_launch(const Launch& launch) {
        ResolvedLaunch result;
        result.kernel = launch.kernel;
        result.position = launch.position;
        result.cooperative = launch.cooperative;
        result.pdl = launch.pdl;
        result.block = block(launch);
        result.shared_bytes = shared_bytes(launch);
        result.has_cluster = cluster(launch, result.cluster);
        result.grid = extents(launch.grid, launch.position, most_blocks, "grid");
        for (std::size_t i = 0; i < 3; ++i) {
            if (result.grid[i] % result.cluster[i] == 0) continue;
            fail(launch.position, "the grid " + extents_text(result.grid) +
                                      " is not divisible by the cluster " +
                                      extents_text(result.cluster));
        }
        if (launch.cooperative) check_residency(launch, result);
        for (const Argument& each : launch.arguments) result.arguments.push_back(argument(each));
        return result;
    }

    void check_residency(const Launch& launch, const ResolvedLaunch& result) const {
        if (!environment_.occupancy) return;
        const int each = environment_.occupancy(
            launch.kernel, static_cast<int>(product(result.block)), result.shared_bytes);
        const std::int64_t resident =
            static_cast<std::int64_t>(each) * environment_.device.multiprocessors;
        std::int64_t blocks = 1;
        bool overflow = false;
        for (const std::int64_t extent : result.grid)
            overflow = __builtin_mul_overflow(blocks, extent, &blocks) || overflow;
        if (!overflow && blocks <= resident) return;
        fail(launch.position, "the cooperative grid " + extents_text(result.grid) +
                                  " is larger than the " + std::to_string(resident) +
                                  " blocks that are resident at once (" + std::to_string(each) +
                                  " on each of " +
                                  std::to_string(environment_.device.multiprocessors) +
                                  " multiprocessors); use min(…, SMS*OCC(" + launch.kernel + "))");
    }

    ResolvedArgument argument(const Argument& argument) {
        ResolvedArgument result;
        result.kind = argument.kind;
        result.name = argument.name;
        if (argument.kind == Argument::Kind::tensor_map) result.size = tensor_map_bytes;
        if (argument.kind == Argument::Kind::tensor_map || argument.kind == Argument::Kind::buffer)
            return result;
        result.size = scalar_bytes(argument.type);
        const std::optional<std::uint64_t> bits =
            argument.integer ? integer_bits(argument) : floating_bits(argument);
        result.value = little_endian(*bits);
        return result;
    }

    [[nodiscard]] std::optional<std::uint64_t> integer_bits(const Argument& argument) const {
        const std::int64_t value = evaluate(*argument.integer);
        const auto bits = encode_integer(value, argument.type);
        if (!bits)
            fail(argument.position, quoted(argument.integer->text()) + " is " +
                                        std::to_string(value) + ", which does not fit " +
                                        argument.type);
        return bits;
    }

    [[nodiscard]] double floating_value(const FloatExpression& expression) {
        return expression.evaluate([this](const std::string& name, double& number) {
            const auto scalar = environment_.scalars.find(name);
            if (scalar != environment_.scalars.end()) {
                number = scalar->second;
                return true;
            }
            std::int64_t whole = 0;
            if (!integer(name, whole)) return false;
            number = static_cast<double>(whole);
            return true;
        });
    }

    [[nodiscard]] std::optional<std::uint64_t> floating_bits(const Argument& argument) {
        const double value = floating_value(*argument.floating);
        std::optional<std::uint64_t> bits;
        if (is_floating_type(argument.type)) {
            bits = encode_floating(value, argument.type);
        } else if (value == std::nearbyint(value) && std::fabs(value) < 0x1p53) {
            bits = encode_integer(static_cast<std::int64_t>(value), argument.type);
        }
        if (!bits)
            fail(argument.position, quoted(argument.floating->text()) + " is " +
                                        std::to_string(value) + ", which does not fit " +
                                        argument.type);
        return bits;
    }

    const Plan& plan_;
    const Environment& environment_;
    std::vector<std::optional<std::int64_t>> lets_;
    Names names_;
    const Case* chosen_ = nullptr;
    std::vector<std::optional<std::vector<std::int64_t>>> shapes_;
    std::vector<bool> busy_;
    std::map<std::string, std::int64_t> occupancy_;
    std::set<std::string> prepared_;
};

}  // namespace

bool architecture_suits(std::string_view required, std::string_view arch) {
    if (required.empty()) return true;
    const int needed = architecture_number(required);
    const int present = architecture_number(arch);
    if (required.back() == 'a') return needed == present && arch.ends_with("a");
    if (required.back() == 'f') return needed / 10 == present / 10 && needed <= present;
    return needed <= present;
}

ResolvedPlan resolve(const Plan& plan, const Environment& environment) {
    return Resolver(plan, environment).resolve();
}

bool is_valid_for(const Plan& plan, const Environment& environment) {
    return Resolver(plan, environment).is_valid();
}

namespace {

/// Whether an expression asks for the alignment of a tensor, itself or through lets.
bool asks_alignment(const Plan& plan, const Expression& expression, const std::string& tensor) {
    const auto asks = [&](const Expression& e) {
        return std::find(e.queried().begin(), e.queried().end(),
                         std::pair<std::string, std::string>("align", tensor)) != e.queried().end();
    };
    if (asks(expression)) return true;
    std::set<std::string> needed(expression.names().begin(), expression.names().end());
    // A let only mentions earlier ones.
    for (auto let = plan.lets.rbegin(); let != plan.lets.rend(); ++let) {
        if (needed.count(let->name) == 0) continue;
        if (asks(let->value)) return true;
        needed.insert(let->value.names().begin(), let->value.names().end());
    }
    return false;
}

}  // namespace

std::optional<std::int64_t> demanded_alignment(const Plan& plan, const Environment& environment,
                                               const std::string& tensor) {
    constexpr std::int64_t most = 256;
    if (!plan.valid || !asks_alignment(plan, *plan.valid, tensor)) return std::nullopt;
    Environment where = environment;
    const auto facts = where.tensors.find(tensor);
    if (facts == where.tensors.end()) return std::nullopt;
    for (std::int64_t alignment = 1; alignment < most; alignment *= 2) {
        facts->second.address = static_cast<std::uint64_t>(alignment);
        if (is_valid_for(plan, where)) return alignment;
    }
    return most;
}

}  // namespace kernelforge::plan
