// SPDX-License-Identifier: Apache-2.0
#include "reply.hpp"

#include <algorithm>

#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;

namespace {

const std::string code =
    "//@kernelforge 1\n"
    "//@launch scale<<<rows, 256>>>(x, y)\n"
    "__global__ void scale(const float* x, float* y) { y[blockIdx.x] = x[blockIdx.x]; }\n";

const std::string bare =
    "__global__ void scale(const float* x, float* y) { y[blockIdx.x] = x[blockIdx.x]; }\n";

const std::string fields =
    "plan: load 16 bytes a thread\n"
    "change-class: vectorization\n"
    "expect: dram__throughput.avg.pct_of_peak_sustained_elapsed up, smsp__inst_executed.sum down\n"
    "lesson-of-parent: loads were four bytes wide\n\n";

Definition definition() {
    Definition value;
    value.name = "scale";
    value.axes = {{"rows", Axis::Kind::variable, 0, "", ""}};
    value.inputs = {{"x", {"rows"}, false, DType::float32, ""}};
    value.outputs = {{"y", {"rows"}, false, DType::float32, ""}};
    return value;
}

ModelReply parse(std::string_view text) {
    return parse_reply(text, definition());
}

std::string fenced(const std::string& text, const std::string& language = "cuda") {
    return "```" + language + "\n" + text + "```\n";
}

bool has_note(const ModelReply& reply, const std::string& what) {
    return std::any_of(reply.notes.begin(), reply.notes.end(), [&](const std::string& note) {
        return note.find(what) != std::string::npos;
    });
}

void check_fields(const ModelReply& reply) {
    CHECK(reply.plan == "load 16 bytes a thread");
    CHECK(reply.change_class == "vectorization");
    REQUIRE(reply.expect.size() == 2);
    CHECK(reply.expect[0].metric == "dram__throughput.avg.pct_of_peak_sustained_elapsed");
    CHECK(reply.expect[0].direction == ExpectedChange::Direction::up);
    CHECK(reply.expect[1].metric == "smsp__inst_executed.sum");
    CHECK(reply.expect[1].direction == ExpectedChange::Direction::down);
    CHECK(reply.lesson_of_parent == "loads were four bytes wide");
}

}  // namespace

TEST_CASE("a reply in the asked form is taken apart without a note", "[reply]") {
    const ModelReply reply = parse(fields + fenced(code));
    check_fields(reply);
    CHECK(reply.code == code);
    CHECK(reply.why_no_code.empty());
    CHECK_FALSE(reply.code_was_cut_off);
    CHECK(reply.notes.empty());
}

