"""SIGINT, SIGTERM and SIGHUP end a command that runs Spark: with 130, 143 and 129, whatever the signal interrupts."""

from __future__ import annotations

import signal

from penstock._command import ending_signals

__all__ = ["Stopped", "Stops"]


class Stopped(BaseException):
    """A signal asked for the end. No Exception: py4j takes those for a lost connection to its JVM."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Stops:
    """The signals that came. Main thread."""

    def __init__(self) -> None:
        #: The first signal that came.
        self.asked: int | None = None

    def take(self, *, at_once: bool) -> None:
        """Takes signals from now on: ``at_once`` the first one raises :class:`Stopped`, else the second one.

        A command that sees the first one in :attr:`asked` does what is left to do, and raises then.
        """

        def handle(number: int, _: object) -> None:
            is_first, self.asked = self.asked is None, self.asked or number
            if at_once or not is_first:
                raise Stopped(number)

        for number in ending_signals():
            signal.signal(number, handle)

    def ignore(self) -> None:
        """Lets signals change nothing from now on: how the command ends is known, and the rest takes a moment."""
        for number in ending_signals():
            signal.signal(number, signal.SIG_IGN)

    def exit_code(self, error: BaseException) -> int | None:
        """Returns the exit code if ``error`` is due to a signal; ``None`` if it is a failure."""
        if isinstance(error, Stopped):
            return error.exit_code
        if isinstance(error, KeyboardInterrupt):  # PySpark has a handler of its own in place for a moment
            return 128 + signal.SIGINT
        # A signal that has reached the JVM as well breaks the calls to it.
        return None if self.asked is None else 128 + self.asked
