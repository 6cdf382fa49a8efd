// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <utility>

#include "worker/library_algorithms.hpp"
#include "worker/library_steps.hpp"
#include "worker/library_sweep.hpp"
#include "worker/library_tuning.hpp"

namespace kernelforge::worker::library {

namespace {

constexpr std::size_t most_workspace = std::size_t{64} << 20;

/// A choice with where it comes from.
struct Chosen {
    Choice choice;
    std::string origin;  ///< "fastest of 168 tried"
};

class MatmulStep final : public LibraryStep {
  public:
    MatmulStep(std::unique_ptr<MatmulProblem> problem, Chosen chosen)
        : problem_(std::move(problem)),
          chosen_(std::move(chosen)),
          algorithm_{chosen_.choice.algorithm} {}

    [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
        return chosen_.choice.workspace_bytes;
    }

    void enqueue(CUstream stream, const Addresses& addresses, CUdeviceptr workspace) override {
        const MatmulShape& shape = problem_->shape();
        const auto find = [&](const Operand& operand) {
            return operand.given() ? checked(operand, address_of(addresses, operand.name)) : 0;
        };
        MatmulAddresses at;
        at.a = find(shape.a);
        at.b = find(shape.b);
        at.c = find(shape.c);
        at.d = find(shape.d);
        at.bias = find(shape.bias);
        at.a_scale = find(shape.a_scale);
        at.b_scale = find(shape.b_scale);
        const lt::Status status =
            problem_->run(algorithm_, at, workspace, workspace_bytes(), stream);
        problem_->session().api.check(status, "matmul with " + chosen_.choice.text);
    }

    [[nodiscard]] std::string describe() const override {
        return fmt::format("cublasLt {}: {}; {}", problem_->session().api.version(),
                           chosen_.choice.text, chosen_.origin);
    }

  private:
    /// The algorithm was chosen for buffers that are aligned to 256.
    static CUdeviceptr checked(const Operand& operand, CUdeviceptr address) {
        constexpr CUdeviceptr alignment = 256;
        if (address % alignment == 0) return address;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("matmul: {} is at {:#x}, expected a multiple of {}", operand.name,
                                address, alignment));
    }

    std::unique_ptr<MatmulProblem> problem_;
    Chosen chosen_;
    lt::Algorithm algorithm_;
};

/// Times the algorithms of one problem.
class MatmulSweep {
  public:
    MatmulSweep(const StepContext& context, MatmulProblem& problem)
        : context_(context),
          problem_(problem),
          scratch_(context.driver, context.device, context.stream, *context.kernels,
                   operands(problem.shape()), most_workspace),
          clock_(context.driver, context.stream, *context.kernels) {}

    [[nodiscard]] Choice run() {
        const auto least = static_cast<std::size_t>(std::max(1, context_.options.least_algorithms));
        algorithms_ = problem_.algorithms(least, most_workspace);
        constexpr double budget_s = 8.0;  // of screening; a hundred calls of 80 ms
        const auto start = std::chrono::steady_clock::now();
        const SweepResult result = sweep(
            algorithms_.size(), budget_s,
            [&](std::size_t index, int calls) { return time(index, calls); },
            [&] {
                return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
                    .count();
            });
        if (result.ranking.empty()) {
            throw Error(ErrorCode::unsupported,
                        fmt::format("cublasLt {}: none of {} algorithms runs {}",
                                    problem_.session().api.version(), algorithms_.size(),
                                    problem_.shape().key()));
        }
        const lt::HeuristicResult& best = algorithms_.at(result.ranking.front().index);
        Choice choice;
        choice.algorithm = best.algorithm.words;
        choice.workspace_bytes = best.workspace_bytes;
        choice.text = problem_.describe(best.algorithm);
        choice.tried = result.tried;
        choice.best_s = result.ranking.front().seconds;
        choice.first_s = result.first_s;
        return choice;
    }

  private:
    enum Place : std::size_t {
        place_a,
        place_b,
        place_c,
        place_d,
        place_bias,
        place_a_scale,
        place_b_scale
    };

    static std::vector<ScratchOperand> operands(const MatmulShape& shape) {
        const auto bytes = [&](std::int64_t rows, std::int64_t columns, const Operand& operand) {
            return static_cast<std::size_t>(rows * columns * shape.batch) *
                   element_bytes(operand.dtype);
        };
        const bool separate_c = shape.c.given() && !shape.in_place();
        return {{shape.a.dtype, bytes(shape.m, shape.k, shape.a)},
                {shape.b.dtype, bytes(shape.k, shape.n, shape.b)},
                {shape.d.dtype, separate_c ? bytes(shape.m, shape.n, shape.c) : 0},
                {shape.d.dtype, bytes(shape.m, shape.n, shape.d)},
                {shape.bias.given() ? shape.bias.dtype : "f32",
                 shape.bias.given() ? bytes(1, shape.n, shape.bias) : 0},
                {"f32", sizeof(float)},
                {"f32", sizeof(float)}};
    }

