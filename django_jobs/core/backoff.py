"""
How long a job waits between a failed attempt and the next one.

A task's options or the settings name a policy; the executor asks `delay_of()` after a run that is to be
retried, and the outcome carries the answer to the store. A policy is one of the values below or a callable of
the project's. The values are frozen, so they compare, hash and pickle, and are checked where they are made.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

LONGEST = timedelta(days=3650)
"""No delay is longer. Far beyond it lie years that PostgreSQL stores and Python's datetime can't read."""

NOTHING = timedelta(0)


def require_duration(name: str, value: object, *, zero: bool = False) -> None:
    """Refuse what is no timedelta above zero (or from zero) up to LONGEST, naming the field."""
    allowed = f"a timedelta {'from' if zero else 'above'} zero, at most {LONGEST.days} days"
    if not isinstance(value, timedelta):
        raise TypeError(f"{name}={value!r} must be {allowed}.")
    if not NOTHING <= value <= LONGEST or (value == NOTHING and not zero):
        raise ValueError(f"{name}={value!r} must be {allowed}.")


def require_number(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """Refuse what is no finite number from `least` to `most`, naming the field."""
    allowed = f"a number from {least} to {most}" if most is not None else f"a finite number from {least} up"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}={value!r} must be {allowed}.")
    if not least <= value < float("inf") or (most is not None and value > most):
        raise ValueError(f"{name}={value!r} must be {allowed}.")


def require_attempt(attempt: int) -> None:
    """Refuse what is no number of an attempt."""
    if attempt < 1:
        raise ValueError(f"attempt={attempt!r} must be 1 or more: attempts are counted from 1.")


class Rule:
    """A policy that is a value: what the classes below have in common. It can't fail."""

    __slots__ = ()

    jitter: float
    """The share of a delay, 0 to 1, that chance may take away; 0 makes delays exact."""

    def delay(self, attempt: int, *, spread: random.Random | None = None) -> timedelta:
        """Return the wait after `attempt`, counted from 1. Raises ValueError below."""
        require_attempt(attempt)
        exact = self.exact(attempt)
        if not self.jitter:
            return exact
        drawn = random.random() if spread is None else spread.random()  # noqa: S311 - nothing secret hangs on it
        return exact * (1.0 - self.jitter * drawn)

    def exact(self, attempt: int) -> timedelta:
        """Return the wait before chance takes its part."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Exponential(Rule):
    """
    Wait `base`, then `factor` times longer after each attempt, never over `cap`.

    As it stands: 10 s, 30 s, 90 s, 4.5 min, 13.5 min, 40.5 min, then an hour each time, and of each delay up
    to half is taken away at random, so that jobs which failed together don't come back together.
    """

    base: timedelta = timedelta(seconds=10)
    factor: float = 3.0
    cap: timedelta = timedelta(hours=1)
    jitter: float = 0.5

    def __post_init__(self) -> None:
        require_duration("base", self.base)
        require_number("factor", self.factor, least=1)
        require_duration("cap", self.cap)
        require_number("jitter", self.jitter, least=0, most=1)

    def exact(self, attempt: int) -> timedelta:
        try:
            return min(self.base * float(self.factor) ** (attempt - 1), self.cap)
        except OverflowError:
            return self.cap


@dataclass(frozen=True, slots=True)
class Linear(Rule):
    """Wait `step` after the first attempt and one `step` more after each further one, never over `cap`."""

    step: timedelta = timedelta(seconds=30)
    cap: timedelta = timedelta(hours=1)
    jitter: float = 0.5

    def __post_init__(self) -> None:
        require_duration("step", self.step)
        require_duration("cap", self.cap)
        require_number("jitter", self.jitter, least=0, most=1)

    def exact(self, attempt: int) -> timedelta:
        return self.cap if attempt > self.cap // self.step else self.step * attempt


@dataclass(frozen=True, slots=True)
class Constant(Rule):
    """Wait the same `wait` after every attempt; a wait of zero retries at once."""

    wait: timedelta = timedelta(seconds=30)
    jitter: float = 0.5

    def __post_init__(self) -> None:
        require_duration("wait", self.wait, zero=True)
        require_number("jitter", self.jitter, least=0, most=1)

    def exact(self, attempt: int) -> timedelta:
        return self.wait


Policy = Rule | Callable[..., timedelta | int | float | None]
"""
A rule, or a callable given attempt and exception that returns a timedelta, seconds, or `None` to give up.

