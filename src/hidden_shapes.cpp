// SPDX-License-Identifier: Apache-2.0
#include "hidden_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <string>

#include "base/sha256.hpp"
#include "definition_rules.hpp"

namespace kernelforge {
namespace {

/// Draws for one shape before it is given up; the range shrinks towards its low end meanwhile.
constexpr int most_draws = 200;
/// Draws within which a shape must be found that the plan serves; after them any will do.
constexpr int picky_draws = 100;
/// Pairs of shapes between which the border of `//@valid` is looked for.
constexpr int border_draws = 16;

struct Range {
    std::string axis;
    std::int64_t low = 1;
    std::int64_t high = 1;
};

/// What a drawn shape should have.
enum class Trait { odd, near_multiple, low_end, free };

class ShapeDraw {
  public:
    ShapeDraw(const Task& task, const plan::Plan& plan, const Bindings& bindings,
              const DeviceInfo& device, std::uint64_t seed)
        : task_(task), plan_(plan), bindings_(bindings), device_(device), random_(seed) {
        rules_.check_operation();
        for (const Axis& axis : task.definition.axes) {
            const auto range = task.axis_ranges.find(axis.name);
            if (axis.kind != Axis::Kind::variable || range == task.axis_ranges.end()) continue;
            ranges_.push_back({axis.name, range->second.first, range->second.second});
        }
        for (const Workload& workload : task.workloads) {
            most_bytes_ = std::max(most_bytes_, tensor_bytes(task.definition, workload));
        }
        most_bytes_ = std::min(most_bytes_, most_hidden_bytes);
    }

    std::vector<Workload> draw(std::size_t count) {
        if (ranges_.empty() || task_.workloads.empty()) return {};
        add(Trait::odd, count);
        if (plan_.valid) add_border(count);
        add(Trait::near_multiple, count);
        add(Trait::low_end, count);
        while (shapes_.size() < count && add(Trait::free, count)) {
        }
        return std::move(shapes_);
    }

  private:
    /// In [0, 1), of 53 bits.
    double uniform() { return static_cast<double>(random_() >> 11U) * 0x1p-53; }
    std::size_t below(std::size_t count) {
        return std::min(static_cast<std::size_t>(uniform() * static_cast<double>(count)),
                        count - 1);
    }

    /// Log-uniform; `reach` of the range's logarithm is used, from the low end.
    std::int64_t log_uniform(const Range& range, double reach) {
        const double low = std::log(static_cast<double>(range.low));
        const double high = std::log(static_cast<double>(range.high) + 1.0);
        const double value = std::exp(low + (high - low) * reach * uniform());
        if (value >= static_cast<double>(range.high)) return range.high;  // may not fit an integer
        return std::max(static_cast<std::int64_t>(value), range.low);
    }

    static std::int64_t odd_in(const Range& range, std::int64_t value) {
        if (value % 2 != 0) return value;
        if (value + 1 <= range.high) return value + 1;
        return value - 1 >= range.low ? value - 1 : value;
    }

    std::int64_t near_multiple_in(const Range& range, std::int64_t value) {
        const std::int64_t unit = std::int64_t{64} << below(3);
        std::int64_t multiple = std::max(unit, value / unit * unit);
        if (value - multiple >= unit / 2 && multiple <= range.high - unit) multiple += unit;
        const std::int64_t near = below(2) == 0 ? multiple - 1 : multiple + 1;
        return near >= range.low && near <= range.high ? near : value;
    }

    Workload base() {
        Workload shape = task_.workloads[below(task_.workloads.size())];
        shape.weight = 1.0;
        return shape;
    }

    Workload candidate_for(Trait trait, double reach) {
        Workload shape = base();
        const std::size_t chosen = below(ranges_.size());
        // Plans are often valid for multiples of a tile only: half of the free draws are such.
        const std::int64_t snap = plan_.valid && below(2) == 0 ? std::int64_t{64} << below(3) : 1;
        for (std::size_t i = 0; i < ranges_.size(); ++i) {
            const Range& range = ranges_[i];
            std::int64_t value = log_uniform(range, reach);
            if (trait == Trait::odd) value = odd_in(range, value);
            if (trait == Trait::low_end) value = range.low;
            if (trait == Trait::near_multiple && i == chosen) {
                value = near_multiple_in(range, value);
            }
            if (trait == Trait::free && value / snap * snap >= range.low) {
                value = value / snap * snap;
            }
            shape.axes[range.axis] = value;
        }
        return shape;
    }