TEST_CASE("fields are found in the forms in which models write them", "[reply]") {
    const std::vector<std::string> forms{
        "PLAN: load 16 bytes a thread\nChange-Class: Vectorization\n"
        "EXPECT: dram__throughput.avg.pct_of_peak_sustained_elapsed up, smsp__inst_executed.sum "
        "down\nLesson-Of-Parent: loads were four bytes wide\n",
        "**plan:** load 16 bytes a thread\n**change-class:** `vectorization`\n"
        "**expect:** `dram__throughput.avg.pct_of_peak_sustained_elapsed` up; "
        "`smsp__inst_executed.sum` down\n**lesson-of-parent:** loads were four bytes wide\n",
        "**Plan**: load 16 bytes a thread\n\n**Change class**: *vectorization*\n\n"
        "**Expect**: dram__throughput.avg.pct_of_peak_sustained_elapsed \xe2\x86\x91, "
        "smsp__inst_executed.sum\xe2\x86\x93\n\n**Lesson of parent**: loads were four bytes "
        "wide\n",
        "- plan: load 16 bytes\n  a thread\n- change_class: vectorization\n- expect:\n"
        "  - dram__throughput.avg.pct_of_peak_sustained_elapsed: increases\n"
        "  - smsp__inst_executed.sum: fewer\n- lesson_of_parent: loads were four bytes wide\n",
        "## Plan\n\nload 16 bytes a thread\n\n## Change-class\n\nvectorization\n\n## Expect\n\n"
        "* higher dram__throughput.avg.pct_of_peak_sustained_elapsed\n"
        "* lower smsp__inst_executed.sum\n\n## Lesson of parent\n\nloads were four bytes wide\n",
        "1. plan: load 16 bytes a thread\n2. change-class: vectorization\n"
        "3. expect: dram__throughput.avg.pct_of_peak_sustained_elapsed (up), "
        "smsp__inst_executed.sum (down)\n4. lesson-of-parent: loads were four bytes wide\n",
        "> plan: load 16 bytes a thread\n> change-class: vectorization\n"
        "> expect: dram__throughput.avg.pct_of_peak_sustained_elapsed = up, "
        "smsp__inst_executed.sum = down\n> lesson-of-parent: loads were four bytes wide\n",
        "\"plan\": \"load 16 bytes a thread\",\n\"change-class\": \"vectorization\",\n"
        "\"expect\": \"dram__throughput.avg.pct_of_peak_sustained_elapsed up, "
        "smsp__inst_executed.sum down\",\n\"lesson-of-parent\": \"loads were four bytes wide\"\n",
        "plan\xef\xbc\x9aload 16 bytes a thread\nchange-class\xef\xbc\x9avectorization\n"
        "expect\xef\xbc\x9a"
        "dram__throughput.avg.pct_of_peak_sustained_elapsed up, "
        "smsp__inst_executed.sum down\nlesson\xef\xbc\x9aloads were four bytes wide\n",
    };
    for (const std::string& form : forms) {
        INFO(form);
        const ModelReply reply = parse(form + "\n" + fenced(code));
        check_fields(reply);
        CHECK(reply.code == code);
        const ModelReply after = parse(fenced(code) + "\n" + form);
        check_fields(after);
        CHECK(after.code == code);
    }
}

TEST_CASE("fields in the comments of the code are the last resort", "[reply]") {
    const std::string commented =
        "// plan: load 16 bytes a thread\n// change-class: vectorization\n"
        "// expect: dram__throughput.avg.pct_of_peak_sustained_elapsed up, "
        "smsp__inst_executed.sum down\n// lesson-of-parent: loads were four bytes wide\n" +
        code;
    const ModelReply reply = parse(fenced(commented));
    check_fields(reply);
    CHECK(reply.code == commented);
    CHECK(parse("plan: real\n" + fenced(commented)).plan == "real");
}

TEST_CASE("the field nearest before the code counts", "[reply]") {
    CHECK(parse("plan: draft\n\nOn reflection:\n\nplan: final\n\n" + fenced(code) +
                "\nplan: next time\n")
              .plan == "final");
    CHECK(parse(fenced(code) + "\nplan: one\n\nplan: two\n").plan == "one");
}

TEST_CASE("missing fields have fallbacks", "[reply]") {
    const ModelReply reply = parse("### I use **wider** loads here.\n\n" + fenced(code));
    CHECK(reply.plan == "I use **wider** loads here.");
    CHECK(reply.change_class == "other");
    CHECK(reply.expect.empty());
    CHECK(reply.lesson_of_parent.empty());
    CHECK(reply.code == code);
    CHECK(has_note(reply, "no field plan"));
    CHECK(has_note(reply, "no field change-class"));
    CHECK(parse(fenced(code)).plan == "no plan given");
    CHECK(parse("plan:\n\n" + fenced(code)).plan == "no plan given");
}

