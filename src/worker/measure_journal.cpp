// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "referee/comparison.hpp"

namespace kernelforge::worker {

namespace {

constexpr std::size_t most_bytes = std::size_t{256} << 20;
constexpr std::size_t most_sample_bytes = std::size_t{1} << 20;  ///< of one call
/// What is copied whole is copied of at least so many calls, whatever it takes.
constexpr std::size_t least_copies = 4;
constexpr int least_calls = 2;
constexpr std::size_t alignment = 256;
constexpr std::uint64_t not_recorded = ~std::uint64_t{0};

std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

void keep_failures(std::vector<OutputError>& kept, std::size_t output, const OutputError& error) {
    // What passes says no more than the checks did, and by coarser numbers.
    if (!error.ok) referee::keep_worse(kept[output], error);
}

}  // namespace

Journal::Journal(Device& device, Bench& bench, std::uint64_t secret, int calls)
    : device_(device), bench_(bench) {
    constexpr auto most_calls =
        static_cast<int>(Device::host_page_bytes / sizeof(referee::DigestVerdict));
    calls_ = std::clamp(calls, least_calls, most_calls);
    plan_digests(secret);
    sets_.assign(static_cast<std::size_t>(calls_), not_recorded);
    plan_copies(secret);
}

void Journal::plan_digests(std::uint64_t secret) {
    std::size_t slot_bytes = 0;
    const auto add_up = [&](std::size_t sample_bytes) {
        digests_.clear();
        slot_bytes = 0;
        for (std::size_t i = 0; i < bench_.outputs().size(); ++i) {
            const Bench::Output& output = bench_.outputs()[i];
            if (!referee::has_digest(output.compare)) continue;
            Digest digest{
                i, referee::digest_parameters(output.compare, output.spec->dtype, output.shape,
                                              static_cast<std::uint32_t>(i), sample_bytes)};
            digest.parameters.slot_bytes = referee::digest_slot_bytes(digest.parameters);
            digest.parameters.seed = secret;
            slot_bytes += digest.parameters.slot_bytes;
            digests_.push_back(digest);
        }
    };
    add_up(0);
    if (digests_.empty()) return;
    // One slot for the reference, one for calls that are not judged.
    constexpr std::size_t others = 2;
    const auto affordable =
        static_cast<int>(std::min<std::size_t>(most_bytes / slot_bytes, 1 << 20));
    calls_ = std::clamp(affordable - static_cast<int>(others), least_calls, calls_);
    const std::size_t slots = static_cast<std::size_t>(calls_) + others;
    const std::size_t left = most_bytes / slots - std::min(most_bytes / slots, slot_bytes);
    add_up(std::min(left, most_sample_bytes) / digests_.size());
    slots_ = device_.pool().acquire(slot_bytes * slots);
    verdicts_ =
        device_.pool().acquire(sizeof(referee::DigestVerdict) * static_cast<std::size_t>(calls_));
    CUdeviceptr next = slots_.region().base();
    for (Digest& digest : digests_) {
        digest.parameters.slots = next;
        digest.parameters.verdicts = verdicts_.region().base();
        digest.parameters.calls = static_cast<referee::u64>(calls_);
        digest.parameters.reference = static_cast<referee::u64>(calls_);
        next += digest.parameters.slot_bytes * slots;
    }
}

void Journal::plan_copies(std::uint64_t secret) {
    if (digests_.size() == bench_.outputs().size()) return;
    std::size_t bytes = 0;
    for (const Bench::Output& output : bench_.outputs()) bytes += aligned(output.bytes);
    bytes = std::max(bytes, alignment);
    std::vector<int> calls(static_cast<std::size_t>(calls_));
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i] = static_cast<int>(i);
    std::shuffle(calls.begin(), calls.end(), std::mt19937_64(secret));
    const std::size_t count = std::min(calls.size(), std::max(most_bytes / bytes, least_copies));
    calls.resize(count);
    calls.push_back(calls_);  // the scratch copy
    copied_ = device_.pool().acquire(bytes * calls.size());
    CUdeviceptr next = copied_.region().base();
    for (const int call : calls) {
        Copy& copy = copies_.emplace_back();
        copy.call = call;
        for (const Bench::Output& output : bench_.outputs()) {
            copy.addresses.push_back(next);
            next += aligned(output.bytes);
        }
    }
}