    [[nodiscard]] bool has(Trait trait, const Workload& shape) const {
        const auto value = [&](const Range& range) { return shape.axes.at(range.axis); };
        switch (trait) {
            case Trait::odd:
                // A range of one even value cannot be odd; it does not forbid the others.
                return std::all_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
                    return value(range) % 2 != 0 || range.low == range.high;
                });
            case Trait::near_multiple:
                return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
                    const std::int64_t rest = value(range) % 64;
                    return value(range) >= 63 && (rest == 1 || rest == 63);
                });
            default:
                return true;
        }
    }

    [[nodiscard]] bool is_new(const Workload& shape) const {
        const auto same = [&](const Workload& other) { return other.axes == shape.axes; };
        return std::none_of(task_.workloads.begin(), task_.workloads.end(), same) &&
               std::none_of(shapes_.begin(), shapes_.end(), same);
    }

    /// Small enough, and what could stand among the workloads: computed axes above 0, room for
    /// offsets, distinct values and ragged rows, whole bytes.
    [[nodiscard]] bool is_possible(const Workload& shape) const {
        try {
            if (tensor_bytes(task_.definition, shape) > most_bytes_) return false;
            rules_.check_shape(shape);
            return true;
        } catch (const Error&) {
            return false;
        }
    }

    [[nodiscard]] bool is_served(const Workload& shape) const {
        return serves(plan_, task_, shape, bindings_, device_);
    }

    void keep(Workload shape) {
        shape.uuid = fmt::format("hidden {}", describe_shape(shape));
        shapes_.push_back(std::move(shape));
    }

    bool add(Trait trait, std::size_t count) {
        if (shapes_.size() >= count) return false;
        std::optional<Workload> refused;
        for (int draw = 0; draw < most_draws; ++draw) {
            const double reach = 1.0 - static_cast<double>(draw) / most_draws;
            Workload shape = candidate_for(trait, reach);
            if (!has(trait, shape) || !is_new(shape) || !is_possible(shape)) continue;
            if (is_served(shape)) {
                keep(std::move(shape));
                return true;
            }
            if (!refused) refused = std::move(shape);
            if (draw >= picky_draws) break;
        }
        if (!refused) return false;
        keep(std::move(*refused));
        return true;
    }

    /// A shape that is drawn freely and for which `//@valid` is `served`.
    std::optional<Workload> find(bool served) {
        for (int draw = 0; draw < picky_draws; ++draw) {
            Workload shape =
                candidate_for(Trait::free, 1.0 - static_cast<double>(draw) / most_draws);
            if (is_possible(shape) && is_served(shape) == served && (!served || is_new(shape))) {
                return shape;
            }
        }
        return std::nullopt;
    }

    /// The two sides of `//@valid`. Both where some pair of drawn shapes has both small enough.
    void add_border(std::size_t count) {
        std::vector<Workload> best;
        for (int draw = 0; draw < border_draws && best.size() < 2; ++draw) {
            std::vector<Workload> found = border();
            if (found.size() > best.size()) best = std::move(found);
        }
        for (Workload& shape : best) {
            if (shapes_.size() < count) keep(std::move(shape));
        }
    }

    /// A shape that is served and its neighbour that is not, less what cannot be used.
    std::vector<Workload> border() {
        std::optional<Workload> valid = find(true);
        if (!valid) valid = base();  // workloads must be served
        const std::optional<Workload> invalid = find(false);
        if (!invalid || !is_served(*valid)) return {};
        // Axis by axis from the one to the other: the first that changes the answer is the border.
        Workload shape = *valid;
        const std::size_t first = below(ranges_.size());
        for (std::size_t i = 0; i < ranges_.size(); ++i) {
            const std::string& axis = ranges_[(first + i) % ranges_.size()].axis;
            const std::int64_t from = shape.axes.at(axis);
            shape.axes[axis] = invalid->axes.at(axis);
            if (!is_served(shape)) return bisect(shape, axis, from);
        }
        return {};
    }

    /// `shape` is not served, and would be with `valid` on that axis.
    std::vector<Workload> bisect(Workload shape, const std::string& axis, std::int64_t valid) {
        std::int64_t invalid = shape.axes.at(axis);
        while (std::abs(valid - invalid) > 1) {
            const std::int64_t middle = valid + (invalid - valid) / 2;
            shape.axes[axis] = middle;
            (is_served(shape) ? valid : invalid) = middle;
        }
        std::vector<Workload> found;
        for (const std::int64_t value : {valid, invalid}) {
            shape.axes[axis] = value;
            if (is_new(shape) && is_possible(shape)) found.push_back(shape);
        }
        return found;
    }

    const Task& task_;
    const plan::Plan& plan_;
    const Bindings& bindings_;
    const DeviceInfo& device_;
    const Reporter reporter_{[](ErrorCode, const Place&, const std::string& message) {
                                 throw Error(ErrorCode::invalid_argument,
                                             "hidden shapes: " + message);
                             },
                             [](const Place& place) {
                                 return SourcePosition{place.pointer, 1, 1};
                             }};
    TaskRules rules_{task_, reporter_};
    std::mt19937_64 random_;
    std::vector<Range> ranges_;
    double most_bytes_ = 0.0;
    std::vector<Workload> shapes_;
};