TEST_CASE("the class of a change is one of the list", "[reply]") {
    const auto class_of = [](const std::string& value) {
        return parse("change-class: " + value + "\n" + fenced(code)).change_class;
    };
    for (const std::string_view name : change_classes()) {
        CHECK(class_of(std::string(name)) == name);
    }
    CHECK(change_classes().back() == "other");
    CHECK(change_classes().size() == 13);
    CHECK(class_of("Memory Access") == "memory-access");
    CHECK(class_of("memory_access (coalescing)") == "memory-access");
    CHECK(class_of("tiling, then fusion") == "tiling");
    CHECK(class_of("[launch-configuration]") == "launch-configuration");
    CHECK(class_of("vectorised loads") == "vectorization");
    CHECK(class_of("better coalescing") == "memory-access");
    CHECK(class_of("double buffering") == "pipelining");
    CHECK(class_of("register blocking") == "occupancy");
    CHECK(class_of("magic") == "other");
    const ModelReply reply = parse("change-class: magic\n" + fenced(code));
    CHECK(has_note(reply, "change-class \"magic\" is not in the list, taken as other"));
}

TEST_CASE("parts of expect without metric or direction are left out", "[reply]") {
    const ModelReply reply = parse(
        "expect: dram throughput goes up, nothing else, up, l2__hits down by 20 % (about), "
        "reduce registers per thread\n" +
        fenced(code));
    REQUIRE(reply.expect.size() == 3);
    CHECK(reply.expect[0].metric == "dram throughput goes");
    CHECK(reply.expect[1].metric == "l2__hits");
    CHECK(reply.expect[1].direction == ExpectedChange::Direction::down);
    CHECK(reply.expect[2].metric == "registers per thread");
    CHECK(reply.expect[2].direction == ExpectedChange::Direction::down);
    CHECK(has_note(reply, "2 parts without metric and direction"));

    std::string many = "expect: ";
    for (int i = 0; i < 40; ++i) many += "m" + std::to_string(i) + " up, ";
    CHECK(parse(many + "\n" + fenced(code)).expect.size() == 16);
}

TEST_CASE("long fields are cut at a character", "[reply]") {
    std::string text = "plan: a";
    for (int i = 0; i < 2000; ++i) text += "\xe2\x86\x91";
    const ModelReply reply = parse(text + "\n" + fenced(code));
    CHECK(reply.plan.size() <= 2000);
    CHECK(reply.plan.size() > 1990);
    CHECK(reply.plan.ends_with("\xe2\x86\x91"));
}

TEST_CASE("code is taken from the fences that models use", "[reply]") {
    CHECK(parse(fenced(code, "")).code == code);
    CHECK(parse(fenced(code, "cpp")).code == code);
    CHECK(parse(fenced(code, "C++")).code == code);
    CHECK(parse(fenced(code, " CUDA ")).code == code);
    CHECK(parse(fenced(code, "{.cuda}")).code == code);
    CHECK(parse(fenced(code, "cuda title=\"kernel.cu\"")).code == code);
    CHECK(parse(fenced(code, "text")).code == code);
    CHECK(parse("~~~cuda\n" + code + "~~~\n").code == code);
    CHECK(parse("````cuda\n" + code + "````\n").code == code);
    CHECK(parse("````cuda\n" + code + "// ```\n````\n").code == code + "// ```\n");
    CHECK(parse("~~~\n" + code + "```\n~~~\n").code == code + "```\n");
    CHECK(parse("```cuda\n" + code + "`````\n").code == code);
    CHECK(parse("```cuda\n\n\n" + code + "```").code == code);
    CHECK(parse("  ```cuda\n  //@launch k<<<1, 1>>>()\n    __global__ void k() {}\n  ```\n").code ==
          "//@launch k<<<1, 1>>>()\n  __global__ void k() {}\n");
    CHECK(parse("Use ```inline``` marks.\n" + fenced(code)).code == code);
}

TEST_CASE("carriage returns and a byte order mark do no harm", "[reply]") {
    std::string text;
    for (const char c : fields + fenced(code)) {
        if (c == '\n') text += '\r';
        text += c;
    }
    const ModelReply reply = parse("\xef\xbb\xbf" + text);
    check_fields(reply);
    CHECK(reply.code == code);
    std::string old = fields + fenced(code);
    std::replace(old.begin(), old.end(), '\n', '\r');
    CHECK(parse(old).code == code);
}

