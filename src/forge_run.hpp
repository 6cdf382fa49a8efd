// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "archive.hpp"
#include "builds.hpp"
#include "forge_jobs.hpp"
#include "forge_promotion.hpp"
#include "kernelforge/forge.hpp"
#include "reply.hpp"

namespace kernelforge {

/// One expansion while it is worked on.
struct Attempt {
    enum class Stage {
        wants_reply,         ///< its prompt is there
        requesting,          ///< a model call runs
        waiting_reply,       ///< the completion is pending elsewhere
        replied,             ///< the reply is archived
        building,            ///< a compilation runs
        ready,               ///< to be judged, or read back from the archive
        waiting_evaluation,  ///< the evaluation is pending elsewhere
        over_budget,         ///< goes on when the budget is raised
        wants_repair,        ///< failed in a way that another turn may repair
        done,                ///< to be told
    };
    std::uint64_t ordinal = 0;
    std::uint64_t round = 0;
    Expansion expansion;
    std::uint32_t turn = 0;
    std::vector<ChatMessage> messages;
    Stage stage = Stage::wants_reply;
    std::shared_ptr<JobOutcome<ChatReply>> reply_job;
    std::shared_ptr<JobOutcome<Built>> build_job;
    std::string reply;  ///< of this turn
    Built built;
    std::string identity;             ///< of `built`, once it was compared
    NodeRecord record;                ///< of this turn
    bool replayed = false;            ///< `record` was read from the archive
    bool promoted = false;            ///< beat the leader at promotion depth
    bool retried = false;             ///< the evaluator failed on it once
    std::vector<NodeRecord> earlier;  ///< of the turns before
};

/// One run, from its first expansion to its end, over any number of calls of `run`. All but the
/// jobs happens on the thread that calls `run`. The order of everything that decides the outcome
/// (asks, judgements, tells) depends on the strategy, the replies and the verdicts only, not on
/// timing; so a run is resumed by going through it again with the archive in the place of what was
/// paid for.
class ForgeRun {
  public:
    ForgeRun(ForgeParts& parts, const ForgeOptions& options, const Task& task);

    /// @throws Error as `Forge::run`
    [[nodiscard]] ForgeResult run(std::stop_token stop);
    /// Hash of all that decides how candidates of the task are judged; no paths.
    [[nodiscard]] const std::string& task_hash() const noexcept { return task_hash_; }

  private:
    struct Baseline {
        const BaselineSpec* spec = nullptr;
        std::vector<std::optional<double>> times_s;  ///< one a workload; empty: not measured
    };
    struct Known {
        NodeRecord record;
        std::string identity;  ///< of its plan and machine code; empty: compile to know it
    };

    // forge_setup.cpp: the run folder, the reference and the baselines
    [[nodiscard]] static std::string hash_of(Task task);
    void open();
    void read_archive();
    void choose_device();
    void use_small_task();
    void prepare_reference();
    void measure_baselines();
    void check_archived(const NodeRecord& record, const std::string& title) const;
    [[nodiscard]] bool measure_baseline(std::size_t index);
    [[nodiscard]] std::optional<NodeRecord> archived_baseline(const std::string& name) const;
    [[nodiscard]] NodeRecord evaluate_baseline(const BaselineSpec& spec);
    void accept_baseline(std::size_t index, NodeRecord record);
    void plant_root(const NodeRecord& root);

    // forge_run.cpp: the loop
    void loop();
    void ask_more();
    void begin(Expansion expansion);
    [[nodiscard]] std::optional<std::pair<StopReason, std::string>> reason_not_to_ask() const;
    [[nodiscard]] std::optional<std::string> spent() const;
    [[nodiscard]] bool advance(Attempt& attempt);
    [[nodiscard]] bool judge_ready();
    [[nodiscard]] bool release_repairs();
    [[nodiscard]] bool retire();
    void choose_leader(const std::vector<std::unique_ptr<Attempt>>& batch);
    void finish(const Attempt& attempt);
    void save_late_replies();
    void end_waiting();
    void end_waiting_for_evaluations(std::size_t count);
    void unblock();
    void end(StopReason reason, std::string message);

