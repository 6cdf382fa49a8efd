// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// PTX of kernels that execute one matrix or tensor instruction on registers and shared memory that
// the test chose, and give back what it wrote.

namespace kernelforge::test {

/// Operands of `mma.sync`: element type of their registers ("b32", "f32", "f64") and how many.
struct RegisterGroup {
    std::string type;
    int count = 0;
};

[[nodiscard]] inline std::string ptx_head() {
    return ".version 8.7\n.target sm_90a\n.address_size 64\n";
}

/// "{%d0, %d1}"
[[nodiscard]] inline std::string register_list(const std::string& name, int count) {
    std::string text = "{";
    for (int i = 0; i < count; ++i) {
        text += (i == 0 ? "%" : ", %") + name + std::to_string(i);
    }
    return text + "}";
}

/// Loads or stores `group` as rows [register][thread] of `threads` threads, from byte `at` of the
/// buffer whose address, with the thread's offset, is in `%NAME4` or `%NAME8`.
[[nodiscard]] inline std::string moves(const std::string& operation, const std::string& buffer,
                                       const std::string& name, const RegisterGroup& group,
                                       int threads, int& at) {
    const int bytes = group.type == "f64" ? 8 : 4;
    std::string text;
    for (int i = 0; i < group.count; ++i) {
        const std::string where =
            "[%" + buffer + std::to_string(bytes) + " + " + std::to_string(at) + "]";
        const std::string value = "%" + name + std::to_string(i);
        text += operation + ".global." + group.type + " " +
                (operation == "ld" ? value + ", " + where : where + ", " + value) + ";\n";
        at += threads * bytes;
    }
    return text;
}

/// Addresses of a thread in `in` and `out`: `%in4`, `%in8`, `%out4`, `%out8`.
[[nodiscard]] inline std::string addresses() {
    return ".reg .b32 %thread;\n.reg .b64 %in, %in4, %in8, %out, %out4, %out8, %t;\n"
           "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n"
           "mov.u32 %thread, %tid.x;\ncvt.u64.u32 %t, %thread;\n"
           "mad.lo.u64 %in4, %t, 4, %in;\nmad.lo.u64 %in8, %t, 8, %in;\n"
           "mad.lo.u64 %out4, %t, 4, %out;\nmad.lo.u64 %out8, %t, 8, %out;\n";
}

/// One warp: `in` holds A, B and C, `out` gets D.
[[nodiscard]] inline std::string mma_kernel(const std::string& instruction, const RegisterGroup& d,
                                            const RegisterGroup& a, const RegisterGroup& b) {
    std::string text =
        ptx_head() + ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n" + addresses();
    const auto declare = [&](const std::string& name, const RegisterGroup& group) {
        text += ".reg ." + group.type + " %" + name + "<" + std::to_string(group.count) + ">;\n";
    };
    declare("d", d);
    declare("a", a);
    declare("b", b);
    declare("c", d);
    int at = 0;
    text += moves("ld", "in", "a", a, 32, at) + moves("ld", "in", "b", b, 32, at) +
            moves("ld", "in", "c", d, 32, at);
    text += instruction + " " + register_list("d", d.count) + ", " + register_list("a", a.count) +
            ", " + register_list("b", b.count) + ", " + register_list("c", d.count) + ";\n";
    at = 0;
    return text + moves("st", "out", "d", d, 32, at) + "ret;\n}\n";
}

/// Copies `image` to dynamic shared memory at the next multiple of 1024, whose address is then in
/// `%base`, by all threads.
[[nodiscard]] inline std::string shared_image(int threads, int bytes) {
    return ".reg .pred %more;\n.reg .b32 %base, %to, %i;\n.reg .b64 %image, %from;\n"
           ".reg .b32 %w<4>;\nld.param.u64 %image, [image];\n"
           "mov.u32 %base, storage;\nadd.u32 %base, %base, 1023;\nand.b32 %base, %base, "
           "0xfffffc00;\nmul.lo.u32 %i, %thread, 16;\n"
           "copy:\ncvt.u64.u32 %from, %i;\nadd.u64 %from, %from, %image;\n"
           "ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%from];\nadd.u32 %to, %base, %i;\n"
           "st.shared.v4.b32 [%to], {%w0, %w1, %w2, %w3};\nadd.u32 %i, %i, " +
           std::to_string(threads * 16) + ";\nsetp.lt.u32 %more, %i, " + std::to_string(bytes) +
           ";\n@%more bra copy;\nfence.proxy.async;\nbar.sync 0;\n";
}

/// One warp group: `in` holds D [register][128], then A's four registers if it has them; `out` gets
/// D. Descriptors are relative to the image. `tail` is what follows the scale-d predicate.
[[nodiscard]] inline std::string wgmma_kernel(const std::string& instruction,
                                              const RegisterGroup& d, bool a_in_registers,
                                              const std::string& tail, int image_bytes) {
    std::string text =
        ptx_head() +
        ".extern .shared .align 1024 .b8 storage[];\n.visible .entry k(.param .u64 in, .param .u64 "
        "out, .param .u64 image, .param .u64 a, .param .u64 b, .param .u32 scale)\n{\n" +
        addresses() + shared_image(128, image_bytes);
    text += ".reg ." + d.type + " %d<" + std::to_string(d.count) + ">;\n.reg .b32 %a<4>;\n";
    text +=
        ".reg .b64 %da, %db, %start;\n.reg .b32 %scale;\n.reg .pred %p;\n"
        "ld.param.u64 %da, [a];\nld.param.u64 %db, [b];\nld.param.u32 %scale, [scale];\n"
        "setp.ne.b32 %p, %scale, 0;\nshr.u32 %i, %base, 4;\ncvt.u64.u32 %start, %i;\n"
        "add.u64 %da, %da, %start;\nadd.u64 %db, %db, %start;\n";
    int at = 0;
    text += moves("ld", "in", "d", d, 128, at);
    if (a_in_registers) text += moves("ld", "in", "a", {"b32", 4}, 128, at);
    text += "wgmma.fence.sync.aligned;\n" + instruction + " " + register_list("d", d.count) + ", " +
            (a_in_registers ? register_list("a", 4) : std::string("%da")) + ", %db, %p" + tail +
            ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    at = 0;
    return text + moves("st", "out", "d", d, 128, at) + "ret;\n}\n";
}

/// "{%c0, %c1}" of a tensor copy's coordinates.
[[nodiscard]] inline std::string load_coordinates(int rank) {
    std::string text = ".reg .b32 %c<" + std::to_string(rank) + ">;\n";
    for (int i = 0; i < rank; ++i) {
        text +=
            "ld.global.b32 %c" + std::to_string(i) + ", [%in + " + std::to_string(4 * i) + "];\n";
    }
    return text;
}

/// One warp copies `image` to shared memory and the tile at the coordinates in `in` over it (load)
/// or from it (store, or a reduction's words); then shared memory goes to `out`.
[[nodiscard]] inline std::string tensor_kernel(const std::string& operation, int rank,
                                               int tile_bytes, int image_bytes) {
    const std::string place = "[%map, " + register_list("c", rank) + "]";
    const std::string dimensions = "." + std::to_string(rank) + "d";
    const std::string load =
        "mbarrier.init.shared::cta.b64 [bar], 1;\nfence.proxy.async;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " +
        std::to_string(tile_bytes) + ";\ncp.async.bulk.tensor" + dimensions +
        ".shared::cluster.global.mbarrier::complete_tx::bytes [%base], " + place +
        ", [bar];\nwait:\nmbarrier.try_wait.parity.shared::cta.b64 %more, [bar], 0;\n"
        "@!%more bra wait;\n";
    const std::string store =
        operation + dimensions + ".global.shared::cta" +
        (operation == "cp.async.bulk.tensor" ? ".bulk_group " : ".add.bulk_group ") + place +
        ", [%base];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
    return ptx_head() +
           ".extern .shared .align 1024 .b8 storage[];\n.visible .entry k(.param .u64 in, .param "
           ".u64 out, .param .u64 image, .param .align 64 .b8 map[128])\n{\n.shared .align 8 .b64 "
           "bar;\n" +
           addresses() + shared_image(32, image_bytes) + load_coordinates(rank) +
           ".reg .b64 %map;\nmov.b64 %map, map;\ncvta.param.u64 %map, %map;\n.reg .pred %other;\n"
           "setp.ne.u32 %other, %thread, 0;\n@%other bra done;\n" +
           (operation == "load" ? load : store) +
           "done:\nbar.warp.sync -1;\nbar.sync 0;\nmul.lo.u32 %i, %thread, 4;\n"
           "back:\nadd.u32 %to, %base, %i;\nld.shared.b32 %w0, [%to];\ncvt.u64.u32 %from, %i;\n"
           "add.u64 %from, %from, %out;\nst.global.b32 [%from], %w0;\nadd.u32 %i, %i, 128;\n"
           "setp.lt.u32 %more, %i, " +
           std::to_string(image_bytes) + ";\n@%more bra back;\nret;\n}\n";
}

}  // namespace kernelforge::test