TEST_CASE("of several blocks the last complete one with a plan is used", "[reply]") {
    const std::string other = code + "// second\n";
    CHECK(parse(fenced(code) + "better:\n" + fenced(other)).code == other);
    CHECK(has_note(parse(fenced(code) + fenced(other)), "2 code blocks with kernels"));
    CHECK(parse(fenced(code) + "for example\n" + fenced(bare)).code == code);
    CHECK(parse(fenced(code) + fenced("nvcc k.cu\n", "bash")).code == code);
    CHECK(parse(fenced("print('__global__')\n", "python") + fenced(code)).code == code);
    CHECK(parse(fenced(code) + "```cuda\n" + other).code == code);
    CHECK_FALSE(parse(fenced(code) + "```cuda\n" + other).code_was_cut_off);
    // A sketch without a plan is worth less than a cut-off candidate.
    const ModelReply cut = parse(fenced("__global__ void sketch();\n") + "```cuda\n" + code);
    CHECK(cut.code == code);
    CHECK(cut.code_was_cut_off);
}

TEST_CASE("a reply inside a fence of its own is read", "[reply]") {
    const ModelReply reply =
        parse("```markdown\n" + fields + "```cuda\n" + code + "```\n\nDone.\n```\n");
    check_fields(reply);
    CHECK(reply.code == code);
    CHECK_FALSE(reply.code_was_cut_off);
    const ModelReply longer = parse("````\n" + fields + "```cuda\n" + code + "```\n````\n");
    REQUIRE(longer.code.has_value());
}

TEST_CASE("a code block that is not closed is kept and flagged", "[reply]") {
    const std::string half = code.substr(0, code.size() - 20);
    const ModelReply reply = parse(fields + "```cuda\n" + half);
    check_fields(reply);
    CHECK(reply.code == half + "\n");
    CHECK(reply.code_was_cut_off);
    CHECK(has_note(reply, "not closed"));
    // The next block starts although the first one was never closed.
    const ModelReply two = parse("```cuda\n" + bare + "\n```cuda\n" + code + "```\n");
    CHECK(two.code == code);
    CHECK_FALSE(two.code_was_cut_off);
}

TEST_CASE("code outside of any fence is found between the prose", "[reply]") {
    const ModelReply reply = parse(fields + "Here it is:\n\n" + code + "\nThis should be faster\n");
    check_fields(reply);
    CHECK(reply.code == code);
    CHECK(has_note(reply, "no code block"));
    CHECK(parse("#include <cuda_fp16.h>\n" + code).code == "#include <cuda_fp16.h>\n" + code);
}

TEST_CASE("thinking sections are skipped", "[reply]") {
    const std::string answer = fields + fenced(code);
    const std::string thought = "plan: nonsense\n" + fenced("//@kernelforge 1\n" + bare);
    for (const std::string& text :
         {"<think>\n" + thought + "</think>\n" + answer, "<THINK>" + thought + "</Think>" + answer,
          thought + "</think>\n" + answer, "<thinking>" + thought + "</thinking>\n\n" + answer,
          "<think>a</think>\n<think>\n" + thought + "</think>\n" + answer,
          answer + "<think>" + thought}) {
        INFO(text);
        const ModelReply reply = parse(text);
        check_fields(reply);
        CHECK(reply.code == code);
        CHECK(has_note(reply, "thinking section was skipped"));
    }
    const ModelReply cut = parse("<think>\n" + thought);
    CHECK_FALSE(cut.code.has_value());
    CHECK(cut.why_no_code == "the reply ends inside its thinking section");
    // The tag as a word in a sentence, or at the very end, is no section.
    CHECK(parse("I use <think> tags.\n" + answer).code == code);
    CHECK(parse(answer + "</think>\n").code == code);
}

