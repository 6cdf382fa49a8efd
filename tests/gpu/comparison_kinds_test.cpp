// SPDX-License-Identifier: Apache-2.0
#include "rig.hpp"

// Every kind of comparison through the whole evaluator: a right candidate that differs from the
// reference in all that its kinds allow, and one cheat or mistake a case that each kind refuses.

namespace {

using namespace kernelforge;
using namespace kernelforge::test;

/// Common to both sides: the rows and the gathered pages.
constexpr const char* kernels = R"(
__device__ float u_of(const float* h) {
    unsigned bits = 12345u;
    for (int j = 0; j < 64; ++j) {
        bits = (bits ^ __float_as_uint(h[j])) * 2654435761u;
        bits ^= bits >> 15;
    }
    return (bits >> 8) * (1.0f / 16777216.0f);
}

extern "C" __global__ void decide(const float* h_all, const float* x, long long* i_all, float* w_all,
                                  float* l, int* s, float* c, unsigned char* near_all, float* p_all,
                                  long long rows) {
    const long long row = blockIdx.x * 128LL + threadIdx.x;
    if (row >= rows) return;
    const float* h = h_all + row * 64;
    unsigned long long taken = 0;
    int chosen[4];
    for (int k = 0; k < 4; ++k) {
        int best = -1;
        for (int j = 0; j < 64; ++j) {
            if ((taken >> j & 1) == 0 && (best < 0 || h[j] > h[best])) best = j;
        }
        taken |= 1ULL << best;
        chosen[k] = best;
    }
    const float highest = h[chosen[0]];
    float total = 0.0f;
    for (int j = 0; j < 64; ++j) total += expf(h[j] - highest);
    int sample = chosen[0];
    const float goal = u_of(h) * total;
    float sum = 0.0f;
    for (int j = 0; j < 64; ++j) {
        const float p = expf(h[j] - highest);
        sum += p;
        if (p > 0.0f && sum > goal) {
            sample = j;
            break;
        }
    }
    for (int k = 0; k < 4; ++k) {
        const int at = BACKWARDS ? 3 - k : k;
        i_all[row * 4 + k] = chosen[at];
        w_all[row * 4 + k] = h[chosen[MISMATCHED ? k : at]];
    }
    if (REPEATED) i_all[row * 4 + 3] = i_all[row * 4];
    l[row] = logf(total) + highest + LSE_ERROR;
    s[row] = GREEDY ? chosen[0] : IMPOSSIBLE && row == 100 ? 64 : sample;
    c[row] = SIGN * x[row];
#if REFERENCE
    for (int j = 0; j < 64; ++j) {
        near_all[row * 64 + j] = h[j] == h[chosen[3]];
        p_all[row * 64 + j] = expf(h[j] - highest);
    }
#endif
}

extern "C" __global__ void gather(const float* kv, const int* table, const int* indptr, float* o,
                                  long long tokens, long long room, long long pages) {
    const long long t = blockIdx.x;
    if (t >= tokens) {
        if (!REFERENCE) o[t * 96 + threadIdx.x] = 1e30f;
        return;
    }
    const long long page = STRAY && t == 700 ? (table[t] + 1) % pages : table[t];
    const bool skipped = SKIPPED && t < indptr[1];
    o[t * 96 + threadIdx.x] = skipped ? 0.0f : kv[page * 96 + threadIdx.x];
}
)";

constexpr const char* switches[] = {"BACKWARDS",  "MISMATCHED", "REPEATED", "GREEDY",
                                    "IMPOSSIBLE", "STRAY",      "SKIPPED"};

/// Source of a side. `on` are the switches that differ from the reference, "NAME VALUE" or "NAME".
std::string source(bool reference, const std::vector<std::string>& on = {}) {
    std::string text = "//@kernelforge 1\n";
    if (reference) text += "//@workspace near u8 [rows, 64]\n//@workspace p f32 [rows, 64]\n";
    const std::string spaces = reference ? "near, p" : "spare, spare2";
    if (!reference) text += "//@workspace spare u8 [1]\n//@workspace spare2 f32 [1]\n";
    text += "//@launch decide<<<(cdiv(rows, 128)), (128)>>>(h, x, i, w, l, s, c, " + spaces +
            ", rows:i64)\n";
    text +=
        "//@launch gather<<<(room), (96)>>>(kv, table, indptr, o, tokens:i64, room:i64, "
        "pages:i64)\n";
    text += std::string("#define REFERENCE ") + (reference ? "1\n" : "0\n");
    for (const char* name : switches) {
        const bool set = std::find(on.begin(), on.end(), name) != on.end();
        text += std::string("#define ") + name + (set ? " 1\n" : " 0\n");
    }
    const auto value = [&](const std::string& name, const std::string& otherwise) {
        std::string found = otherwise;
        for (const std::string& entry : on) {
            if (entry.starts_with(name + " ")) found = entry.substr(name.size() + 1);
        }
        text += "#define " + name + " " + found + "\n";
    };
    value("LSE_ERROR", "0.0f");
    value("SIGN", "1.0f");
    return text + kernels;
}