    /// Seconds a call, negative where the algorithm does not run.
    [[nodiscard]] double time(std::size_t index, int calls) {
        const lt::HeuristicResult& each = algorithms_.at(index);
        lt::Status status = 0;
        const auto enqueue = [&] {
            if (status == 0) {
                status = problem_.run(each.algorithm, next(), scratch_.workspace(),
                                      each.workspace_bytes, context_.stream);
            }
        };
        // The library loads a kernel's code when it is first called.
        if (calls == 1) enqueue();
        const double seconds = clock_.seconds(calls, enqueue);
        return status == 0 ? seconds : -1.0;
    }

    [[nodiscard]] MatmulAddresses next() {
        const std::size_t set = set_++;
        MatmulAddresses at;
        at.a = scratch_.address(place_a, set);
        at.b = scratch_.address(place_b, set);
        at.d = scratch_.address(place_d, set);
        at.c = problem_.shape().in_place() ? at.d : scratch_.address(place_c, set);
        at.bias = scratch_.address(place_bias, set);
        at.a_scale = scratch_.address(place_a_scale, set);
        at.b_scale = scratch_.address(place_b_scale, set);
        return at;
    }

    const StepContext& context_;
    MatmulProblem& problem_;
    Scratch scratch_;
    CallClock clock_;
    std::vector<lt::HeuristicResult> algorithms_;
    std::size_t set_ = 0;
};

class MatmulMaker final : public StepMaker {
  public:
    explicit MatmulMaker(StepContext context) : context_(std::move(context)) {}

    [[nodiscard]] std::unique_ptr<LibraryStep> make(const plan::ResolvedCall& call) override {
        MatmulShape shape = matmul_shape(call);
        if (session_ == nullptr) {
            session_ = std::make_shared<const LtSession>(context_.options.folders);
        }
        ChoiceKey key;
        key.library = "cublasLt " + session_->api.version();
        key.driver = context_.device.driver_version;
        key.device = context_.device.name;
        key.uuid = context_.device.uuid;
        key.call = shape.key();
        auto problem = std::make_unique<MatmulProblem>(session_, std::move(shape));
        Chosen chosen = choose(key, *problem);
        return std::make_unique<MatmulStep>(std::move(problem), std::move(chosen));
    }

  private:
    [[nodiscard]] Chosen choose(const ChoiceKey& key, MatmulProblem& problem) {
        const auto known = chosen_.find(key.digest());
        if (known != chosen_.end()) return known->second;
        if (std::optional<Choice> kept = find_choice(context_.options.cache_folder, key)) {
            lt::HeuristicResult result;
            // A file from elsewhere may name anything: the library must take it.
            if (problem.accepts({kept->algorithm}, result) &&
                result.workspace_bytes <= kept->workspace_bytes &&
                kept->workspace_bytes <= most_workspace) {
                return remember(key, std::move(*kept), ", kept");
            }
        }
        Choice choice = MatmulSweep(context_, problem).run();
        std::string note;
        try {
            keep_choice(context_.options.cache_folder, key, choice);
        } catch (const Error& error) {
            // The step is as good without; who reads its description learns of it.
            note = std::string(", not kept: ") + error.what();
        }
        return remember(key, std::move(choice), note);
    }

    Chosen remember(const ChoiceKey& key, Choice choice, const std::string& note) {
        std::string origin =
            fmt::format("fastest of {} tried, {:.3g} us", choice.tried, choice.best_s * 1e6);
        if (choice.first_s > 0.0) {
            origin += fmt::format(" against {:.3g} us of the first proposal", choice.first_s * 1e6);
        }
        return chosen_.emplace(key.digest(), Chosen{std::move(choice), origin + note})
            .first->second;
    }

    StepContext context_;
    std::shared_ptr<const LtSession> session_;  ///< shared with the steps
    std::map<std::string, Chosen> chosen_;      ///< by ChoiceKey::digest
};

}  // namespace

std::unique_ptr<StepMaker> matmul_maker(const StepContext& context) {
    return std::make_unique<MatmulMaker>(context);
}

}  // namespace kernelforge::worker::library