TEST_CASE("a reply without usable code says why", "[reply]") {
    const auto why = [](const std::string& text) {
        const ModelReply reply = parse(text);
        CHECK_FALSE(reply.code.has_value());
        CHECK_FALSE(reply.code_was_cut_off);
        return reply.why_no_code;
    };
    CHECK(why("") == "the reply is empty");
    CHECK(why(" \n\t\r\n") == "the reply is empty");
    CHECK(why("I cannot help with that.") == "the reply has no code block and no kernel");
    CHECK(why("plan: none\n") == "the reply has no code block and no kernel");
    CHECK(why(fenced("int main() {}\n")) ==
          "no code block of the reply holds a kernel or a launch plan (1 block)");
    CHECK(why(fenced(code, "python") + fenced("x", "bash")) ==
          "no code block of the reply holds a kernel or a launch plan (2 blocks)");
    CHECK(why(fenced("-" + code, "diff")) ==
          "the reply holds a diff, expected the whole file in one code block");
    CHECK(why(fenced("--- a/k.cu\n+++ b/k.cu\n+" + code, "")) ==
          "the reply holds a diff, expected the whole file in one code block");
    CHECK(why("```") == "no code block of the reply holds a kernel or a launch plan (1 block)");
}

TEST_CASE("a pasted host launcher becomes a plan", "[reply]") {
    const std::string pasted = "#include <cuda_runtime.h>\n" + bare +
                               "void launch(const float* x, float* y, int rows) {\n"
                               "    scale<<<rows, 256>>>(x, y);\n"
                               "}\n";
    const ModelReply reply = parse(fields + fenced(pasted));
    check_fields(reply);
    REQUIRE(reply.code.has_value());
    CHECK_THAT(*reply.code, ContainsSubstring("//@launch scale<<<"));
    CHECK(reply.code->find("void launch") == std::string::npos);
    CHECK(has_note(reply, "host launcher"));
}

TEST_CASE("a kernel without any launch is returned with a note", "[reply]") {
    const ModelReply reply = parse(fields + fenced(bare));
    CHECK(reply.code == bare);
    CHECK(has_note(reply, "the code has no //@launch line"));
}

TEST_CASE("hostile replies come back in time", "[reply]") {
    std::string fences;
    for (int i = 0; i < 100'000; ++i) fences += "```\n";
    CHECK_FALSE(parse(fences).code.has_value());
    std::string tags;
    for (int i = 0; i < 100'000; ++i) tags += "<think>\n";
    CHECK_FALSE(parse(tags).code.has_value());
    std::string labels;
    for (int i = 0; i < 100'000; ++i) labels += "plan:\n";
    CHECK_FALSE(parse(labels).code.has_value());
    CHECK_FALSE(parse(std::string(1 << 20, '`')).code.has_value());
    CHECK_FALSE(parse(std::string(1 << 20, '\0')).code.has_value());
    CHECK_FALSE(parse("expect: " + std::string(1 << 20, ',')).code.has_value());
    CHECK_FALSE(parse("change-class: " + std::string(1 << 20, '-')).code.has_value());
    for (std::size_t size = 0; size < 400; ++size) {
        (void)parse((fields + fenced(code)).substr(0, size));
    }
}

TEST_CASE("the example of the reply's documentation is understood without a note", "[reply]") {
    const std::string text = read_file(test::source_folder() / "docs" / "reply_format.md");
    const std::string fence = "````text\n";
    const std::size_t start = text.find(fence) + fence.size();
    const ModelReply reply = parse(text.substr(start, text.find("````", start) - start));
    CHECK(reply.notes.empty());
    CHECK(reply.change_class == "vectorization");
    CHECK(reply.expect.size() == 2);
    REQUIRE(reply.code.has_value());
    CHECK(reply.code->ends_with("}\n"));
    for (const std::string_view name : change_classes()) {
        CHECK_THAT(text, ContainsSubstring(std::string(name)));
    }
}
