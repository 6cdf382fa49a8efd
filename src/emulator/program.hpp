// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/lanes.hpp"
#include "emulator/ptx_module.hpp"
#include "emulator/pure_ops.hpp"

// PTX made ready to run: every operand a row, every branch an index.

namespace kernelforge::emulator {

enum class Kind : std::uint8_t {
    pure,          ///< `pure` does it
    nothing,       ///< prefetch, discard hints, griddepcontrol, setmaxnreg, pragma, …
    branch,        ///< bra: to `target`; with a guard, lanes part
    branch_table,  ///< brx.idx: operands {index}; targets are `Code::branch_tables[attribute]`
    call,          ///< to function `target` of the code
    call_system,   ///< vprintf, __assertfail, malloc, free: `attribute` is a SystemFunction, which
                   ///< says the operands; the loads and stores of `.param` are instructions before
                   ///< and after
    ret,
    exit,
    trap,
    breakpoint,
    memory,     ///< ld, st, ldu, atom, red, `Code::memory[attribute]`
    sync,       ///< barriers, votes, shuffles, fences: `Code::sync[attribute]`
    async,      ///< cp.async, bulk, mbarrier: `Code::async[attribute]`
    matrix,     ///< ldmatrix, stmatrix, movmatrix, wgmma: `Code::matrix[attribute]`
    clock,      ///< mov from %clock, %clock64, %globaltimer, %smid, …: operands {d}; `attribute`
                ///< is a SpecialRegister that changes or depends on where the warp runs
    nanosleep,  ///< operands {t}
    address_query  ///< isspacep, cvta, mapa, getctarank: `Code::queries[attribute]`
};

enum class SystemFunction : std::uint8_t {
    print,        ///< {d b32 or no_row, format b64, arguments b64}: generic addresses
    assert_fail,  ///< {message b64, file b64, line b32, function b64, bytes of a character b64}
    allocate,     ///< {d b64 or no_row, bytes b64}
    release       ///< {address b64}
};

enum class SpecialRegister : std::uint8_t {
    tid_x,
    tid_y,
    tid_z,
    ntid_x,
    ntid_y,
    ntid_z,
    ctaid_x,
    ctaid_y,
    ctaid_z,
    nctaid_x,
    nctaid_y,
    nctaid_z,
    laneid,
    warpid,
    nwarpid,
    smid,
    nsmid,
    gridid,
    lanemask_eq,
    lanemask_le,
    lanemask_lt,
    lanemask_ge,
    lanemask_gt,
    clusterid_x,
    clusterid_y,
    clusterid_z,
    nclusterid_x,
    nclusterid_y,
    nclusterid_z,
    cluster_ctaid_x,
    cluster_ctaid_y,
    cluster_ctaid_z,
    cluster_nctaid_x,
    cluster_nctaid_y,
    cluster_nctaid_z,
    cluster_ctarank,
    cluster_nctarank,
    is_explicit_cluster,
    total_smem_size,
    dynamic_smem_size,
    envreg1,  ///< upper half of the address of a cooperative grid's workspace; 0: there is none
    envreg2,  ///< lower half
    clock,
    clock64,
    clock_hi,
    globaltimer,
    globaltimer_lo,
    globaltimer_hi
};

enum class Order : std::uint8_t { weak, is_volatile, relaxed, acquire, release, acq_rel, seq_cst };
enum class Scope : std::uint8_t { cta, cluster, gpu, sys };

/// ld, st, atom, red. Operands: loads {d…, address}; stores {address, s…}; atom {d or no_row,
/// address, a[, b]} (`cas`: a compare, b new); red {address, a}. `address` is a b64 or b32 row, or
/// no_row where the address is `constant_address` alone. Vector elements in order.
struct MemoryOp {
    enum class What : std::uint8_t { load, store, atomic, reduction };
    enum class Combine : std::uint8_t {
        none,
        exchange,
        compare_exchange,
        add,
        min,
        max,
        inc,
        dec,
        bit_and,
        bit_or,
        bit_xor
    };
    What what = What::load;
    Space space = Space::generic;
    Type type = Type::b32;       ///< of an element in memory
    int elements = 1;            ///< 1, 2, 4, 8
    bool is_signed = false;      ///< a narrow load extends its sign (into 32 or 64 bits)
    Row data_row = Row::b32;     ///< of each data operand
    Row address_row = Row::b64;  ///< b32 for shared addresses of 32 bits
    std::int64_t offset = 0;     ///< bytes, added to the address
    /// The address is a variable's: of the module (`Code::symbols`), a shared or local variable's
    /// offset in its block or frame, or a parameter's offset. -1: none, the row gives it.
    std::int32_t symbol = -1;
    Combine combine = Combine::none;
    Order order = Order::weak;
    Scope scope = Scope::gpu;
    bool read_only = false;  ///< ld.global.nc
    /// Of loads that are executed whether or not their value is used (`find_speculations`): the
    /// load, which no observer is told of, and behind it a probe, guarded by the use, which tells
    /// the observer and loads nothing.
    enum class Speculative : std::uint8_t { no, load, probe };
    Speculative speculative = Speculative::no;
    int alignment = 4;  ///< bytes that the address must be a multiple of
};

/// Barriers, votes, shuffles, fences.
struct SyncOp {
    enum class What : std::uint8_t {
        barrier,         ///< bar/barrier{.cta}.sync: operands {id[, threads]}
        barrier_arrive,  ///< operands {id, threads}
        barrier_reduce,  ///< .red: operands {d, id[, threads], predicate}; `mode` popc, and, or
        warp_sync,       ///< bar.warp.sync: {mask}
        cluster_arrive,  ///< barrier.cluster.arrive
        cluster_wait,    ///< barrier.cluster.wait
        vote_all,
        vote_any,
        vote_uni,
        vote_ballot,  ///< {d, predicate, mask}
        match_any,
        match_all,    ///< {d[, p or no_row], a, mask}
        shuffle,      ///< {d, p or no_row, a, b, c, mask}; `mode` up, down, bfly, idx
        reduce,       ///< redux.sync {d, a, mask}; `combine`, `type`
        elect,        ///< {d or no_row, p, mask}
        active_mask,  ///< {d}
        fence         ///< membar, fence: `order`, `scope`
    };
    enum class Mode : std::uint8_t { none, up, down, bfly, idx, popc, bit_and, bit_or };
    What what = What::barrier;
    Mode mode = Mode::none;
    MemoryOp::Combine combine = MemoryOp::Combine::none;
    Type type = Type::b32;
    Order order = Order::acq_rel;  ///< of fences, and of cluster_arrive/wait
    Scope scope = Scope::cta;
    bool aligned = true;
    bool proxy = false;              ///< fence.proxy.*
    bool predicate_negated = false;  ///< of the vote's or reduction's predicate
};

/// cp.async, bulk copies, mbarriers. Shared addresses may be generic or shared; the machine tells.
struct AsyncOp {
    enum class What : std::uint8_t {
        copy,    ///< cp.async {dst, src[, src_bytes or ignore predicate]}; `bytes` 4, 8, 16
        commit,  ///< cp.async.commit_group
        wait,    ///< cp.async.wait_group N (`count`) / wait_all (count -1)
        arrive_on_copies,  ///< cp.async.mbarrier.arrive{.noinc}: {bar}
        bulk_copy,         ///< cp.async.bulk {dst, src, size[, bar][, mask]}; `from`, `to`
        bulk_reduce,       ///< cp.reduce.async.bulk
        bulk_commit,
        bulk_wait,  ///< `count`, `read_only` for .read
        bulk_prefetch,
        tensor_load,   ///< cp.async.bulk.tensor {dst, map, c0.., bar[, mask]}: `dimensions`
        tensor_store,  ///< {map, c0.., src}
        tensor_reduce,
        tensor_prefetch,
        init,
        inval,   ///< mbarrier.init {bar, count}
        arrive,  ///< {state or no_row, bar[, count]}
        arrive_drop,
        expect_tx,         ///< mbarrier.expect_tx {bar, bytes}
        arrive_expect_tx,  ///< {state or no_row, bar, bytes}
        complete_tx,
        test_wait,  ///< {p, bar, state}
        try_wait,   ///< {p, bar, state[, hint]}
        test_wait_parity,
        try_wait_parity,  ///< {p, bar, parity[, hint]}
        pending_count
    };
    What what = What::copy;
    int bytes = 0;
    int count = 0;
    int dimensions = 0;
    bool no_increment = false;
    bool read_only = false;
    bool multicast = false;
    bool to_cluster = false;  ///< destination or barrier is shared::cluster
    bool has_size = false;    ///< `copy`: the third operand is the number of source bytes
    bool has_ignore = false;  ///< `copy`: the third operand is the ignore-src predicate
    Space from = Space::global;
    Space to = Space::shared;
    Type type = Type::b8;  ///< of reductions
    MemoryOp::Combine combine = MemoryOp::Combine::none;
    Order order = Order::release;
    Scope scope = Scope::cta;
    /// For every operand: a row (its shape), or a symbol's address plus an offset.
    struct Place {
        Row row = Row::b64;
        std::int32_t symbol = -1;
        std::int64_t offset = 0;
    };
    std::vector<Place> places;
};

/// ldmatrix {d…, address}, stmatrix {address, s…}, movmatrix {d, a}; wgmma; wmma.load {d…, address,
/// stride}, wmma.store {address, s…, stride}, whose stride is a b32 row of elements (decoding makes
/// a constant row of a stride that the text leaves out).
struct MatrixOp {
    enum class What : std::uint8_t {
        load,
        store,
        transpose,
        wgmma_fence,
        wgmma_commit,
        wgmma_wait,
        wgmma,
        wmma_load,
        wmma_store
    };
    /// Operand of a wmma that a fragment is.
    enum class Fragment : std::uint8_t { a, b, accumulator };
    What what = What::load;
    int count = 1;  ///< of 8x8 matrices; of groups for wgmma_wait
    bool transposed = false;
    Row address_row = Row::b32;
    std::int32_t symbol = -1;
    std::int64_t offset = 0;
    // wgmma only: operands {d…, a (descriptor, or four registers), b descriptor, scale-d predicate}
    int n = 0, k = 0;
    Type a = Type::none, b = Type::none, d = Type::none;
    bool a_in_registers = false;
    int scale_a = 1, scale_b = 1;
    bool transposed_a = false, transposed_b = false;
    int destinations = 0;
    bool scale_d_negated = false;
    bool saturate = false;  ///< .satfinite of integers
    // wmma_load and wmma_store only, with `n`, `k` and, as the elements' type, `d`.
    int m = 0;
    Fragment fragment = Fragment::a;
    bool column_major = false;
    Space space = Space::generic;
};

/// isspacep {p, a} (`space`), cvta {d, a} (`to_generic`), mapa {d, a, rank}, getctarank {d, a}.
/// With a `symbol`, `a` is no_row and means the symbol's address plus `offset`; mov of a variable's
/// address is `to_space` in the symbol's own space. Those of global and constant variables are
/// generic addresses, those of an entry's parameters their offsets.
struct QueryOp {
    enum class What : std::uint8_t { is_space, to_generic, to_space, map_rank, rank };
    What what = What::is_space;
    Space space = Space::shared;
    bool cluster = false;  ///< shared::cluster
    Row row = Row::b64;    ///< of d and a; of a where d is a predicate or a rank
    std::int32_t symbol = -1;
    std::int64_t offset = 0;
};

struct DecodedInstruction {
    PureFn pure = nullptr;
    Kind kind = Kind::nothing;
    bool guard_negated = false;
    RowRef guard = no_row;       ///< predicate row
    std::uint32_t operands = 0;  ///< index of the first in `Code::operands`
    std::uint16_t operand_count = 0;
    bool whole_warp = false;   ///< PureOp::whole_warp
    std::uint32_t target = 0;  ///< instruction index, or function index of `call`
    std::uint32_t attribute = 0;
    Place place;
};

/// A variable's address, resolved when a module is loaded or a block starts.
struct Symbol {
    std::string name;
    Space space = Space::global;
    std::uint64_t offset = 0;  ///< shared, local, param: in the block, frame, parameters; global
                               ///< and constant: index into `Code::globals`
    std::uint64_t bytes = 0;   ///< 0: dynamic shared memory
    /// Space param: of an entry, `offset` is in `Launch::parameters`; otherwise in the
    /// `parameter_bytes` that the running function has for each thread.
    bool of_launch = false;
};

/// A function's part of the code. Instructions of one function lie together.
struct CodeFunction {
    std::string name;
    std::uint32_t first = 0, end = 0;   ///< instructions
    std::uint32_t frame_bytes = 0;      ///< of registers, all rows, of one warp
    std::uint32_t local_bytes = 0;      ///< of `.local` variables, a thread; aligned to 16
    std::uint32_t parameter_bytes = 0;  ///< of its `.param` variables in the body (arguments of
                                        ///< calls it makes), a thread
    /// Argument passing is by copying: caller's `.param` bytes [from, +bytes) of a thread become
    /// the callee's incoming parameters. The callee's incoming parameters and return values lie in
    /// its own `parameter_bytes` area.
    std::vector<Symbol> parameters, returns;
};

/// A call's copies between the caller's and callee's `.param` areas (bytes of a thread).
struct CallOp {
    struct Copy {
        std::uint32_t from = 0, to = 0, bytes = 0;
    };
    std::vector<Copy> arguments;  ///< caller -> callee
    std::vector<Copy> results;    ///< callee -> caller
};

/// An entry of a module, ready to run.
struct Entry {
    std::string name;
    std::uint32_t function = 0;  ///< in `Code::functions`
    std::uint64_t parameter_bytes = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> parameters;  ///< offset and size of each
    std::uint64_t static_shared_bytes = 0;  ///< laid out from offset 0 of the block's window
    std::uint64_t dynamic_shared_alignment = 16;
    std::array<int, 3> max_threads{}, required_threads{}, required_cluster{};
};

/// A decoded module. Immutable; shared by all threads. Fixed rows: `fixed_bytes` of every warp,
/// made of constants (copied from `constants`) and special registers that are written when the warp
/// starts.
struct Code {
    std::vector<DecodedInstruction> instructions;
    std::vector<RowRef> operands;
    std::vector<MemoryOp> memory;
    std::vector<SyncOp> sync;
    std::vector<AsyncOp> async;
    std::vector<MatrixOp> matrix;
    std::vector<QueryOp> queries;
    std::vector<CallOp> calls;  ///< of `Kind::call`: index is `attribute`
    std::vector<std::vector<std::uint32_t>> branch_tables;
    std::vector<CodeFunction> functions;
    std::vector<Entry> entries;
    std::vector<Variable> globals;  ///< global and constant variables, in order
    std::vector<Symbol> symbols;
    std::string constants;  ///< bytes of the fixed rows, zero where special registers go
    std::vector<std::pair<SpecialRegister, RowRef>> specials;  ///< RowRef complemented; b32 rows
    [[nodiscard]] const Entry* find_entry(std::string_view name) const noexcept;
};

/// Decodes: finds functions, gives every register a row (registers whose lives do not meet share
/// one), turns labels into indices, lays shared variables of each entry out. Loads into registers,
/// constants and addresses of variables included, become rows where they can. [any]
/// @throws PtxError, at the first instruction that cannot be executed
[[nodiscard]] std::shared_ptr<const Code> decode(const Module& module, Isa isa);

}  // namespace kernelforge::emulator