/// The end of a ranged axis on an emulated device: two warps and a tail of three.
constexpr std::int64_t most_emulated_extent = 67;

/// ", with N=384, K=384"; empty where all constants are the task's own.
std::string constants_text(const Task& task) {
    std::string text;
    for (const auto& [axis, value] : task.emulator_axes) {
        text += fmt::format("{}{}={}", text.empty() ? ", with " : ", ", axis, value);
    }
    return text;
}

Workload cut_ranges(const Task& task, Workload shape) {
    for (auto& [axis, value] : shape.axes) {
        const auto range = task.axis_ranges.find(axis);
        if (range == task.axis_ranges.end()) continue;
        value = std::min(value, std::max(range->second.first, most_emulated_extent));
    }
    return shape;
}

/// No hidden shape is longer along an axis than the workloads: many blocks of little work take a
/// processor long, however few their bytes are.
void cap_ranges(Task& task) {
    for (auto& [axis, range] : task.axis_ranges) {
        std::int64_t longest = range.first;
        for (const Workload& workload : task.workloads) {
            const auto value = workload.axes.find(axis);
            if (value != workload.axes.end()) longest = std::max(longest, value->second);
        }
        range.second = std::min(range.second, longest);
    }
}

/// Whether it could stand among the task's workloads.
bool is_possible_shape(const Task& task, const Workload& shape) {
    const Reporter reporter{[](ErrorCode, const Place&, const std::string& message) {
                                throw Error(ErrorCode::invalid_argument, message);
                            },
                            [](const Place& place) {
                                return SourcePosition{place.pointer, 1, 1};
                            }};
    TaskRules rules(task, reporter);
    try {
        rules.check_operation();
        rules.check_shape(shape);
        return true;
    } catch (const Error&) {
        return false;
    }
}

/// Indices of the workloads, fewest bytes first.
std::vector<std::size_t> by_bytes(const Task& task) {
    std::vector<double> bytes;
    for (const Workload& workload : task.workloads) {
        bytes.push_back(tensor_bytes(task.definition, workload));
    }
    std::vector<std::size_t> order(task.workloads.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return bytes[a] < bytes[b]; });
    return order;
}

}  // namespace

double tensor_bytes(const Definition& definition, const Workload& shape) {
    const auto axes = axis_values(definition, shape);
    double bytes = 0.0;
    for (const auto* tensors : {&definition.inputs, &definition.outputs}) {
        for (const TensorSpec& tensor : *tensors) {
            if (tensor.scalar) continue;
            double elements = 1.0;
            for (const std::string& axis : tensor.shape) {
                const auto found = axes.find(axis);
                if (found == axes.end()) {
                    throw Error(
                        ErrorCode::invalid_argument,
                        fmt::format("tensor {}: axis {} is not defined", tensor.name, axis));
                }
                elements *= static_cast<double>(found->second);
            }
            bytes += elements * static_cast<double>(bits_of(tensor.dtype)) / 8.0;
        }
    }
    return bytes;
}

std::vector<Workload> hidden_shapes(const Task& task, const plan::Plan& plan,
                                    const Bindings& bindings, const DeviceInfo& device,
                                    std::uint64_t seed, std::size_t count) {
    return ShapeDraw(task, plan, bindings, device, seed).draw(count);
}

std::size_t hidden_count(EvaluationDepth depth, const plan::Plan& plan) {
    switch (depth) {
        case EvaluationDepth::check:
        case EvaluationDepth::screen:
            return 1;
        case EvaluationDepth::promotion:
            return plan.valid ? 6 : 4;
        default:
            return 0;
    }
}

std::vector<Workload> small_shapes(const Task& task, const plan::Plan& plan,
                                   const Bindings& bindings, const DeviceInfo& device) {
    std::vector<Workload> shapes;
    for (const Workload& shape : task.emulator_workloads) {
        if (serves(plan, task, shape, bindings, device)) shapes.push_back(shape);
    }
    return shapes;
}

SmallTask emulator_task(const Task& task) {
    SmallTask small{task, ""};
    small.task.definition = emulator_definition(task);
    if (!task.emulator_workloads.empty()) {
        small.task.workloads = task.emulator_workloads;
        cap_ranges(small.task);
        small.note = fmt::format("task {}: its {} emulator workloads take the place of its {}{}",
                                 task.definition.name, task.emulator_workloads.size(),
                                 task.workloads.size(), constants_text(task));
        return small;
    }
    if (task.workloads.empty()) return small;
    const Workload& smallest = task.workloads[smallest_workload(task)];
    const Workload shape = cut_ranges(task, smallest);
    small.task.workloads = {is_possible_shape(task, shape) ? shape : smallest};
    small.task.workloads[0].weight = 1.0;
    small.note = fmt::format(
        "task {}: it has no emulator workloads, so that its smallest workload takes their place, "
        "as {}",
        task.definition.name, describe_shape(small.task.workloads[0]));
    cap_ranges(small.task);
    // What is derived stays what it is when it is asked for again.
    small.task.emulator_workloads = small.task.workloads;
    return small;
}

