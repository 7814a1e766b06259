"""Processes that take turns, call by call, as a :class:`Choices` says. One thread; a process is a greenlet.

A *call* is whatever one process does that another could see: a request to a store, to a broker, to Spark. All that
happens between two calls of a process happens at once, since no process can notice it. At each call the scheduler
chooses whose turn it is and how the call ends:

- it is done, and answered;
- its process is killed before it, after it, or inside it (what a killed call leaves, its *torn* form, is there then);
- it fails, and nothing was done; or it was done all the same;
- it fails by a timeout, and is done at some later time, or never;
- it meets an *outage* of the system that it asks: every call of every process to that system fails until it is over.
  The system refuses calls at once, or answers none: then each caller waits for its timeout, and what it has asked for
  is done, or is done later, or never.

A process that is killed never runs again: nothing that it would do in ``finally`` has an effect.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from penstock.system import System
from penstock.testing.simulation._choices import Choices

__all__ = ["TIMEOUT_S", "Event", "Faults", "Process", "Scheduler", "SimulatedSystem", "Stuck"]

ResultT = TypeVar("ResultT")
_MOST_STEPS = 20_000
_START_US = 1_800_000_000_000_000
#: For how long a process waits for the answer of a system that gives none (s).
TIMEOUT_S = 10.0


class Stuck(AssertionError):
    """Nothing leads anywhere any more, or nothing ever ends."""


@dataclass
class Faults:
    """How often what may go wrong in one schedule; ``switch`` is how probable it is that another process continues."""

    crashes: int = 1
    crash: float = 0.02
    late_calls: int = 1
    late: float = 0.02
    errors: int = 1
    error: float = 0.02
    switch: float = 0.2
    #: How probable it is, at each step, that one of the events that may happen at any time does.
    event: float = 0.02
    #: How many outages begin, how probable it is at each call, and how long one may last (s).
    outages: int = 0
    outage: float = 0.02
    outage_s: tuple[float, ...] = (20.0, 90.0, 600.0)


@dataclass(eq=False)
class Process:
    """A process of the simulated machine, or a thread of one (``parent`` is then the process)."""

    name: str
    greenlet: greenlet
    parent: Process | None = None
    alive: bool = True
    call: _Call | None = None
    until: Callable[[], bool] | None = None
    wakes_at: float = 0.0
    #: What it learns when it wakes up.
    answer: _Raised | None = None
    #: For how long it has waited, for answers and between tries, since the last of its calls that met no outage (s).
    cut_off_s: float = 0.0
    threads: list[Process] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    on_end: Callable[[Process], None] | None = None
    #: The answers that it has got until now, and those of its children when they ended, as hashes: two processes of
    #: one name that agree in it are in the same state.
    history: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    starter: Process | None = None
    #: How many of its name there were before, and how many ids it has asked for.
    namesakes: int = 0
    ids: int = 0
    #: By how much its machine's clock is ahead.
    skew_us: int = 0

    @property
    def root(self) -> Process:
        """The process that this is, or is a thread of."""
        return self if self.parent is None else self.parent.root


@dataclass
class _Call:
    label: str
    effect: Callable[[], Any]
    torn: Callable[[], Any] | None
    may_fail: bool
    may_kill: bool
    may_be_late: bool
    of: str


@dataclass
class _Outage:
    """``answers``: with a refusal."""

    until_us: int
    answers: bool


@dataclass
class Event:
    """Something that happens from outside, at any time while ``may_happen``. ``is_fault``: not after faults stopped."""

    name: str
    may_happen: Callable[[], bool]
    happen: Callable[[], None]
    is_fault: bool = True


class Scheduler:
    """Runs one schedule. ``trace`` has a line for each step: who, what, how it ended."""

    def __init__(self, choices: Choices, faults: Faults | None = None) -> None:
        self.choices = choices
        self.faults = faults or Faults()
        self.trace: list[tuple[str, str, str]] = []
        #: The names of the processes that were killed, also by a power failure.
        self.killed: set[str] = set()
        self.processes: list[Process] = []
        self.events: list[Event] = []
        self.in_flight: list[tuple[str, str, int, Callable[[], Any]]] = []
        #: How calls have ended; and what was called, by the first word of its label.
        self.counts: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.clock_us = _START_US
        self.tick_us = 1000
        self.after_step: Callable[[], None] = lambda: None
        self._main = getcurrent()
        self._last: Process | None = None
        self._names: Counter[str] = Counter()
        self._crashes = self.faults.crashes
        self._late_calls = self.faults.late_calls
        self._errors = self.faults.errors
        self._outages = self.faults.outages
        #: Those that last, by the system.
        self._out: dict[str, _Outage] = {}

    # What simulated processes use.

    @property
    def current(self) -> Process:
        """The process that runs now."""
        found = getattr(getcurrent(), "process", None)
        assert found is not None, "no simulated process"
        process: Process = found
        return process

    def spawn(
        self,
        name: str,
        work: Callable[[], object],
        *,
        thread_of: Process | None = None,
        on_end: Callable[[Process], None] | None = None,
    ) -> Process:
        """Returns a process that is going to do ``work``. What it raises is in ``error`` of the process."""

        def run(_: object = None) -> None:
            try:
                work()
            except GreenletExit:
                raise
            except BaseException as error:
                process.error = error

        process = Process(name, _ProcessGreenlet(run, self._main), thread_of, on_end=on_end)
        process.greenlet.process = process
        process.namesakes = self._names[name]
        self._names[name] += 1
        process.starter = getattr(getcurrent(), "process", None)
        if process.starter is not None:
            process.history = hash((process.starter.history, name))
            process.skew_us = process.starter.skew_us
        self.processes.append(process)
        if thread_of is not None:
            thread_of.threads.append(process)
        return process

    def call(
        self,
        label: str,
        effect: Callable[[], ResultT],
        *,
        torn: Callable[[], Any] | None = None,
        may_fail: bool = True,
        may_kill: bool = True,
        may_be_late: bool = True,
        of: str = "target",
    ) -> ResultT:
        """Does ``effect`` when it is this process's turn, and returns what it returns.

        ``may_be_late``: also after its caller got a timeout. ``of`` names the system that is asked, which may be out.

        A call that is made by another one's effect is a part of that.
        """
        process = getattr(getcurrent(), "process", None)
        if process is None:
            return effect()
        if not process.root.alive:
            raise GreenletExit
        process.call = _Call(label, effect, torn, may_fail, may_kill, may_be_late, of)
        answer = self._main.switch()
        if not process.root.alive:
            raise GreenletExit
        if isinstance(answer, _Raised):
            raise answer.error
        return answer  # type: ignore[no-any-return]

    def pick(self, count: int, likely: float) -> int:
        """Returns a choice that the current process makes."""
        chosen = self.choices.pick(count, likely)
        self.tell(chosen)
        return chosen

    def has_trouble(self, what: str) -> bool:
        """Returns whether a call in flight has an error of the kind ``what``; counts as one of the errors."""
        if self._errors and self.choices.pick(2, 1 - self.faults.error):
            self._errors -= 1
            self.counts[what] += 1
            return True
        return False

    def tell(self, value: object) -> None:
        """The current process has learned something in another way than by a call."""
        self.current.history = hash((self.current.history, repr(value)))

    def state(self) -> object:
        """Returns all that decides what the processes can do from now on; hashable."""
        return (
            tuple(
                sorted(
                    (one.name, one.history, one.skew_us, one.wakes_at, tuple(sorted(one.ended.items())))
                    for one in self.processes
                )
            ),
            tuple(sorted(one[:3] for one in self.in_flight)),
            (self._crashes, self._late_calls, self._errors, self._outages, self.clock_us),
            tuple(sorted((of, one.until_us, one.answers) for of, one in self._out.items())),
        )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Returns when it holds, and it is this process's turn."""
        process = self.current
        if process.root.alive:
            process.until = condition
            self._main.switch()
        # Also of a process that was killed and waits again while its stack is unwound: it would be kept forever.
        if not process.root.alive:
            raise GreenletExit

    def sleep(self, seconds: float) -> None:
        """Returns when the clock has moved so far."""
        until = self.clock_us + int(seconds * 1_000_000)
        process = self.current
        process.cut_off_s += seconds
        process.wakes_at = until
        self.wait_until(lambda: self.clock_us >= until)
        process.wakes_at = 0

    def kill(self, process: Process) -> None:
        """SIGKILL, with all its threads. May be called by the process itself."""
        process = process.root
        if not process.alive:
            return
        process.alive = False
        self.killed.add(process.name)
        self.counts["killed"] += 1
        for one in (process, *process.threads):
            self._bury(one)

    def lose_power(self) -> None:
        """SIGKILL to every process; calls in flight never land."""
        for process in list(self.processes):
            self.kill(process)
        self.in_flight.clear()

    def _bury(self, process: Process) -> None:
        process.alive = False
        process.call = process.until = None
        if process in self.processes:
            self.processes.remove(process)
        # Unwinds its stack; calls on the way have no effect.
        if process.greenlet and process.greenlet is not getcurrent():
            process.greenlet.parent = getcurrent()
            process.greenlet.throw(GreenletExit)
        if process.on_end is not None:
            process.on_end(process)

    # What runs them.

    def run(self, is_over: Callable[[], bool]) -> None:
        """Until it is over. Raises what an oracle raises in ``after_step``, and Stuck."""
        steps = 0
        while not is_over():
            steps += 1
            if steps > _MOST_STEPS:
                raise Stuck(f"no end after {_MOST_STEPS} steps")
            self._step()
            self.after_step()

    def stop_faults(self) -> None:
        """Answers all calls and kills no process from now on; calls that are late still land."""
        self._crashes = self._late_calls = self._errors = self._outages = 0
        self._out.clear()
        self.events = [event for event in self.events if not event.is_fault]

    def close(self) -> None:
        """Ends what still runs."""
        for process in list(self.processes):
            process.root.alive = False
        for process in list(self.processes):
            self._bury(process)

    def _runnable(self) -> list[Process]:
        found = [process for process in self.processes if process.until is None or process.until()]
        if self._last in found:  # the last process continues if nothing is chosen
            found.remove(self._last)
            found.insert(0, self._last)
        return found

    def _step(self) -> None:
        happening = [event for event in self.events if event.may_happen()]
        if happening and self.choices.pick(2, 1 - self.faults.event):
            event = happening[self.choices.pick(len(happening), 1 / len(happening))]
            self._note("", event.name, "")
            event.happen()
            return
        if self.in_flight and self.choices.pick(2, 0.9):
            self._land(self.choices.pick(len(self.in_flight), 0.5))
            return
        runnable = self._runnable()
        if not runnable:
            self._pass_time()
            return
        process = runnable[self.choices.pick(len(runnable), 1 - self.faults.switch)]
        self._last = process
        self.clock_us += self.tick_us
        if process.call is None:
            answer, process.answer = process.answer, None
            process.until, process.wakes_at = None, 0.0
            self._resume(process, answer)
            return
        self._answer(process, process.call)

    def _pass_time(self) -> None:
        sleepers = [process.wakes_at for process in self.processes if process.wakes_at > self.clock_us]
        if sleepers:
            self.clock_us = int(min(sleepers))
        elif self._out and not self.choices.pick(2, 0.5):
            self.clock_us = min(one.until_us for one in self._out.values())
            self._note("", "time passes until an outage is over", "")
        elif self.in_flight:
            self._land(0)
        else:
            events = [event for event in self.events if event.may_happen()]
            if not events:
                raise Stuck("no process can continue: " + ", ".join(process.name for process in self.processes))
            self._note("", events[0].name, "")
            events[0].happen()

    def _land(self, index: int) -> None:
        name, label, _, effect = self.in_flight.pop(index)
        try:
            effect()
            self._note(name, label, "a late call lands")
        except Exception as error:
            self._note(name, label, f"a late call lands: {type(error).__name__}")

    def _answer(self, process: Process, call: _Call) -> None:
        process.call = None
        how = self._how(call)
        if how != "refused" and not how.startswith("unanswered"):
            process.cut_off_s = 0.0
        self.counts[how] += 1
        self.calls[call.label.split(maxsplit=1)[0]] += 1
        if how == "killed before":
            self._end(process, call, how)
        elif how == "killed inside":
            assert call.torn is not None
            call.torn()
            self._end(process, call, how)
        elif how.startswith("unanswered"):
            self._leave_unanswered(process, call, how)
        elif how in ("fails", "times out", "refused"):
            if how == "times out":
                self.in_flight.append((process.name, call.label, process.history, call.effect))
            self._note(process.name, call.label, how)
            self._resume(process, _Raised(OSError(f"{call.label}: {how} (simulated)")))
        else:
            answer = self._do(call)
            outcome = f"→ {type(answer.error).__name__}" if isinstance(answer, _Raised) else _shown(answer)
            if how == "killed after":
                self._end(process, call, how)
                return
            if how == "done, and fails":
                answer = _Raised(OSError(f"{call.label}: the answer was lost (simulated)"))
            self._note(process.name, call.label, outcome if how == "done" else how)
            self._resume(process, answer)

    def _how(self, call: _Call) -> str:
        outage = self._outage_of(call)
        if call.may_kill and self._crashes and self.choices.pick(2, 1 - self.faults.crash):
            self._crashes -= 1
            ways = ["killed before", "killed after", *(["killed inside"] if call.torn is not None else [])]
            return ways[self.choices.pick(len(ways), 1 / len(ways))] if outage is None else ways[0]
        if outage is not None:
            return self._how_in_outage(call, outage)
        if call.may_fail and call.may_be_late and self._late_calls and self.choices.pick(2, 1 - self.faults.late):
            self._late_calls -= 1
            return "times out"
        if call.may_fail and self._errors and self.choices.pick(2, 1 - self.faults.error):
            self._errors -= 1
            return ("fails", "done, and fails")[self.choices.pick(2, 0.5)]
        return "done"

    def _outage_of(self, call: _Call) -> _Outage | None:
        """Returns the outage that a call meets, or begins."""
        if not call.of:
            return None
        outage = self._out.get(call.of)
        if outage is not None and outage.until_us <= self.clock_us:
            del self._out[call.of]
            outage = None
        if outage is None and self._outages and self.choices.pick(2, 1 - self.faults.outage):
            self._outages -= 1
            lengths = self.faults.outage_s
            length_s = lengths[self.choices.pick(len(lengths), 1 / len(lengths))]
            outage = _Outage(self.clock_us + int(length_s * 1_000_000), self.choices.pick(2, 0.5) == 0)
            self._out[call.of] = outage
            what = "refuses calls" if outage.answers else "does not answer"
            self._note("", f"the {call.of} {what} for {length_s:g} s", "")
        return outage

    def _how_in_outage(self, call: _Call, outage: _Outage) -> str:
        if outage.answers:
            return "refused"
        ways = ["unanswered", "unanswered, and done", *(["unanswered, and late"] if call.may_be_late else [])]
        return ways[self.choices.pick(len(ways), 0.5)]

    def _leave_unanswered(self, process: Process, call: _Call, how: str) -> None:
        if how == "unanswered, and late":
            self.in_flight.append((process.name, call.label, process.history, call.effect))
        elif how == "unanswered, and done":
            self._do(call)
        self._note(process.name, call.label, how)
        wakes_at = self.clock_us + int(TIMEOUT_S * 1_000_000)
        process.cut_off_s += TIMEOUT_S
        process.answer = _Raised(OSError(f"{call.label}: no answer (simulated)"))
        process.wakes_at, process.until = wakes_at, lambda: self.clock_us >= wakes_at

    @staticmethod
    def _do(call: _Call) -> Any:
        try:
            return call.effect()
        except Exception as error:
            return _Raised(error)

    def _end(self, process: Process, call: _Call, how: str) -> None:
        self._note(process.name, call.label, how)
        self.kill(process)

    def _resume(self, process: Process, answer: Any) -> None:
        told = (type(answer.error).__name__, str(answer.error)) if isinstance(answer, _Raised) else repr(answer)
        process.history = hash((process.history, told))
        process.greenlet.switch(answer)
        if process.greenlet.dead and process.alive:
            process.alive = False
            self.processes.remove(process)
            if process.starter is not None:
                process.starter.ended[process.name] = process.history
            if process.on_end is not None:
                process.on_end(process)

    def _note(self, who: str, what: str, how: str) -> None:
        self.trace.append((who, what, how))


