// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "forge_diagnosis.hpp"
#include "forge_run.hpp"
#include "guards.hpp"
#include "hidden_shapes.hpp"
#include "prompt.hpp"

// One turn of one expansion: prompt, reply, guards, compilation, judgement.

namespace kernelforge {
namespace {

using Stage = Attempt::Stage;

/// Whether the emulator's checker refused it, in the screen or in the promotion.
bool was_found_by_emulator(const NodeRecord& record) {
    const auto found = [](const std::optional<Evaluation>& evaluation) {
        return evaluation && evaluation->rule == "emulator_checker";
    };
    return found(record.evaluation) || found(record.promotion);
}

/// What another turn may put right: it is about the candidate, and the digest says where.
bool is_repairable(const NodeRecord& record) {
    if (record.outcome != ExpansionOutcome::evaluated) return false;
    switch (record.status) {
        case EvaluationStatus::compile_error:
        case EvaluationStatus::plan_error:
        case EvaluationStatus::launch_error:
        case EvaluationStatus::crashed:
        case EvaluationStatus::wrong_result:
            return true;
        case EvaluationStatus::rejected:
            // A tool said where; a refused time says nothing that could be repaired.
            return (record.promotion && record.promotion->rule.starts_with("compute-sanitizer")) ||
                   was_found_by_emulator(record);
        default:
            return false;
    }
}

NodeRecord fresh_record(const Attempt& attempt) {
    NodeRecord record;
    record.parent = attempt.expansion.parent;
    // A repair turn's parent is the turn before, which has a node when it held a candidate.
    if (!attempt.earlier.empty() && !attempt.earlier.back().id.empty()) {
        record.parent = attempt.earlier.back().id;
    }
    record.expansion = attempt.ordinal;
    record.action = attempt.turn == 0 ? attempt.expansion.action : ExpansionAction::repair;
    record.turn = attempt.turn;
    return record;
}

std::string message_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        return e.what();
    }
}

std::optional<ErrorCode> code_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const Error& e) {
        return e.code();
    } catch (...) {
        return std::nullopt;
    }
}

}  // namespace

// ---- the prompt and the reply ----

std::vector<ChatMessage> ForgeRun::prompt_for(const Expansion& expansion) const {
    const auto find = [&](const NodeId& id) -> const NodeRecord* {
        const auto found = known_.find(id);
        return found == known_.end() ? nullptr : &found->second.record;
    };
    const std::vector<WorkloadSummary> workloads = summaries();
    PromptInput input{
        *task_, device_, options_.guide, options_.feedback, workloads, expansion, nullptr, {}, {}};
    if (!expansion.parent.empty()) {
        input.parent = find(expansion.parent);
        if (input.parent == nullptr) {
            throw Error(
                ErrorCode::invalid_argument,
                fmt::format("search strategy: expansion {}: expected a parent that was evaluated, "
                            "found {}",
                            expansion.id, expansion.parent.value));
        }
    }
    for (const NodeId& id : expansion.inspirations) {
        if (const NodeRecord* node = find(id)) input.inspirations.push_back(node);
    }
    for (const NodeRecord& attempt : lessons_) input.attempts.push_back(&attempt);
    return first_messages(input);
}

bool ForgeRun::request(Attempt& attempt) {
    const CompletionKey key{attempt.ordinal, attempt.turn};
    const ChatReply* archived = archive_->find_reply(key);
    if (const auto node = recorded_nodes_.find(key); node != recorded_nodes_.end()) {
        if (archived != nullptr) {
            attempt.reply = archived->content;
            count_usage(archived->usage);
        }
        check_archived(node->second, fmt::format("expansion {}", key.expansion));
        attempt.record = node->second;
        attempt.replayed = true;
        attempt.stage = Stage::ready;
        return true;
    }
    if (archived != nullptr) {
        read_reply(attempt, ChatReply(*archived));
        return true;
    }
    if (spent()) {
        attempt.stage = Stage::over_budget;
        return true;
    }
    if (jobs_->full()) return false;
    ChatRequest chat;
    chat.key = key;
    chat.messages = attempt.messages;
    chat.max_output_tokens = options_.max_output_tokens;
    attempt.reply_job =
        jobs_->start<ChatReply>([&llm = *parts_.llm, chat = std::move(chat)](std::stop_token stop) {
            return llm.complete(chat, stop);
        });
    attempt.stage = Stage::requesting;
    emit(ForgeEvent::Kind::prompted, &attempt,
         fmt::format("expansion {}, turn {}: {}", key.expansion, key.turn,
                     to_string(attempt.expansion.action)));
    return true;
}

