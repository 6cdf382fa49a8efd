// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/error.hpp"
#include "plan/expression.hpp"

// The rules of a task, for those from files (definition.cpp) and from memory.

namespace kernelforge {

/// Far above any real task: keeps hostile files from costing time that is quadratic in their size.
inline constexpr std::size_t max_workloads = 10'000;
/// Integers up to here are exact in a double.
inline constexpr std::int64_t max_exact = std::int64_t{1} << 53;

/// A value with the name that the format gives it.
template <class Enum>
struct Named {
    std::string_view name;
    Enum value;
};

inline constexpr std::array<Named<CompareSpec::Kind>, 8> compare_kinds{{
    {"rms", CompareSpec::Kind::rms},
    {"exact", CompareSpec::Kind::exact},
    {"set", CompareSpec::Kind::set},
    {"by_index", CompareSpec::Kind::by_index},
    {"lse", CompareSpec::Kind::lse},
    {"ragged", CompareSpec::Kind::ragged},
    {"samples", CompareSpec::Kind::samples},
    {"custom", CompareSpec::Kind::custom},
}};

template <class Enum, std::size_t N>
std::string_view name_of(Enum value, const std::array<Named<Enum>, N>& names) {
    for (const auto& entry : names) {
        if (entry.value == value) return entry.name;
    }
    return "unknown";
}

[[nodiscard]] bool is_integer(DType dtype);
/// A name in quotes, cut off when it is long.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// What a rule is about: a value of the definition or of a workload, by RFC 6901 pointer.
struct Place {
    enum class Part { definition, workload, emulator };
    Part part = Part::definition;
    std::size_t index = 0;  ///< of the workload
    std::string pointer;
};

/// How a broken rule becomes an Error, and where a text stands.
struct Reporter {
    std::function<void(ErrorCode, const Place&, const std::string&)> fail;  ///< always throws
    std::function<SourcePosition(const Place&)> position;
};

/// A computed axis.
struct ComputedAxis {
    std::string name;
    plan::Expression expression;
};

/// The definition as it is on an emulated device: with the values of `Task::emulator_axes`.
[[nodiscard]] Definition emulator_definition(const Task& task);

/// Checks a whole task; every broken rule goes to the reporter, which throws.
class TaskRules {
  public:
    TaskRules(const Task& task, const Reporter& reporter) : task_(task), reporter_(reporter) {}

    /// Everything but the workloads.
    void check_operation();
    /// After `check_operation`.
    void check_workloads() const;
    /// After `check_operation`: another shape, by the rules of a workload.
    void check_shape(const Workload& shape) const {
        check_workload(Place{Place::Part::workload, 0, ""}, shape);
    }

  private:
    void fail(const std::string& pointer, const std::string& message,
              ErrorCode code = ErrorCode::parse) const {
        reporter_.fail(code, Place{Place::Part::definition, 0, pointer}, message);
    }
    static std::string axis_pointer(const std::string& name) {
        return "/axes/" + JsonNode::escape(name);
    }
    /// Where the characters of a JSON string start: one column after its quote.
    SourcePosition expression_position(const std::string& pointer) const {
        return reporter_.position(Place{Place::Part::definition, 0, pointer});
    }
    const Axis* find_axis(const std::string& name) const {
        for (const Axis& axis : task_.definition.axes) {
            if (axis.name == name) return &axis;
        }
        return nullptr;
    }
    static const TensorSpec* find_tensor(const std::vector<TensorSpec>& tensors,
                                         const std::string& name) {
        for (const TensorSpec& tensor : tensors) {
            if (tensor.name == name) return &tensor;
        }
        return nullptr;
    }
    const TensorSpec* find_input(const std::string& name) const {
        return find_tensor(task_.definition.inputs, name);
    }
    const TensorSpec* find_output(const std::string& name) const {
        return find_tensor(task_.definition.outputs, name);
    }

    void check_definition();
    void check_name(const std::string& name, const std::string& pointer, std::string_view what);
    void check_axis(const Axis& axis);
    void check_tensors(const std::vector<TensorSpec>& tensors, bool outputs);
    void check_init() const;
    void check_init_values(const TensorSpec& input, const InitSpec& init,
                           const std::string& pointer) const;
    void check_integer_bounds(const TensorSpec& input, const InitSpec& init,
                              const std::string& pointer) const;
    void check_bound(const TensorSpec& input, const InitSpec& init,
                     const std::string& pointer) const;
    void check_used_by(const TensorSpec& input, const InitSpec& init,
                       const std::string& pointer) const;
    void check_compare() const;
    void check_compare_type(const TensorSpec& output, const CompareSpec& compare,
                            const std::string& pointer) const;
    void check_compare_names(const TensorSpec& output, const CompareSpec& compare,
                             const std::string& pointer) const;
    void check_workspace(const std::string& pointer, const std::string& subject,
                         const std::string& name, const std::string& element) const;
    void check_inplace() const;
    void check_inputs_list(const std::string& member, const std::vector<std::string>& names) const;
    void check_axis_ranges() const;
    void check_emulator_axes() const;
    void check_emulator_task() const;
    void check_baselines() const;
    plan::Expression cost_expression(const char* member, const std::string& text) const;
    void check_workloads(Place::Part part, const std::vector<Workload>& workloads) const;
    void check_workload(const Place& place, const Workload& workload) const;
    void check_scalars(const Place& place, const Workload& workload) const;
    void check_extents(const Place& place, const std::map<std::string, std::int64_t>& axes) const;
    void check_init_extents(const Place& place, const TensorSpec& input,
                            const std::map<std::string, std::int64_t>& axes) const;
    void check_ragged_extents(const Place& place,
                              const std::map<std::string, std::int64_t>& axes) const;
    void check_costs(const Place& place, const std::map<std::string, std::int64_t>& axes) const;

    const Task& task_;
    const Reporter& reporter_;
    std::set<std::string> names_;
    std::vector<ComputedAxis> computed_;
    plan::Expression flops_;
    plan::Expression bytes_;
};

}  // namespace kernelforge