void Journal::record(int call, std::uint64_t set, const OutputSet& outputs) {
    if (call < 0 || call >= calls_) {
        throw Error(ErrorCode::internal,
                    fmt::format("timed call {} of {} has no place to be kept", call, calls_));
    }
    const auto slot = static_cast<std::uint64_t>(call);
    sets_[slot] = set;
    enqueue(slot, set, outputs);
    if (copies_.empty()) return;
    const auto chosen = std::find_if(copies_.begin(), copies_.end() - 1,
                                     [&](const Copy& copy) { return copy.call == call; });
    chosen->set = set;
    chosen->written = true;
    enqueue_copy(*chosen, outputs);
}

void Journal::record_unjudged(const OutputSet& outputs) {
    enqueue(static_cast<std::uint64_t>(calls_) + 1, not_recorded, outputs);
    if (!copies_.empty()) enqueue_copy(copies_.back(), outputs);
}

void Journal::enqueue(std::uint64_t slot, std::uint64_t set, const OutputSet& outputs) {
    for (Digest& digest : digests_) {
        referee::DigestParameters& parameters = digest.parameters;
        parameters.data = outputs.addresses[digest.output];
        parameters.call = slot;
        parameters.set = set;
        device_.launch("kf_digest_tiles",
                       referee::digest_shape(parameters, device_.info().multiprocessors),
                       &parameters);
        if (parameters.samples == 0) continue;
        device_.launch("kf_digest_sample", referee::digest_sample_shape(parameters), &parameters);
    }
}

void Journal::enqueue_copy(Copy& copy, const OutputSet& outputs) {
    for (std::size_t i = 0; i < copy.addresses.size(); ++i) {
        const std::size_t bytes = bench_.outputs()[i].bytes;
        if (bytes == 0) continue;
        device_.driver().check(
            device_.driver().cuMemcpyDtoDAsync(copy.addresses[i], outputs.addresses[i], bytes,
                                               device_.stream()),
            "copying an output of a timed call");
    }
}

bool Journal::has(std::uint64_t set) const {
    return std::find(sets_.begin(), sets_.end(), set) != sets_.end();
}

void Journal::judge(std::uint64_t set, const ReferenceCall& reference, const std::string& name,
                    std::vector<OutputError>& kept, Clock::time_point deadline) {
    for (Digest& digest : digests_) {
        digest.parameters.data = reference.outputs.addresses[digest.output];
        judge_digests(digest, set, name, kept, deadline);
    }
    for (std::size_t i = 0; i + 1 < copies_.size(); ++i) {
        const Copy& copy = copies_[i];
        if (!copy.written || copy.set != set) continue;
        OutputSet found;
        found.addresses = copy.addresses;
        std::vector<OutputError> errors;
        bench_.compare(found, reference, describe(static_cast<std::size_t>(copy.call), name),
                       errors, deadline);
        for (std::size_t output = 0; output < errors.size(); ++output) {
            keep_failures(kept, output, errors[output]);
        }
    }
}

void Journal::judge_digests(Digest& digest, std::uint64_t set, const std::string& name,
                            std::vector<OutputError>& kept, Clock::time_point deadline) {
    referee::DigestParameters& parameters = digest.parameters;
    const Driver& driver = device_.driver();
    const std::size_t bytes = sizeof(referee::DigestVerdict) * sets_.size();
    driver.check(driver.cuMemsetD8Async(parameters.verdicts, 0, bytes, device_.stream()),
                 "clearing verdicts on timed calls");
    parameters.call = parameters.reference;
    parameters.set = set;
    device_.launch("kf_digest_tiles",
                   referee::digest_shape(parameters, device_.info().multiprocessors), &parameters);
    device_.launch("kf_digest_judge", referee::digest_judge_shape(parameters), &parameters);
    driver.check(
        driver.cuMemcpyDtoHAsync(device_.host_page(), parameters.verdicts, bytes, device_.stream()),
        "reading verdicts on timed calls");
    device_.wait(deadline);
    const Bench::Output& output = bench_.outputs()[digest.output];
    for (std::size_t call = 0; call < sets_.size(); ++call) {
        if (sets_[call] != set) continue;
        referee::DigestVerdict verdict;
        std::memcpy(&verdict, device_.host_page() + call * sizeof(verdict), sizeof(verdict));
        keep_failures(kept, digest.output,
                      referee::judge_digest(output.spec->name, output.compare, parameters, verdict,
                                            describe(call, name)));
    }
}

std::string Journal::describe(std::size_t call, const std::string& name) const {
    return fmt::format("timed call {}, {}", call + 1, name);
}

}  // namespace kernelforge::worker
