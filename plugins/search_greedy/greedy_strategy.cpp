// SPDX-License-Identifier: Apache-2.0
#include "greedy_strategy.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json_text.hpp"

namespace kernelforge {
namespace {

constexpr std::size_t max_elites = 8;

constexpr auto default_directives = std::to_array<std::string_view>({
    "Look at memory access first: coalesced and contiguous across a warp, every byte read once, no "
    "needless round trip through global memory.",
    "Look at the vector width: 16 bytes per thread and access where alignment allows, several "
    "independent "
    "accesses in flight per thread.",
    "Look at tiling: what a block and a thread own, reuse in shared memory and registers, bank "
    "conflicts.",
    "Look at the launch: block size, blocks per multiprocessor, a grid that fills the device "
    "without a "
    "ragged last wave, fewer launches.",
    "Look at pipelining: overlap loads of the next tile with work on this one, asynchronous copies "
    "to "
    "shared memory, more stages.",
    "Look at the algorithm: fewer passes over the data, warp shuffles instead of shared memory, a "
    "better "
    "reduction tree, one pass instead of two.",
    "Look at fusion: merge steps so that intermediate results never leave registers or shared "
    "memory.",
    "Look at numerics within the required precision: cheaper instructions, packed arithmetic, "
    "approximations that stay within the tolerance.",
});

struct GreedyOptions {
    std::vector<std::string> directives;
    std::int64_t plateau = 3;
    std::uint64_t drafts = 1;
    std::uint64_t max_expansions = 0;
};

GreedyOptions read_options(std::string_view text) {
    const JsonDocument document(std::string(text), "options of greedy");
    const JsonNode root = document.root();
    root.only_members({"directives", "plateau", "drafts", "max_expansions"});
    GreedyOptions options;
    options.directives.assign(default_directives.begin(), default_directives.end());
    if (const auto directives = root.find("directives")) {
        options.directives.clear();
        for (std::size_t i = 0; i < directives->array_size(); ++i) {
            options.directives.push_back(directives->at(i).as_string());
        }
        if (options.directives.empty()) directives->expected("at least one directive");
    }
    constexpr std::int64_t most = 1'000'000;
    const auto count = [&](std::string_view key, std::int64_t low, std::int64_t value) {
        const auto node = root.find(key);
        return node ? node->as_integer(low, most) : value;
    };
    options.plateau = count("plateau", 1, options.plateau);
    options.drafts = static_cast<std::uint64_t>(count("drafts", 0, 1));
    options.max_expansions = static_cast<std::uint64_t>(count("max_expansions", 0, 0));
    return options;
}

/// Depends on its options and the order of asks and tells only.
class GreedyStrategy final : public SearchStrategy {
  public:
    explicit GreedyStrategy(GreedyOptions options) : options_(std::move(options)) {}

    std::vector<Expansion> ask(std::size_t max_count) override {
        std::vector<Expansion> asked;
        while (asked.size() < max_count) {
            if (options_.max_expansions > 0 && next_id_ >= options_.max_expansions) break;
            asked.push_back(next());
        }
        return asked;
    }

    void tell(const NodeSummary& summary) override {
        if (summary.leader) {
            keep_elite(leader_, leader_speedup_);
            leader_ = summary.node;
            leader_speedup_ = summary.speedup.value_or(0.0);
            without_leader_ = 0;
            diversions_ = 0;
            return;
        }
        if (summary.expansion) ++without_leader_;
        if (summary.outcome == ExpansionOutcome::evaluated && summary.speedup &&
            summary.status == EvaluationStatus::ok) {
            keep_elite(summary.node, *summary.speedup);
        }
    }

  private:
    struct Elite {
        NodeId node;
        double speedup = 0.0;
    };

    Expansion next() {
        Expansion expansion;
        expansion.id = next_id_++;
        expansion.directive = options_.directives[expansion.id % options_.directives.size()];
        if (leader_.empty() || expansion.id < options_.drafts) {
            expansion.action = ExpansionAction::draft;
        } else if (without_leader_ >= options_.plateau) {
            divert(expansion);
        } else {
            expansion.parent = leader_;
        }
        return expansion;
    }

    /// On a plateau, in turn: an elite (the next one each time), a fresh draft, the leader.
    void divert(Expansion& expansion) {
        const std::uint64_t turn = diversions_++;
        switch (turn % 3) {
            case 0:
                expansion.parent =
                    elites_.empty() ? leader_ : elites_[turn / 3 % elites_.size()].node;
                if (!elites_.empty()) expansion.inspirations = {leader_};
                break;
            case 1:
                expansion.action = ExpansionAction::draft;
                expansion.directive =
                    "Recent attempts at improving the leader led nowhere: take a fundamentally "
                    "different "
                    "approach. " +
                    expansion.directive;
                break;
            default:
                expansion.parent = leader_;
                break;
        }
    }

    void keep_elite(const NodeId& node, double speedup) {
        if (node.empty()) return;
        const auto before = [](const Elite& a, const Elite& b) { return a.speedup > b.speedup; };
        const Elite elite{node, speedup};
        elites_.insert(std::upper_bound(elites_.begin(), elites_.end(), elite, before), elite);
        if (elites_.size() > max_elites) elites_.pop_back();
    }

    GreedyOptions options_;
    NodeId leader_;
    double leader_speedup_ = 0.0;
    std::vector<Elite> elites_;  ///< right candidates that do not lead, fastest first
    std::uint64_t next_id_ = 0;
    std::int64_t without_leader_ = 0;  ///< tells
    std::uint64_t diversions_ = 0;     ///< since the leader changed
};

}  // namespace

std::span<const std::string_view> greedy_directives() noexcept {
    return default_directives;
}

std::unique_ptr<SearchStrategy> make_greedy_strategy(std::string_view options,
                                                     const PluginContext&) {
    return std::make_unique<GreedyStrategy>(read_options(options));
}

}  // namespace kernelforge