void ForgeRun::take_reply(Attempt& attempt) {
    const auto job = std::move(attempt.reply_job);
    attempt.reply_job.reset();
    if (job->error) {
        const std::string message = message_of(job->error);
        const std::optional<ErrorCode> code = code_of(job->error);
        attempt.stage = Stage::wants_reply;
        if (code == ErrorCode::cancelled && stop_.stop_requested()) return;
        // A failed call is the expansion's own, and so is a repair that nobody recorded. What else
        // is missing (a secret, a recording) would fail every call.
        const bool unrecorded_repair = code == ErrorCode::not_found && attempt.turn > 0;
        const bool failed_call = code == ErrorCode::backend_failed && ++backend_failures_ < 3;
        if (!unrecorded_repair && !failed_call) {
            return end(StopReason::backend_failed, "the model could not be asked: " + message);
        }
        attempt.record = fresh_record(attempt);
        return end_turn(attempt, ExpansionOutcome::failed, EvaluationStatus::ok, message);
    }
    const ChatReply reply = job->take();
    backend_failures_ = 0;
    if (reply.status == ChatStatus::pending) {
        attempt.stage = Stage::waiting_reply;
        return;
    }
    archive_->append_reply({{attempt.ordinal, attempt.turn}, reply, elapsed()});
    emit(ForgeEvent::Kind::replied, &attempt, fmt::format("{} bytes", reply.content.size()));
    read_reply(attempt, reply);
}

void ForgeRun::read_reply(Attempt& attempt, const ChatReply& reply) {
    count_usage(reply.usage);
    attempt.reply = reply.content;
    attempt.record = fresh_record(attempt);
    attempt.stage = Stage::replied;
    if (reply.status == ChatStatus::refused) {
        end_turn(attempt, ExpansionOutcome::no_candidate, EvaluationStatus::ok,
                 reply.message.empty() ? "the model declined" : reply.message);
    }
}

// ---- guards and compilation ----

bool ForgeRun::build(Attempt& attempt) {
    if (jobs_->full()) return false;
    ModelReply parsed = parse_reply(attempt.reply, task_->definition);
    NodeRecord& record = attempt.record;
    record.plan = std::move(parsed.plan);
    record.change_class = std::move(parsed.change_class);
    record.expect = std::move(parsed.expect);
    record.lesson_of_parent = std::move(parsed.lesson_of_parent);
    if (!parsed.code) {
        end_turn(attempt, ExpansionOutcome::no_candidate, EvaluationStatus::ok, parsed.why_no_code);
        return true;
    }
    record.candidate = Candidate{std::move(*parsed.code), {}};
    record.id = node_id(*record.candidate);
    if (const auto refusal =
            guard_source(record.candidate->source, task_->policy, options_.max_source_bytes)) {
        end_turn(attempt, ExpansionOutcome::guarded, EvaluationStatus::rejected,
                 refusal->rule + ": " + refusal->message);
        return true;
    }
    attempt.build_job =
        jobs_->start<Built>([this, candidate = *record.candidate](std::stop_token stop) {
            return build_candidate(*parts_.compiler, *task_, candidate, "candidate.cu", workloads_,
                                   device_, build_limits(), stop);
        });
    attempt.stage = Stage::building;
    return true;
}

