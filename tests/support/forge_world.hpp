// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "support/fakes.hpp"

namespace kernelforge::test {

/// A forge of fakes in a temporary run folder. Each call of `forge` makes new fakes over the same
/// states, except the strategy's, which starts afresh, as in a new process.
struct ForgeWorld {
    TemporaryFolder folder;
    Task task = fake_task();
    ForgeOptions options;
    std::shared_ptr<FakeCompiler::State> compiler = std::make_shared<FakeCompiler::State>();
    std::shared_ptr<FakeEvaluator::State> evaluator = std::make_shared<FakeEvaluator::State>();
    std::shared_ptr<FakeLlm::State> llm = std::make_shared<FakeLlm::State>();
    std::shared_ptr<FakeStrategy::State> strategy = std::make_shared<FakeStrategy::State>();
    std::size_t expansions = 4;
    std::vector<ForgeEvent> events;
    std::function<void(const ForgeEvent&)> on_event;

    ForgeWorld() {
        options.run_folder = (folder.path() / "run").string();
        options.max_repairs = 0;
    }

    /// The reply of expansion `expansion`, turn `turn`.
    void reply(std::uint64_t expansion, const FakeFate& fate, std::uint32_t turn = 0) {
        llm->replies[{expansion, turn}] =
            fake_reply(fate, "attempt " + std::to_string(expansion) + "." + std::to_string(turn));
    }

    [[nodiscard]] Forge forge() {
        strategy->tells.clear();
        strategy->asked.clear();
        strategy->most = expansions;
        ForgeParts parts;
        parts.compiler = std::make_unique<FakeCompiler>(compiler);
        parts.evaluator = std::make_unique<FakeEvaluator>(evaluator);
        parts.llm = std::make_unique<FakeLlm>(llm);
        parts.strategy = std::make_unique<FakeStrategy>(strategy);
        parts.on_event = [this](const ForgeEvent& event) {
            events.push_back(event);
            if (on_event) on_event(event);
        };
        return {std::move(parts), options};
    }

    [[nodiscard]] ForgeResult run(std::stop_token stop = {}) { return forge().run(task, stop); }

    /// The tell of an expansion, by its ordinal.
    [[nodiscard]] NodeSummary tell(std::uint64_t ordinal) const {
        for (const NodeSummary& summary : strategy->tells) {
            if (summary.expansion == strategy->asked.at(ordinal).id) return summary;
        }
        return {};
    }
    [[nodiscard]] bool told_once_each() const {
        for (const auto& [id, count] : strategy->tells_by_expansion()) {
            if (count != 1) return false;
        }
        return true;
    }
};

}  // namespace kernelforge::test
