"""The commands of vidmm as functions. Options are those of the command line: `local_memory="50%"` is `--local-memory 50%`."""

from __future__ import annotations

import csv
import inspect
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, Union

from . import _native
from ._table import Table

#: A name such as "lru" or "predict:sample=16", a class, or a name with what makes a policy.
PolicyLike = Union[str, Callable[..., object], tuple[str, Callable[..., object]]]

#: Requests of a trace: names of objects, or names with the size in bytes, or those with "read", "write" or "delete" behind, and
#: with the name of a process behind that in each request or in none.
Requests = Iterable[Any]


class Error(ValueError):
    """The input or the arguments are wrong."""


class PolicyWarning(UserWarning):
    """A policy broke a rule. The run went on, with the candidate that the documented order names."""


class Broken(NamedTuple):
    """A rule that a policy broke."""

    policy: str
    hook: str
    rule: str
    #: What the policy did the first time.
    deed: str
    times: int

    def __str__(self) -> str:
        times = f"; {self.times} times in all" if self.times > 1 else ""
        return f"{self.rule}: policy {self.policy}, hook `{self.hook}`: {self.deed}{times}"


@dataclass
class Called:
    """The findings of a command."""

    #: All that was checked held, and no policy broke a rule.
    holds: bool
    #: What the command printed.
    text: str = field(repr=False)
    broken: list[Broken]


# A process has one standard output, and one call at a time has it.
_output = threading.RLock()


@contextmanager
def _captured() -> Iterator[IO[bytes]]:
    """The output of native code goes to a file meanwhile."""
    with _output, tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        saved = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield file
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def called(words: list[str], policies: Iterable[PolicyLike] = (), stacklevel: int = 3) -> Called:
    """Carries out a command line, with policies of its own."""
    own = [_own(policy) for policy in policies if not isinstance(policy, str)]
    with _captured() as file:
        try:
            holds, broken = _native.call(words, own)
        except ValueError as error:
            raise Error(str(error)) from None
        file.seek(0)
        text = file.read().decode()
    result = Called(holds, text, [Broken(*one) for one in broken])
    for one in result.broken:
        warnings.warn(str(one), PolicyWarning, stacklevel=stacklevel)
    return result


def _own(policy: Any) -> tuple[str, Callable[..., object], bool]:
    """The name of a policy in Python, what makes it, and whether that takes a seed."""
    name, make = policy if isinstance(policy, tuple) else (getattr(policy, "__name__", None), policy)
    if not isinstance(name, str) or not callable(make):
        raise TypeError(f"{policy!r} is no policy; give a name, a class, or a name with what makes a policy")
    try:
        has_seed = "seed" in inspect.signature(make).parameters
    except (TypeError, ValueError):
        has_seed = False
    return name, make, has_seed


def _name(policy: PolicyLike) -> str:
    return policy if isinstance(policy, str) else _own(policy)[0]


def _words(options: Mapping[str, Any]) -> list[str]:
    """The options of a command line. None and False are left out; several values are joined by commas."""
    words: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            several = value if isinstance(value, (list, tuple)) else [value]
            words.append(",".join(os.fspath(one) if isinstance(one, os.PathLike) else str(one) for one in several))
    return words


def _is_path(trace: Any) -> bool:
    return isinstance(trace, (str, os.PathLike))


def _inputs(traces: Any, folder: str) -> list[str]:
    """The files of the traces: requests are written to files of the folder."""
    if _is_path(traces):
        traces = [traces]
    named: Iterable[tuple[Any, Any]]
    named = traces.items() if isinstance(traces, Mapping) else ((None, trace) for trace in traces)
    inputs = []
    for number, (name, trace) in enumerate(named, 1):
        if _is_path(trace):
            inputs.append(os.fspath(trace))
            continue
        if isinstance(trace, tuple):
            raise TypeError(f"{trace!r} is no trace; give a path or an iterable of requests, and [requests] for one trace alone")
        path = Path(folder) / f"{name or f'trace-{number}'}.csv"
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            has_process = False
            for time, request in enumerate(trace):
                request = request if isinstance(request, tuple) else (request,)
                if time == 0:
                    has_process = len(request) == 4
                    writer.writerow(["time", "id", "size", "op", *["process"] * has_process])
                if len(request) != 4 if has_process else not 1 <= len(request) <= 3:
                    forms = "`id`, `(id, size)` or `(id, size, op)`, or all of them as `(id, size, op, process)`"
                    raise TypeError(f"{request!r} is no request; give {forms}")
                writer.writerow([time, *request, *(1, "read")[len(request) - 1 :]])
        inputs.append(str(path))
    return inputs


class Replayed(Table):
    """The rows of `replay`: one for each trace, size of memory and policy. docs/guides/traces.md explains the columns."""

    def __init__(self, parquet: bytes, called: Called) -> None:
        super().__init__(parquet)
        #: The table as `vidmm replay` prints it.
        self.text = called.text
        #: The rules that policies broke.
        self.broken = called.broken

    def __repr__(self) -> str:
        return self.text


def replay(
    traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Requests] | Mapping[str, Requests],
    policies: Iterable[PolicyLike] = ("lru", "clock", "s3-fifo", "lfu-da", "predict"),
    local_memory: str | Iterable[str] = ("25%", "50%", "75%", "90%"),
    **options: Any,
) -> Replayed:
    """Replays traces under policies and sizes of memory, as `vidmm replay` does. Options are those of the command.

    A trace is the path of a file, or an iterable of requests: `"a"`, `("a", 4096)`, `("a", 4096, "write")` or `("a", 4096, "write",
    "process")`. A mapping gives iterables their names. Policies in Python run one after another on this thread; without one all processors are used.
    """
    policies = [policies] if isinstance(policies, str) or callable(policies) else list(policies)
    local_memory = local_memory if isinstance(local_memory, str) else list(local_memory)
    if any(not isinstance(policy, str) for policy in policies):
        options["jobs"] = 1
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.parquet"
        given = {"policy": [_name(policy) for policy in policies], "local_memory": local_memory, "parquet": rows}
        words = ["replay", *_inputs(traces, folder), *_words(given | options)]
        result = called(words, policies)
        if parquet := options.get("parquet"):
            return Replayed(Path(parquet).read_bytes(), result)
        return Replayed(rows.read_bytes(), result)


def run(scenario: str | os.PathLike[str] | None = None, policy: PolicyLike | None = None, **options: Any) -> Called:
    """Runs a scenario or a trace on the model GPU and checks every page, as `vidmm run` does. `events=PATH` writes a log."""
    own = [policy] if policy is not None else []
    given = {"policy": [_name(policy) for policy in own] or None}
    scenarios = [] if scenario is None else [os.fspath(scenario)]
    return called(["run", *scenarios, *_words(given | options)], own)


def sim(seeds: str = "1..100", policy: PolicyLike | None = None, **options: Any) -> Called:
    """Draws worlds at random under a policy, and judges every step by the rules, as `vidmm sim` does."""
    own = [policy] if policy is not None else []
    if any(not isinstance(policy, str) for policy in own):
        options["jobs"] = 1
    given = {"seeds": seeds, "policy": [_name(policy) for policy in own] or None}
    return called(["sim", *_words(given | options)], own)