void ForgeRun::take_build(Attempt& attempt) {
    const auto job = std::move(attempt.build_job);
    attempt.build_job.reset();
    attempt.stage = Stage::replied;
    attempt.built = job->take();
    const Built& built = attempt.built;
    if (built.status == EvaluationStatus::cancelled) {
        if (stop_.stop_requested()) return;
        throw Error(ErrorCode::worker_failed, "compiler: cancelled although no stop was requested");
    }
    NodeRecord& record = attempt.record;
    if (!built.compiled.builds.empty()) {
        const CompileResult* failed = failed_build(built.compiled);
        record.compile = summarise(failed != nullptr ? *failed : built.compiled.builds.front());
    }
    attempt.stage = Stage::ready;
    emit(ForgeEvent::Kind::compiled, &attempt, built.ok() ? "compiled" : built.message);
    if (!built.ok()) {
        return end_turn(attempt, ExpansionOutcome::evaluated, built.status, built.message);
    }
    if (plan::has_calls(*built.plan) && !task_->policy.library_calls) {
        return end_turn(attempt, ExpansionOutcome::guarded, EvaluationStatus::rejected,
                        "policy: the task does not allow //@call steps");
    }
    for (const CompileResult& result : built.compiled.builds) {
        if (const auto refusal = guard_build(result, task_->policy, options_.max_spill_bytes)) {
            return end_turn(attempt, ExpansionOutcome::guarded, EvaluationStatus::rejected,
                            refusal->rule + ": " + refusal->message);
        }
    }
}

// ---- judgement ----

void ForgeRun::judge(Attempt& attempt) {
    if (attempt.replayed) return settle(attempt);
    if (is_duplicate(attempt)) return;
    if (options_.budget.evaluations && evaluations_ >= *options_.budget.evaluations) {
        attempt.stage = Stage::over_budget;
        return;
    }
    NodeRecord& record = attempt.record;
    const CompiledCandidate* opponent = leader_build();
    if (opponent == nullptr) return;
    EvaluationRequest request = request_for(attempt.built.compiled, EvaluationDepth::screen);
    request.opponent = *opponent;
    if (!screen(attempt, request)) return;
    std::string message = record.evaluation->message;
    if (worth_promoting(*task_, *record.evaluation)) {
        if (!promote_candidate(attempt, request)) return;
        message = record.message;
    }
    EvaluationStatus status = record.evaluation->status;
    if (status == EvaluationStatus::ok) {
        // More inputs are tried in a promotion, so it may show what the screen did not.
        if (record.promotion) status = record.promotion->status;
        const Evaluation& timed = record.promotion ? *record.promotion : *record.evaluation;
        if (status == EvaluationStatus::ok) {
            record.speedup = speedup_over(*task_, baseline_times_, timed);
            record.diagnosis = diagnose_candidate(attempt.built, timed);
        }
    }
    if (message.empty() && status == EvaluationStatus::ok)
        message = "right, but not faster than the leader";
    end_turn(attempt, ExpansionOutcome::evaluated, status, message);
}

bool ForgeRun::is_duplicate(Attempt& attempt) {
    const auto by_text = known_sources_.find(normalised_source(attempt.record.candidate->source));
    const Known* twin = by_text == known_sources_.end() ? nullptr : &known_.at(by_text->second);
    std::string what = "the same text";
    if (twin == nullptr) {
        attempt.identity = build_identity(attempt.built.compiled);
        what = "the same machine code";
        for (auto& [id, known] : known_) {
            find_identity(known);
            if (known.identity == attempt.identity) twin = &known;
        }
    }
    if (twin == nullptr) return false;
    // The record names the twin; its own text is in the reply.
    attempt.record.id = twin->record.id;
    attempt.record.candidate.reset();
    end_turn(attempt, ExpansionOutcome::duplicate, twin->record.status,
             fmt::format("{} as candidate {}", what, twin->record.id.value.substr(0, 12)));
    return true;
}