std::shared_ptr<Task> decide_task() {
    auto task = std::make_shared<Task>();
    Definition& d = task->definition;
    d.name = "decide";
    for (const char* name : {"rows", "tokens", "pages", "starts"}) {
        d.axes.push_back({name, Axis::Kind::variable, 0, "", ""});
    }
    d.axes.push_back({"room", Axis::Kind::expression, 0, "tokens + 7", ""});
    d.axes.push_back({"items", Axis::Kind::constant, 64, "", ""});
    d.axes.push_back({"choices", Axis::Kind::constant, 4, "", ""});
    d.axes.push_back({"width", Axis::Kind::constant, 96, "", ""});
    d.inputs = {{"h", {"rows", "items"}, false, DType::float32, ""},
                {"x", {"rows"}, false, DType::float32, ""},
                {"kv", {"pages", "width"}, false, DType::float32, ""},
                {"table", {"tokens"}, false, DType::int32, ""},
                {"indptr", {"starts"}, false, DType::int32, ""}};
    d.outputs = {{"i", {"rows", "choices"}, false, DType::int64, ""},
                 {"w", {"rows", "choices"}, false, DType::float32, ""},
                 {"l", {"rows"}, false, DType::float32, ""},
                 {"s", {"rows"}, false, DType::int32, ""},
                 {"c", {"rows"}, false, DType::float32, ""},
                 {"o", {"room", "width"}, false, DType::float32, ""}};
    task->init["kv"].used_by = "table";
    task->init["table"].kind = InitSpec::Kind::distinct;
    task->init["table"].bound = "pages";
    task->init["indptr"].kind = InitSpec::Kind::offsets;
    task->init["indptr"].bound = "tokens";
    task->compare["i"] = {.kind = CompareSpec::Kind::set, .ties = "near"};
    task->compare["w"] = {.kind = CompareSpec::Kind::by_index, .index = "i"};
    task->compare["l"] = {.kind = CompareSpec::Kind::lse};
    task->compare["s"] = {.kind = CompareSpec::Kind::samples, .probabilities = "p"};
    task->compare["c"] = {.kind = CompareSpec::Kind::custom, .custom = "up_to_sign"};
    task->compare["o"] = {.kind = CompareSpec::Kind::ragged, .offsets = "indptr"};
    task->reference_cuda = source(true);
    Workload workload;
    workload.uuid = "one";
    workload.axes = {{"rows", 512}, {"tokens", 5000}, {"pages", 7000}, {"starts", 17}};
    task->workloads.push_back(workload);
    return task;
}

/// An evaluator whose workers have the comparator.
Rig& plugin_rig() {
    static Rig made(std::string("{\"plugins\": [\"") + KERNELFORGE_TEST_COMPARATOR + "\"]}");
    return made;
}

Evaluation judged(const std::vector<std::string>& on,
                  EvaluationDepth depth = EvaluationDepth::check) {
    return plugin_rig().run(decide_task(), {source(false, on), {}, depth});
}

}  // namespace

TEST_CASE("what each kind of comparison allows passes", "[gpu]") {
    check_task(*decide_task());
    for (const EvaluationDepth depth :
         {EvaluationDepth::check, EvaluationDepth::screen, EvaluationDepth::promotion}) {
        const Evaluation evaluation = judged({"BACKWARDS", "SIGN -1.0f"}, depth);
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::ok);
        REQUIRE(evaluation.workloads.size() == 1);
        CHECK(evaluation.workloads[0].outputs.size() == 6);
    }
}

TEST_CASE("each kind of comparison refuses what is wrong, and names the output", "[gpu]") {
    const auto refused = [](const std::string& on, const std::string& output) {
        const Evaluation evaluation = judged({on, "BACKWARDS"});
        INFO(on << ": " << evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::wrong_result);
        CHECK_THAT(evaluation.message, ContainsSubstring("output " + output + ": "));
    };
    refused("REPEATED", "i");
    refused("MISMATCHED", "w");
    refused("LSE_ERROR 0.01f", "l");
    refused("GREEDY", "s");
    refused("IMPOSSIBLE", "s");
    refused("SIGN 1.001f", "c");
    refused("STRAY", "o");
    refused("SKIPPED", "o");
}

TEST_CASE("a task whose comparator no plugin brings is no fault of the candidate", "[gpu]") {
    const Evaluation evaluation = rig()->run(decide_task(), {source(false)});
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(evaluation.message, ContainsSubstring("no comparator named \"up_to_sign\""));
}

TEST_CASE("a workspace that the reference lacks is no fault of the candidate", "[gpu]") {
    const std::shared_ptr<Task> task = decide_task();
    task->compare["i"].ties = "nearly";
    const Evaluation evaluation = plugin_rig().run(task, {source(false)});
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(evaluation.message, ContainsSubstring("workspace nearly of the reference"));
}
