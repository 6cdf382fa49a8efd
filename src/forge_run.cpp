// SPDX-License-Identifier: Apache-2.0
#include "forge_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

// The loop: what is asked, in which order things are judged and told, and when it ends.

namespace kernelforge {
namespace {

using Stage = Attempt::Stage;

constexpr std::size_t max_kept_lessons = 6;
/// A model that never brings a candidate must not be asked for ever.
constexpr int max_fruitless = 20;

/// Of two numbers that are at least 0; the largest finite one where they exceed it.
template <class T>
T saturating_sum(T a, T b) {
    constexpr T largest = std::numeric_limits<T>::max();
    return a > largest - b ? largest : std::min(a + b, largest);
}

/// "1 completion", "3 completions".
std::string counted(std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

bool is_active(Stage stage) {
    return stage == Stage::wants_reply || stage == Stage::requesting ||
           stage == Stage::waiting_reply || stage == Stage::replied || stage == Stage::building;
}

bool same_expansion(const Expansion& a, const Expansion& b) {
    return a.id == b.id && a.action == b.action && a.parent == b.parent && a.role == b.role &&
           a.thread == b.thread && a.directive == b.directive && a.inspirations == b.inspirations &&
           a.memory_query == b.memory_query;
}

std::string describe(const Expansion& expansion) {
    return fmt::format("{} {} of {} ({})", to_string(expansion.action), expansion.id,
                       expansion.parent.empty() ? "nothing" : expansion.parent.value.substr(0, 12),
                       expansion.directive);
}

int rank(const NodeRecord& record) {
    switch (record.outcome) {
        case ExpansionOutcome::evaluated:
            return record.status == EvaluationStatus::ok ? 5 : 4;
        case ExpansionOutcome::duplicate:
            return 3;
        case ExpansionOutcome::guarded:
            return 2;
        case ExpansionOutcome::no_candidate:
            return 1;
        case ExpansionOutcome::failed:
            return 0;
    }
    return 0;
}

/// The best end among an expansion's turns; of equals the last.
const NodeRecord& best_end(const Attempt& attempt) {
    const NodeRecord* best = &attempt.record;
    for (auto record = attempt.earlier.rbegin(); record != attempt.earlier.rend(); ++record) {
        if (rank(*record) > rank(*best)) best = &*record;
    }
    return *best;
}

NodeSummary summary_of(const Attempt& attempt) {
    const NodeRecord& record = best_end(attempt);
    NodeSummary summary;
    summary.expansion = attempt.expansion.id;
    summary.outcome = record.outcome;
    summary.node = record.id;
    summary.parent = attempt.expansion.parent;
    summary.status = record.status;
    summary.speedup = record.speedup;
    summary.leader = record.leader;
    summary.change_class = record.change_class;
    summary.message = record.message;
    return summary;
}

}  // namespace

ForgeRun::ForgeRun(ForgeParts& parts, const ForgeOptions& options, const Task& task)
    : parts_(parts), options_(options), task_(std::make_shared<const Task>(task)) {
    check_task(task);
    workloads_ = all_workloads(task);
    task_hash_ = hash_of(task);
}

ForgeResult ForgeRun::run(std::stop_token stop) {
    stop_ = stop;
    ended_.reset();
    backend_failures_ = 0;
    evaluator_failures_ = 0;
    fruitless_ = 0;
    started_ = std::chrono::steady_clock::now();
    open();
    write_run_file(nullptr);
    if (!set_up_) {
        prepare_reference();
        measure_baselines();
    }
    if (!ended_) {
        set_up_ = true;
        unblock();
        jobs_ = std::make_unique<Jobs>(options_.max_in_flight, stop);
        loop();
        jobs_.reset();
        save_late_replies();
    }
    const ForgeResult outcome = result();
    write_run_file(&outcome);
    // One event says the last word: a run that waits will go on, any other has stopped.
    const bool waits = outcome.stop_reason == StopReason::waiting_for_completions ||
                       outcome.stop_reason == StopReason::waiting_for_evaluations;
    emit(waits ? ForgeEvent::Kind::waiting : ForgeEvent::Kind::stopped, nullptr, outcome.message);
    archive_.reset();
    return outcome;
}

void ForgeRun::loop() {
    while (!ended_) {
        if (stop_.stop_requested()) return end(StopReason::stopped, "a stop was requested");
        ask_more();
        if (attempts_.empty()) {
            const auto why = reason_not_to_ask();
            return why ? end(why->first, why->second)
                       : end(StopReason::nothing_to_ask,
                             "the search strategy has nothing more to ask");
        }
        bool moved = false;
        for (std::size_t i = 0; i < attempts_.size() && !ended_; ++i) {
            moved = advance(*attempts_[i]) || moved;
        }
        if (ended_) return;
        moved = judge_ready() || moved;
        moved = release_repairs() || moved;
        moved = retire() || moved;
        if (!moved && !ended_ && !jobs_->wait()) end_waiting();
    }
}

// ---- asking ----

/// Fills up to the width; with generations only when the round before is over. One expansion is
/// asked for at a time, so that an interrupted run asks the same way again.
void ForgeRun::ask_more() {
    if (in_rounds() && !attempts_.empty()) return;
    const std::uint64_t round = next_round_;
    while (attempts_.size() < width()) {
        const bool recorded = next_ordinal_ < recorded_expansions_.size();
        if (!recorded && reason_not_to_ask()) return;
        std::vector<Expansion> asked = parts_.strategy->ask(1);
        if (asked.empty() && recorded && attempts_.empty()) {
            throw Error(
                ErrorCode::invalid_argument,
                fmt::format(
                    "run folder {}: expected expansion {} ({}), the search strategy asks for "
                    "nothing",
                    options_.run_folder, next_ordinal_,
                    describe(recorded_expansions_[next_ordinal_].expansion)));
        }
        if (asked.empty()) return;
        if (in_rounds()) next_round_ = round + 1;
        begin(std::move(asked.front()));
    }
}

void ForgeRun::begin(Expansion expansion) {
    auto attempt = std::make_unique<Attempt>();
    attempt->ordinal = next_ordinal_++;
    attempt->round = in_rounds() ? next_round_ - 1 : 0;
    attempt->messages = prompt_for(expansion);
    attempt->expansion = std::move(expansion);
    if (attempt->ordinal < recorded_expansions_.size()) {
        const ExpansionRecord& recorded = recorded_expansions_[attempt->ordinal];
        if (!same_expansion(recorded.expansion, attempt->expansion) ||
            recorded.round != attempt->round) {
            throw Error(
                ErrorCode::invalid_argument,
                fmt::format(
                    "run folder {}: expansion {} in round {} was {}, the search strategy now "
                    "asks for {} in round {}: expected the strategy and options of the "
                    "run's start",
                    options_.run_folder, attempt->ordinal, recorded.round,
                    describe(recorded.expansion), describe(attempt->expansion), attempt->round));
        }
    } else {
        archive_->append_expansion(
            {attempt->ordinal, attempt->round, attempt->expansion, elapsed()});
    }
    attempts_.push_back(std::move(attempt));
}

/// What forbids another expansion. Never consulted for one that is recorded: it was paid for.
std::optional<std::pair<StopReason, std::string>> ForgeRun::reason_not_to_ask() const {
    const Budget& budget = options_.budget;
    if (const auto headroom = leader_headroom(); headroom && *headroom <= options_.stop_headroom) {
        return std::pair(
            StopReason::headroom,
            fmt::format("the leader takes {:.3f} times its bound, at most {:.3f} was asked for",
                        *headroom, options_.stop_headroom));
    }
    const auto& speedup = known_.at(leader_).record.speedup;
    if (options_.target_speedup && speedup && *speedup >= *options_.target_speedup) {
        return std::pair(
            StopReason::target,
            fmt::format("the leader is {:.3f} times as fast as the baseline, {:.3f} was "
                        "asked for",
                        *speedup, *options_.target_speedup));
    }
    const auto under_way = static_cast<std::int64_t>(attempts_.size());
    if (budget.evaluations && evaluations_ + under_way >= *budget.evaluations) {
        return std::pair(StopReason::budget, fmt::format("{} of {} evaluations are used",
                                                         evaluations_, *budget.evaluations));
    }
    if (const auto why = spent()) return std::pair(StopReason::budget, *why);
    if (fruitless_ >= max_fruitless) {
        return std::pair(
            StopReason::budget,
            fmt::format("{} expansions in a row brought nothing to evaluate", fruitless_));
    }
    if (in_rounds() && options_.max_rounds > 0 && attempts_.empty() &&
        next_round_ >= options_.max_rounds) {
        return std::pair(StopReason::budget, fmt::format("{} rounds are done", next_round_));
    }
    return std::nullopt;
}

/// Which part of the budget that model calls use is used up.
std::optional<std::string> ForgeRun::spent() const {
    const Budget& budget = options_.budget;
    const std::int64_t tokens =
        saturating_sum(usage_.input_tokens.value_or(0), usage_.output_tokens.value_or(0));
    if (budget.tokens && tokens >= *budget.tokens) {
        return fmt::format("{} of {} tokens are used", tokens, *budget.tokens);
    }
    if (budget.cost_usd && usage_.cost_usd.value_or(0.0) >= *budget.cost_usd) {
        return fmt::format("{:.4f} of {:.4f} USD are spent", usage_.cost_usd.value_or(0.0),
                           *budget.cost_usd);
    }
    if (budget.time && elapsed() >= *budget.time) {
        return fmt::format("{:.0f} of {} seconds are used", elapsed().count(),
                           budget.time->count());
    }
    return std::nullopt;
}

// ---- working ----

/// Takes one expansion as far as it gets without the device. Whether anything happened.
bool ForgeRun::advance(Attempt& attempt) {
    switch (attempt.stage) {
        case Stage::wants_reply:
            return request(attempt);
        case Stage::requesting:
            if (!jobs_->has_ended(attempt.reply_job)) return false;
            take_reply(attempt);
            return true;
        case Stage::replied:
            return build(attempt);
        case Stage::building:
            if (!jobs_->has_ended(attempt.build_job)) return false;
            take_build(attempt);
            return true;
        default:
            return false;
    }
}

/// Judges in order of ordinals: with generations once no reply or compilation of the round is
/// missing, else the oldest expansion only.
bool ForgeRun::judge_ready() {
    const auto active = [](const auto& attempt) { return is_active(attempt->stage); };
    if (in_rounds() && std::any_of(attempts_.begin(), attempts_.end(), active)) return false;
    bool moved = false;
    for (const auto& attempt : attempts_) {
        if (ended_ || stop_.stop_requested()) break;
        if (attempt->stage == Stage::ready) {
            judge(*attempt);
            moved = true;
        }
        if (!in_rounds()) break;
    }
    return moved;
}

/// Starts the next turn of what failed: at once, with generations when all of the round have ended
/// the turn before.
bool ForgeRun::release_repairs() {
    const auto at_rest = [](const auto& attempt) {
        return attempt->stage == Stage::wants_repair || attempt->stage == Stage::done;
    };
    if (in_rounds() && !std::all_of(attempts_.begin(), attempts_.end(), at_rest)) return false;
    bool moved = false;
    for (const auto& attempt : attempts_) {
        if (attempt->stage != Stage::wants_repair) continue;
        next_turn(*attempt);
        moved = true;
    }
    return moved;
}

/// Ends what is done, in order of ordinals: with generations a whole round at once.
bool ForgeRun::retire() {
    const auto is_done = [](const auto& attempt) { return attempt->stage == Stage::done; };
    if (attempts_.empty() || ended_) return false;
    if (in_rounds() && !std::all_of(attempts_.begin(), attempts_.end(), is_done)) return false;
    std::vector<std::unique_ptr<Attempt>> batch;
    while (!attempts_.empty() && is_done(attempts_.front()) && (in_rounds() || batch.empty())) {
        batch.push_back(std::move(attempts_.front()));
        attempts_.pop_front();
    }
    if (batch.empty()) return false;
    choose_leader(batch);
    for (const auto& attempt : batch) finish(*attempt);
    return true;
}

/// The fastest of those that beat the leader takes its place; all of a batch met the same leader.
void ForgeRun::choose_leader(const std::vector<std::unique_ptr<Attempt>>& batch) {
    Attempt* winner = nullptr;
    double best = 0.0;
    for (const auto& attempt : batch) {
        if (attempt->replayed && attempt->record.leader) {
            winner = attempt.get();
            break;
        }
        if (!attempt->promoted) continue;
        const double ratio = combined_ratio(*task_, *attempt->record.promotion)->ratio;
        if (ratio > best) {
            winner = attempt.get();
            best = ratio;
        }
    }
    if (winner == nullptr) return;
    for (const auto& attempt : batch) {
        if (attempt.get() != winner && attempt->promoted) {
            attempt->record.message += ", but another of its round is faster";
        }
    }
    winner->record.leader = true;
    leader_ = winner->record.id;
    known_.at(leader_).record.leader = true;
    leader_build_.reset();
    if (winner->promoted) leader_build_ = std::move(winner->built.compiled);
    write_best();
    emit(ForgeEvent::Kind::leader, winner, winner->record.message);
}

void ForgeRun::finish(const Attempt& attempt) {
    if (!attempt.replayed) archive_->append_node(attempt.record);
    ++expansions_told_;
    const auto has_evaluation = [](const NodeRecord& record) {
        return record.evaluation.has_value();
    };
    const bool evaluated =
        has_evaluation(attempt.record) ||
        std::any_of(attempt.earlier.begin(), attempt.earlier.end(), has_evaluation);
    fruitless_ = evaluated || attempt.replayed ? 0 : fruitless_ + 1;
    const NodeSummary summary = summary_of(attempt);
    if (!summary.leader) {
        lessons_.push_back(best_end(attempt));
        if (lessons_.size() > max_kept_lessons) lessons_.erase(lessons_.begin());
    }
    parts_.strategy->tell(summary);
}

// ---- ending ----

void ForgeRun::end(StopReason reason, std::string message) {
    if (!ended_) ended_.emplace(reason, std::move(message));
}

/// Nothing moves and no job runs: something outside must happen first.
void ForgeRun::end_waiting() {
    const auto count = [&](Stage stage) {
        return static_cast<std::size_t>(
            std::count_if(attempts_.begin(), attempts_.end(),
                          [&](const auto& attempt) { return attempt->stage == stage; }));
    };
    const auto completions = count(Stage::waiting_reply);
    const auto evaluations = count(Stage::waiting_evaluation);
    if (completions > 0) {
        end(StopReason::waiting_for_completions,
            fmt::format("waiting for {}; answer {}, then run again",
                        counted(completions, "completion"), completions == 1 ? "it" : "them"));
    } else if (evaluations > 0) {
        end_waiting_for_evaluations(evaluations);
    } else {
        end(StopReason::budget,
            spent().value_or(fmt::format("{} evaluations are used", evaluations_)));
    }
}

void ForgeRun::end_waiting_for_evaluations(std::size_t count) {
    end(StopReason::waiting_for_evaluations,
        fmt::format("waiting for {}; run again once a worker has served {}",
                    counted(count, "evaluation"), count == 1 ? "it" : "them"));
}

/// Jobs that were under way when the run ended may still have brought a completion.
void ForgeRun::save_late_replies() {
    for (const auto& attempt : attempts_) {
        if (attempt->stage != Stage::requesting || !attempt->reply_job->value) continue;
        const ChatReply& reply = *attempt->reply_job->value;
        if (reply.status == ChatStatus::pending) continue;
        archive_->append_reply({{attempt->ordinal, attempt->turn}, reply, elapsed()});
    }
}

/// Lets what the last call of `run` left go on.
void ForgeRun::unblock() {
    for (const auto& attempt : attempts_) {
        switch (attempt->stage) {
            case Stage::requesting:
            case Stage::waiting_reply:
                attempt->stage = Stage::wants_reply;
                break;
            case Stage::building:
                attempt->stage = Stage::replied;
                break;
            case Stage::waiting_evaluation:
                attempt->stage = Stage::ready;
                break;
            case Stage::over_budget:
                attempt->stage = attempt->record.candidate ? Stage::ready : Stage::wants_reply;
                break;
            default:
                break;
        }
        attempt->reply_job.reset();
        attempt->build_job.reset();
    }
}

void ForgeRun::emit(ForgeEvent::Kind kind, const Attempt* attempt, std::string message) const {
    if (!parts_.on_event) return;
    ForgeEvent event;
    event.kind = kind;
    event.message = std::move(message);
    if (attempt != nullptr) {
        event.expansion = attempt->ordinal;
        event.node = attempt->record.id;
        event.status = attempt->record.status;
        event.speedup = attempt->record.speedup;
    }
    parts_.on_event(event);
}

void ForgeRun::count_usage(const Usage& usage) {
    // What cannot be a count counts as not said: it must not give back what was spent.
    const auto add = [](auto& sum, const auto& more) {
        if (more && *more >= 0) sum = saturating_sum(sum.value_or(0), *more);
    };
    add(usage_.input_tokens, usage.input_tokens);
    add(usage_.cached_input_tokens, usage.cached_input_tokens);
    add(usage_.output_tokens, usage.output_tokens);
    add(usage_.cost_usd, usage.cost_usd);
}

std::chrono::duration<double> ForgeRun::elapsed() const {
    return elapsed_before_ + (std::chrono::steady_clock::now() - started_);
}

}  // namespace kernelforge
