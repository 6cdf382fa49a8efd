#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the PyTorch reference of a task, as written or through torch.compile.

Prints one JSON line a workload: {"uuid", "median_s", "samples"}. Cold time of all device work of one call, from
the start of its first kernel to the end of its last one, after a flush that leaves no dirty lines in L2.
"""
import argparse
import json
import statistics
import sys

import torch

DTYPES = {
    "float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "int64": torch.int64, "int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8,
    "bool": torch.bool, "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2,
}


def evaluate(expression, extents):
    """Value of an axis that is computed from others; the task is trusted."""
    return eval(expression.replace("/", "//").replace("////", "//"), {}, dict(extents))


def draw(shape, dtype, values, extents, generator):
    if dtype.is_floating_point and dtype.itemsize == 1:  # 8-bit floats cannot be drawn
        return draw(shape, torch.float32, values, extents, generator).to(dtype)
    kind = values.get("kind", "normal")
    tensor = torch.empty(shape, dtype=dtype, device="cuda")
    if kind == "offsets":
        bound = extents[values["bound"]]
        tensor.random_(0, bound + 1, generator=generator)
        tensor[0], tensor[-1] = 0, bound
        return tensor.sort().values
    if kind == "distinct":
        order = torch.randperm(extents[values["bound"]], device="cuda", generator=generator)
        return order[: shape[0]].to(dtype)
    if kind == "uniform":
        return tensor.uniform_(values.get("low", 0.0), values.get("high", 1.0), generator=generator)
    if kind == "constant":
        return tensor.fill_(values["low"])
    return tensor.normal_(values.get("mean", 0.0), values.get("stddev", 1.0), generator=generator)


def make_inputs(definition, workload, generator):
    extents = {name: axis.get("value", workload["axes"].get(name)) for name, axis in definition["axes"].items()}
    for name, axis in definition["axes"].items():
        if "expression" in axis:
            extents[name] = evaluate(axis["expression"], extents)
    init = definition.get("kernelforge", {}).get("init", {})
    inputs = {}
    for name, spec in definition["inputs"].items():
        if spec["shape"] is None:
            inputs[name] = workload["scalars"][name]
            continue
        shape = [extents[axis] for axis in spec["shape"]]
        inputs[name] = draw(shape, DTYPES[spec["dtype"]], init.get(name, {}), extents, generator)
    for name, values in init.items():
        if values.get("used_by"):
            unused = torch.ones(inputs[name].shape[0], dtype=torch.bool, device="cuda")
            unused[inputs[values["used_by"]].long()] = False
            inputs[name][unused] = float("nan")
    return list(inputs.values())


HOLD_CYCLES = 10_000_000  # about 5 ms


def span_s(call, flush):
    """Device span of one call, from activity records."""
    from torch.profiler import ProfilerActivity, profile

    flush()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        torch.cuda._sleep(HOLD_CYCLES)  # so that all launches are queued before the first one starts
        call()
        torch.cuda.synchronize()
    events = [e for e in profiler.events()
              if e.device_type == torch.autograd.DeviceType.CUDA and "spin_kernel" not in e.name]
    if not events:
        raise RuntimeError("the profiler recorded no device activity")
    return (max(e.time_range.end for e in events) - min(e.time_range.start for e in events)) * 1e-6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=["eager", "compile"], required=True)
    parser.add_argument("--task", required=True, help="definition.json")
    parser.add_argument("--workloads", required=True, help="JSON list of {uuid, axes, scalars}")
    parser.add_argument("--samples", type=int, default=20)
    arguments = parser.parse_args()
    with open(arguments.task, encoding="utf-8") as file:
        definition = json.load(file)
    with open(arguments.workloads, encoding="utf-8") as file:
        workloads = json.load(file)

    scope = {}
    exec(compile(definition["reference"], "reference", "exec"), scope)  # trusted: the task's own text
    torch._dynamo.config.cache_size_limit = max(64, 2 * len(workloads))
    run = scope["run"]
    if arguments.mode == "compile":
        run = torch.compile(run, dynamic=False)

    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    written = torch.empty(2 * l2_bytes, dtype=torch.uint8, device="cuda")
    read = torch.ones(2 * l2_bytes // 4, dtype=torch.float32, device="cuda")
    sink = torch.empty((), dtype=torch.float32, device="cuda")

    def flush():
        written.fill_(1)
        sink.copy_(read.sum())

    generator = torch.Generator(device="cuda").manual_seed(12345)
    for workload in workloads:
        tensors = make_inputs(definition, workload, generator)
        for _ in range(3):
            run(*tensors)
        torch.cuda.synchronize()
        samples = [span_s(lambda: run(*tensors), flush) for _ in range(arguments.samples)]
        print(json.dumps({"uuid": workload["uuid"], "median_s": statistics.median(samples),
                          "samples": len(samples)}), flush=True)
        del tensors
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