One that takes a third parameter is given the job's arguments too, as a `Call`.
"""


class Call(NamedTuple):
    """The arguments of the job that failed."""

    args: list[Any]
    kwargs: dict[str, Any]


DEFAULT = Exponential()


class Wait(NamedTuple):
    """
    The answer of `delay_of`: how long, or `None` to make no other attempt, and what was wrong with the
    policy's own answer, if anything.
    """

    delay: timedelta | None
    problem: str | None = None


def delay_of(
    policy: Policy,
    attempt: int,
    exception: BaseException | None = None,
    *,
    call: Callable[[], Call] = lambda: Call([], {}),
    default: Rule = DEFAULT,
    spread: random.Random | None = None,
) -> Wait:
    """
    Return how long `policy` wants to wait after `attempt`, counted from 1. Raises ValueError below.

    A callable's answer is taken as it is, without jitter. When it raises, or answers what is no delay, the
    job must still come back: `default` decides instead, and the answer's `problem` is a sentence to log.
    `call` is asked for the job's arguments if the callable wants them.
    """
    if isinstance(policy, Rule):
        return Wait(policy.delay(attempt, spread=spread))
    require_attempt(attempt)
    try:
        answer = policy(attempt, exception, call()) if wants_call(policy) else policy(attempt, exception)
        return Wait(None if answer is None else as_delay(answer))
    except Exception as error:  # noqa: BLE001 - whatever the project's code raises becomes the answer's problem
        problem = (
            f"The backoff {name_of(policy)} gave no delay for attempt {attempt} "
            f"({type(error).__name__}: {text_of(error)}), so {default} decided."
        )
        return Wait(default.delay(attempt, spread=spread), problem)


def is_policy(value: object) -> bool:
    """Tell whether `delay_of` can ask `value`. Calling a class or a coroutine function gives no delay."""
    if isinstance(value, Rule):
        return True
    return callable(value) and not isinstance(value, type) and not inspect.iscoroutinefunction(value)


def wants_call(policy: Callable[..., object]) -> bool:
    """Tell whether a callable takes a third positional parameter."""
    try:
        inspect.signature(policy).bind(1, None, Call([], {}))
    except (TypeError, ValueError):
        return False
    return True


def as_delay(answer: object) -> timedelta:
    """Return a callable's answer as a timedelta; TypeError or ValueError when it isn't a delay."""
    if isinstance(answer, timedelta):
        delay = answer
    elif isinstance(answer, int | float) and not isinstance(answer, bool):
        if not 0 <= answer <= LONGEST.total_seconds():
            raise ValueError(f"{answer!r} seconds are not between 0 and {LONGEST.days} days")
        delay = timedelta(seconds=answer)
    else:
        if inspect.iscoroutine(answer):
            answer.close()  # or Python warns, far from here, that it was never awaited
        raise TypeError(f"it must return a timedelta or seconds, not {type(answer).__name__}")
    if not NOTHING <= delay <= LONGEST:
        raise ValueError(f"{delay!r} is not between 0 and {LONGEST.days} days")
    return delay


def name_of(function: object) -> str:
    """Return a function's dotted name, or what its object's class is called."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{getattr(named, '__qualname__', '')}"


def text_of(error: Exception) -> str:
    """Return the exception's message, also of one whose own `__str__` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a message is missed, nothing else: the problem names the class
        return "no message"