class _ProcessGreenlet(greenlet):
    process: Process


@dataclass
class _Raised:
    error: Exception


def _shown(answer: Any) -> str:
    if answer is None:
        return ""
    text = f"{len(answer)} bytes" if isinstance(answer, bytes) else repr(answer)
    return "→ " + (text if len(text) <= 80 else text[:77] + "…")


class SimulatedSystem(System):
    """Time that only the scheduler moves, names that count, threads that take turns."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_us(self) -> int:
        return self._scheduler.clock_us + self._scheduler.current.root.skew_us

    def monotonic(self) -> float:
        return self._scheduler.clock_us / 1_000_000

    def sleep(self, seconds: float) -> None:
        self._scheduler.sleep(seconds)

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def new_id(self) -> str:
        # By who asks, so that it does not depend on who else has asked before. A batch function that writes again
        # starts tasks of the same names, which must not get the ids of the first ones.
        process = self._scheduler.current
        process.ids += 1
        return hashlib.sha256(f"{process.name}{' again' * process.namesakes} {process.ids}".encode()).hexdigest()[:32]

    def executor(self, threads: int, name: str) -> Executor:
        return _SimulatedThreads(self._scheduler, name)


class _SimulatedThreads(Executor):
    """A thread for each piece of work: more than the real one has, and so more interleavings."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler = scheduler
        self._name = name
        self._waiting: list[Future[Any]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = _SimulatedFuture(self._scheduler)
        owner = self._scheduler.current
        if not owner.root.alive:
            raise GreenletExit

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return  # as one that waits for a thread
            try:
                future.set_result(work(*args, **kwargs))
            except GreenletExit:
                raise
            except BaseException as error:
                future.set_exception(error)

        name = f"{owner.name}/{self._name}-{len(self._waiting)}"
        self._scheduler.spawn(name, run, thread_of=owner.root)
        self._waiting.append(future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if wait:
            self._scheduler.wait_until(lambda: all(future.done() for future in self._waiting))


class _SimulatedFuture(Future[Any]):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def result(self, timeout: float | None = None) -> Any:
        self._scheduler.wait_until(self.done)
        return super().result(0)