std::size_t smallest_workload(const Task& task) {
    return by_bytes(task).front();
}

std::vector<std::size_t> spread_of_workloads(const Task& task, double most_bytes) {
    const std::vector<std::size_t> order = by_bytes(task);
    std::vector<std::size_t> small;
    for (const std::size_t workload : order) {
        if (tensor_bytes(task.definition, task.workloads[workload]) <= most_bytes) {
            small.push_back(workload);
        }
    }
    if (small.empty()) small.push_back(order.front());
    std::vector<std::size_t> chosen = {small.front()};
    for (const std::size_t workload : {small[small.size() / 2], small.back()}) {
        if (std::find(chosen.begin(), chosen.end(), workload) == chosen.end()) {
            chosen.push_back(workload);
        }
    }
    return chosen;
}

namespace {

/// Another draw for each run, candidate, depth and pass; the same one when it is asked again.
std::uint64_t seed_of(const EvaluationRequest& request) {
    Sha256 hash;
    hash.field(node_id(request.candidate.candidate).value);
    hash.field(to_string(request.depth));
    hash.field(std::to_string(request.seed));
    return std::stoull(hash.hex().substr(0, 16), nullptr, 16);
}

/// Keeps the builds of one workload of a candidate that is built for `workloads`.
void keep_workload(CompiledCandidate& compiled, const std::vector<std::size_t>& workloads,
                   std::size_t workload) {
    const auto at = std::find(workloads.begin(), workloads.end(), workload) - workloads.begin();
    compiled.build_of_workload = {compiled.build_of_workload.at(static_cast<std::size_t>(at))};
}

/// Of the smallest workload that the request has.
std::size_t smallest_of(const EvaluationRequest& request) {
    const Task& task = *request.task;
    return *std::min_element(request.workloads.begin(), request.workloads.end(),
                             [&](std::size_t a, std::size_t b) {
                                 return tensor_bytes(task.definition, task.workloads[a]) <
                                        tensor_bytes(task.definition, task.workloads[b]);
                             });
}

Evaluation unbuilt(const EvaluationRequest& request, HiddenBuilds builds) {
    Evaluation evaluation;
    evaluation.id = request.id;
    evaluation.status = builds.status;
    evaluation.message = std::move(builds.message);
    return evaluation;
}

}  // namespace

std::optional<Evaluation> add_hidden_shapes(Compiler& compiler, const DeviceInfo& device,
                                            const BuildLimits& limits, EvaluationRequest& request,
                                            std::stop_token stop) {
    const Task& task = *request.task;
    const Candidate& candidate = request.candidate.candidate;
    const plan::Plan plan =
        plan::parse_plan(candidate.source, "candidate.cu", task.definition, task.constant_inputs);
    const bool sanitize = request.depth == EvaluationDepth::sanitize;
    request.hidden = sanitize ? small_shapes(task, plan, candidate.bindings, device)
                              : hidden_shapes(task, plan, candidate.bindings, device,
                                              seed_of(request), hidden_count(request.depth, plan));
    if (sanitize) {
        const std::size_t smallest = smallest_of(request);
        keep_workload(request.candidate, request.workloads, smallest);
        keep_workload(request.reference, request.workloads, smallest);
        request.workloads = {smallest};
    }
    HiddenBuilds builds =
        add_hidden_builds(compiler, task, request.candidate, "candidate.cu", request.workloads,
                          request.hidden, device, limits, stop);
    if (!builds.ok()) return unbuilt(request, std::move(builds));
    builds = add_hidden_builds(compiler, task, request.reference, "reference.cu", request.workloads,
                               request.hidden, device, limits, stop);
    if (builds.status == EvaluationStatus::cancelled) return unbuilt(request, std::move(builds));
    if (!builds.ok()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("task {}: its reference cannot be used {}", task.definition.name,
                                builds.message));
    }
    if (request.opponent) {
        skip_hidden_builds(*request.opponent, request.workloads.size(), request.hidden.size());
    }
    if (sanitize && !request.hidden.empty()) {
        // The workload was there to hold the place of builds; the small shapes are enough.
        request.workloads.clear();
        request.candidate.build_of_workload.erase(request.candidate.build_of_workload.begin());
        request.reference.build_of_workload.erase(request.reference.build_of_workload.begin());
    }
    return std::nullopt;
}

}  // namespace kernelforge
