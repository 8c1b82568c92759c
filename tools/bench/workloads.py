"""The workloads of qkv-bench, for the programs that compute them with other libraries: sizes, command line, clock."""
import argparse
import json
import resource
import statistics
import time
import typing

FEWEST_STEPS = 5
WARM_UP = 3


class Workload(typing.NamedTuple):
    width: int
    heads: int
    inner: int
    layers: int  # of the encoder, and of the decoder
    words: int  # of the vocabulary, on either side
    sentences: int  # of a training batch
    tokens: int  # of a sentence, with </s>


WORKLOADS = {
    "toy": Workload(64, 4, 256, 2, 200, 32, 10),
    "small": Workload(128, 4, 256, 4, 10000, 64, 15),
    "base": Workload(512, 8, 2048, 3, 10000, 64, 15),
}
BEAM = 4
DECODING = {"greedy 1": (1, 1), "greedy 64": (1, 64), "beam 1": (BEAM, 1), "beam 64": (BEAM, 64)}  # beam size, sentences


def argument_parser(description, measures):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--what", choices=measures, default=measures[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200, help="timed steps, at most [%(default)s]")
    parser.add_argument("--seconds", type=float, default=3, help="time to spend; a few steps are timed in any case [%(default)s]")
    return parser


def print_times(step, steps, seconds, warm_up=WARM_UP, **others):
    """Runs step(0), step(1), ...: first untimed, then timed, as qkv-bench does. Prints JSON: median and mean ms of a step, mean
    ms of processor time, the peak of memory in MB, and `others`."""
    for i in range(warm_up):
        step(i)
    times, used, ends = [], time.process_time(), time.perf_counter() + seconds
    while len(times) < steps and (len(times) < FEWEST_STEPS or time.perf_counter() < ends):
        started = time.perf_counter()
        step(warm_up + len(times))
        times.append(time.perf_counter() - started)
    print(json.dumps({
        "ms": 1e3 * statistics.median(times),
        "ms_mean": 1e3 * statistics.mean(times),
        "cpu_ms": 1e3 * (time.process_time() - used) / len(times),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        **others}))