/// Hidden shapes are drawn when a request is made, so that each has its own.
AddHidden ForgeRun::hidden_adder() {
    return [this](EvaluationRequest& request) {
        return add_hidden_shapes(*parts_.compiler, device_, build_limits(), request, stop_);
    };
}

/// False: not now.
bool ForgeRun::screen(Attempt& attempt, const EvaluationRequest& request) {
    EvaluationRequest own = request;
    std::optional<Evaluation> unbuilt = hidden_adder()(own);
    const Evaluation evaluation = unbuilt ? std::move(*unbuilt) : evaluate(own);
    if (evaluation.status == EvaluationStatus::pending) {
        attempt.stage = Stage::waiting_evaluation;
        // One visit of the device should be enough: what the screen may ask for is queued with it.
        (void)promote(*parts_.evaluator, request, hidden_adder(), stop_, times_of(device_));
        return false;
    }
    if (evaluation.status == EvaluationStatus::cancelled) return false;
    if (evaluation.status == EvaluationStatus::evaluator_failed &&
        evaluator_failed(attempt, evaluation.message)) {
        return false;
    }
    attempt.record.evaluation = evaluation;
    return true;
}

/// False: not now.
bool ForgeRun::promote_candidate(Attempt& attempt, const EvaluationRequest& request) {
    const Promotion promotion =
        promote(*parts_.evaluator, request, hidden_adder(), stop_, times_of(device_));
    for (const std::string& warning : promotion.warnings) warn_once(warning);
    if (promotion.pending) {
        attempt.stage = Stage::waiting_evaluation;
        return false;
    }
    const EvaluationStatus status = promotion.evaluation.status;
    count_failure(status);
    if (status == EvaluationStatus::cancelled) return false;
    attempt.record.message = promotion.message;
    if (status == EvaluationStatus::evaluator_failed) {
        // Given up on: what the screen showed still holds.
        return !evaluator_failed(attempt, promotion.evaluation.message);
    }
    attempt.record.promotion = promotion.evaluation;
    attempt.promoted = promotion.promoted;
    return true;
}

/// Whether the candidate is to be judged again, now or in a later run.
bool ForgeRun::evaluator_failed(Attempt& attempt, const std::string& message) {
    if (evaluator_failures_ >= 3) {
        end(StopReason::evaluator_failed, "the evaluator failed three times in a row: " + message);
        return true;
    }
    return !std::exchange(attempt.retried, true);
}

Diagnosis ForgeRun::diagnose_candidate(const Built& built, const Evaluation& evaluation) {
    ProfileData data;
    if (!parts_.tools.empty() && options_.feedback != Feedback::none) {
        CollectRequest request;
        request.task = task_;
        request.workloads = workloads_to_diagnose(*task_, evaluation, device_.roofs);
        request.candidate = built.compiled;
        request.data = union_of_needs(parts_.tools);
        request.device = options_.device;
        request.time_limit = options_.evaluation_time_limit;
        request.id = "profile-" + node_id(built.compiled.candidate).value.substr(0, 16);
        try {
            data = parts_.evaluator->collect(request, stop_);
        } catch (const Error& error) {
            data.missing.push_back({"profile", error.what()});
        }
    }
    Diagnosis diagnosis = diagnose(*task_, device_, built, evaluation, parts_.tools, data);
    if (options_.feedback == Feedback::raw) {
        for (Finding& finding : raw_findings(data))
            diagnosis.findings.push_back(std::move(finding));
    }
    return diagnosis;
}

// ---- the end of a turn ----

void ForgeRun::end_turn(Attempt& attempt, ExpansionOutcome outcome, EvaluationStatus status,
                        std::string message) {
    NodeRecord& record = attempt.record;
    record.outcome = outcome;
    record.status = status;
    record.message = std::move(message);
    record.elapsed = elapsed();
    record.final = !is_repairable(record) ||
                   attempt.turn >= static_cast<std::uint32_t>(std::max(0, options_.max_repairs));
    const bool refused = outcome != ExpansionOutcome::evaluated;
    emit(refused ? ForgeEvent::Kind::refused : ForgeEvent::Kind::evaluated, &attempt,
         record.message);
    settle(attempt);
}