    // forge_turn.cpp: one turn of one expansion
    [[nodiscard]] std::vector<ChatMessage> prompt_for(const Expansion& expansion) const;
    [[nodiscard]] bool request(Attempt& attempt);
    void take_reply(Attempt& attempt);
    void read_reply(Attempt& attempt, const ChatReply& reply);
    [[nodiscard]] bool build(Attempt& attempt);
    void take_build(Attempt& attempt);
    void judge(Attempt& attempt);
    [[nodiscard]] bool is_duplicate(Attempt& attempt);
    [[nodiscard]] bool screen(Attempt& attempt, const EvaluationRequest& request);
    [[nodiscard]] bool promote_candidate(Attempt& attempt, const EvaluationRequest& request);
    [[nodiscard]] bool evaluator_failed(Attempt& attempt, const std::string& message);
    [[nodiscard]] Diagnosis diagnose_candidate(const Built& built, const Evaluation& evaluation);
    void end_turn(Attempt& attempt, ExpansionOutcome outcome, EvaluationStatus status,
                  std::string message);
    void settle(Attempt& attempt);
    void next_turn(Attempt& attempt);
    [[nodiscard]] EvaluationRequest request_for(const CompiledCandidate& candidate,
                                                EvaluationDepth depth) const;
    [[nodiscard]] AddHidden hidden_adder();
    [[nodiscard]] Evaluation evaluate(const EvaluationRequest& request);
    void warn_once(const std::string& warning);
    void count_failure(EvaluationStatus status);
    void find_identity(Known& known);
    [[nodiscard]] const CompiledCandidate* leader_build();
    [[nodiscard]] Built compile_again(const Candidate& candidate);
    [[nodiscard]] BuildLimits build_limits() const;

    // forge_result.cpp: what comes out
    [[nodiscard]] std::vector<WorkloadSummary> summaries() const;
    [[nodiscard]] ForgeResult result() const;
    void write_run_file(const ForgeResult* result) const;
    void write_best() const;
    [[nodiscard]] std::optional<double> leader_headroom() const;
    [[nodiscard]] const Baseline* best_baseline() const;

    void emit(ForgeEvent::Kind kind, const Attempt* attempt, std::string message) const;
    void count_usage(const Usage& usage);
    [[nodiscard]] std::chrono::duration<double> elapsed() const;
    [[nodiscard]] bool in_rounds() const noexcept { return options_.generations > 0; }
    [[nodiscard]] std::size_t width() const noexcept {
        return in_rounds() ? options_.generations : options_.max_in_flight;
    }

    ForgeParts& parts_;            // owned by the Forge that owns this
    const ForgeOptions& options_;  // likewise
    std::shared_ptr<const Task> task_;
    std::string task_hash_;
    std::vector<std::size_t> workloads_;
    DeviceInfo device_;
    std::stop_token stop_;

    std::optional<Archive> archive_;  ///< open while `run` runs
    std::vector<ExpansionRecord> recorded_expansions_;
    std::map<CompletionKey, NodeRecord> recorded_nodes_;
    std::chrono::duration<double> elapsed_before_{0};
    std::chrono::steady_clock::time_point started_;

    bool set_up_ = false;
    bool small_ = false;  ///< `task_` is that of an emulated device
    bool root_told_ = false;
    CompiledCandidate reference_;
    std::vector<Baseline> baselines_;
    std::size_t portable_ = 0;            ///< index of the first `cuda` baseline
    std::vector<double> baseline_times_;  ///< of the portable baseline, one a workload

    std::unique_ptr<Jobs> jobs_;
    std::deque<std::unique_ptr<Attempt>> attempts_;  ///< in order of their ordinals
    std::uint64_t next_ordinal_ = 0;
    std::uint64_t next_round_ = 0;
    std::map<NodeId, Known> known_;                ///< every candidate that was judged
    std::map<std::string, NodeId> known_sources_;  ///< by normalised text
    std::vector<NodeRecord> lessons_;              ///< ends that led nowhere, oldest first
    NodeId root_;
    NodeId leader_;
    std::optional<CompiledCandidate> leader_build_;  ///< compiled when it is first an opponent
    std::int64_t evaluations_ = 0;
    std::int64_t expansions_told_ = 0;
    int fruitless_ = 0;  ///< expansions in a row, since `run` was called, without an evaluation
    Usage usage_;
    std::set<std::string> warned_;
    int backend_failures_ = 0;    ///< in a row
    int evaluator_failures_ = 0;  ///< in a row
    std::optional<std::pair<StopReason, std::string>> ended_;
};

}  // namespace kernelforge