void ForgeRun::settle(Attempt& attempt) {
    NodeRecord& record = attempt.record;
    if (record.evaluation) {
        ++evaluations_;
        Known known;
        known.record = record;
        if (!attempt.replayed) known.identity = attempt.identity;
        known_sources_.emplace(normalised_source(record.candidate->source), record.id);
        known_.emplace(record.id, std::move(known));
    }
    if (!attempt.promoted) attempt.built = {};
    if (record.final) {
        attempt.stage =
            Stage::done;  // archived when it is told, because only then the leader is known
        return;
    }
    if (!attempt.replayed) archive_->append_node(record);
    attempt.stage = Stage::wants_repair;
}

void ForgeRun::next_turn(Attempt& attempt) {
    attempt.messages.push_back({ChatRole::assistant, attempt.reply, {}, {}});
    attempt.messages.push_back({ChatRole::user, repair_text(*task_, attempt.record), {}, {}});
    attempt.earlier.push_back(std::move(attempt.record));
    attempt.record = {};
    ++attempt.turn;
    attempt.identity.clear();
    attempt.replayed = false;
    attempt.retried = false;
    attempt.stage = Stage::wants_reply;
}

// ---- calls of the evaluator and the compiler ----

EvaluationRequest ForgeRun::request_for(const CompiledCandidate& candidate,
                                        EvaluationDepth depth) const {
    EvaluationRequest request;
    request.task = task_;
    request.workloads = workloads_;
    request.candidate = candidate;
    request.reference = reference_;
    request.depth = depth;
    request.seed = options_.seed;
    request.device = options_.device;
    request.time_limit = options_.evaluation_time_limit;
    return request;
}

Evaluation ForgeRun::evaluate(const EvaluationRequest& request) {
    const std::string prefix(to_string(request.depth));
    Evaluation evaluation = evaluate_as_status(*parts_.evaluator, request, prefix, stop_);
    count_failure(evaluation.status);
    return evaluation;
}

/// A tool that is missing is missing for every candidate: said once.
void ForgeRun::warn_once(const std::string& warning) {
    if (!warned_.insert(warning).second) return;
    if (parts_.log) parts_.log(LogLevel::warning, warning);
    emit(ForgeEvent::Kind::warning, nullptr, warning);
}

void ForgeRun::count_failure(EvaluationStatus status) {
    if (status == EvaluationStatus::evaluator_failed) {
        ++evaluator_failures_;
    } else if (status != EvaluationStatus::cancelled && status != EvaluationStatus::pending) {
        evaluator_failures_ = 0;
    }
}

/// A candidate that was read from the archive is compiled when its machine code is needed.
Built ForgeRun::compile_again(const Candidate& candidate) {
    return build_candidate(*parts_.compiler, *task_, candidate, "candidate.cu", workloads_, device_,
                           build_limits(), stop_);
}

void ForgeRun::find_identity(Known& known) {
    if (!known.identity.empty()) return;
    const Built built = compile_again(*known.record.candidate);
    if (built.ok()) known.identity = build_identity(built.compiled);
}

/// Null when a stop came first.
const CompiledCandidate* ForgeRun::leader_build() {
    if (leader_build_) return &*leader_build_;
    Built built = compile_again(*known_.at(leader_).record.candidate);
    if (built.status == EvaluationStatus::cancelled && stop_.stop_requested()) return nullptr;
    if (!built.ok()) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("leader {}: it compiled before and does not any more: {}",
                                leader_.value, built.message));
    }
    leader_build_ = std::move(built.compiled);
    return &*leader_build_;
}

BuildLimits ForgeRun::build_limits() const {
    BuildLimits limits;
    limits.time = options_.compile_time_limit;
    return limits;
}

}  // namespace kernelforge
