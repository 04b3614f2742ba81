"""Backoff policies: what they answer, what they refuse, and that a job comes back whatever they do."""

from __future__ import annotations

import pickle
import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_jobs.core.backoff import (
    DEFAULT,
    LONGEST,
    Call,
    Constant,
    Exponential,
    Linear,
    Wait,
    delay_of,
    is_policy,
)

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)

durations = st.timedeltas(min_value=timedelta(microseconds=1), max_value=LONGEST)
shares = st.floats(min_value=0, max_value=1)
rules = st.one_of(
    st.builds(
        Exponential,
        durations,
        st.floats(min_value=1, allow_nan=False, allow_infinity=False),
        durations,
        shares,
    ),
    st.builds(Linear, durations, durations, shares),
    st.builds(Constant, durations, shares),
)
attempts = st.integers(min_value=1, max_value=10**6)


def seconds(policy, *attempts):
    return [policy.delay(attempt).total_seconds() for attempt in attempts]


class TestExponential:
    def test_each_delay_is_the_factor_times_the_one_before(self):
        policy = Exponential(base=timedelta(milliseconds=10), factor=2, jitter=0)

        assert seconds(policy, 1, 2, 3) == [0.01, 0.02, 0.04]

    def test_the_default_goes_from_ten_seconds_to_an_hour(self):
        assert seconds(Exponential(jitter=0), 1, 2, 3, 4, 5, 6, 7, 8) == [
            10,
            30,
            90,
            270,
            810,
            2430,
            3600,
            3600,
        ]

    def test_a_factor_of_one_never_grows(self):
        assert Exponential(factor=1, jitter=0).delay(10**6) == timedelta(seconds=10)

    def test_a_cap_below_the_base_wins(self):
        assert Exponential(base=HOUR, cap=SECOND, jitter=0).delay(1) == SECOND


class TestLinear:
    def test_each_attempt_adds_a_step_up_to_the_cap(self):
        policy = Linear(step=timedelta(seconds=30), cap=timedelta(seconds=100), jitter=0)

        assert seconds(policy, 1, 2, 3, 4, 5) == [30, 60, 90, 100, 100]


class TestConstant:
    def test_every_delay_is_the_same(self):
        assert seconds(Constant(timedelta(seconds=7), jitter=0), 1, 2, 10**6) == [7, 7, 7]

    def test_a_wait_of_zero_retries_at_once(self):
        assert Constant(timedelta(0)).delay(3) == timedelta(0)


class TestEveryRule:
    @pytest.mark.parametrize("policy", [Exponential(), Linear(), Constant(), lambda attempt, exception: 1])
    def test_an_attempt_below_one_is_an_error(self, policy):
        with pytest.raises(ValueError, match="attempt=0 must be 1 or more"):
            delay_of(policy, 0)

    @pytest.mark.parametrize("attempt", [10**6, 2**64, 10**400])
    @pytest.mark.parametrize("policy", [Exponential(jitter=0), Linear(jitter=0), Exponential(cap=LONGEST)])
    def test_a_huge_attempt_waits_no_longer_than_the_cap(self, policy, attempt):
        delay = policy.delay(attempt, spread=random.Random(1))

        assert policy.cap * (1 - policy.jitter) <= delay <= policy.cap

    @given(rules, attempts, st.randoms(use_true_random=False))
    def test_chance_takes_away_no_more_than_the_jitters_share(self, policy, attempt, spread):
        exact = type(policy)(
            **{name: getattr(policy, name) for name in policy.__slots__ if name != "jitter"}, jitter=0
        ).delay(attempt)

        delay = policy.delay(attempt, spread=spread)

        tick = timedelta(microseconds=1)
        assert exact * (1 - policy.jitter) - tick <= delay <= exact

    @given(rules, attempts)
    def test_without_chance_a_later_attempt_never_waits_shorter(self, policy, attempt):
        class Never(random.Random):
            def random(self):
                return 0.0

        assert policy.delay(attempt, spread=Never()) <= policy.delay(attempt + 1, spread=Never()) <= LONGEST

    def test_jobs_that_failed_together_come_back_apart(self):
        delays = {Exponential().delay(5) for _ in range(50)}

        assert len(delays) > 40

    def test_the_same_seed_gives_the_same_delay(self):
        assert Linear().delay(3, spread=random.Random(7)) == Linear().delay(3, spread=random.Random(7))

    @given(rules)
    def test_it_pickles_hashes_and_compares_as_a_value(self, policy):
        copy = pickle.loads(pickle.dumps(policy))

        assert copy == policy
        assert hash(copy) == hash(policy)

    def test_it_cant_be_changed(self):
        policy: Any = Exponential()

        with pytest.raises(AttributeError):
            policy.base = HOUR


class TestBadValues:
    @pytest.mark.parametrize(
        ("rule", "options", "error", "message"),
        [
            (Exponential, {"base": 10}, TypeError, r"base=10 must be a timedelta above zero, at most 3650 d"),
            (Exponential, {"base": timedelta(0)}, ValueError, r"base=datetime\.timedelta\(0\) must be"),
            (Exponential, {"cap": -SECOND}, ValueError, r"cap=.* must be a timedelta above zero"),
            (Exponential, {"cap": timedelta.max}, ValueError, r"cap=.* must be .* at most 3650 days"),
            (Exponential, {"factor": "3"}, TypeError, r"factor='3' must be a finite number from 1 up"),
            (Exponential, {"factor": True}, TypeError, r"factor=True must be"),
            (Exponential, {"factor": 0.5}, ValueError, r"factor=0\.5 must be a finite number from 1 up"),
            (Exponential, {"factor": float("inf")}, ValueError, r"factor=inf must be"),
            (Exponential, {"factor": float("nan")}, ValueError, r"factor=nan must be"),
            (Exponential, {"jitter": 1.01}, ValueError, r"jitter=1\.01 must be a number from 0 to 1"),
            (Linear, {"step": None}, TypeError, r"step=None must be"),
            (Linear, {"cap": timedelta(0)}, ValueError, r"cap=.* must be"),
            (Linear, {"jitter": -0.1}, ValueError, r"jitter=-0\.1 must be"),
            (Constant, {"wait": -SECOND}, ValueError, r"wait=.* must be a timedelta from zero"),
            (Constant, {"jitter": None}, TypeError, r"jitter=None must be"),
        ],
    )
    def test_the_error_names_the_field_the_value_and_what_is_allowed(self, rule, options, error, message):
        with pytest.raises(error, match=message):
            rule(**options)


class TestDelayOf:
    def test_it_asks_a_rule(self):
        assert delay_of(Constant(SECOND, jitter=0), 3) == Wait(SECOND, None)

    @pytest.mark.parametrize(
        ("answer", "delay"),
        [
            (timedelta(minutes=2), timedelta(minutes=2)),
            (90, timedelta(seconds=90)),
            (0.25, timedelta(milliseconds=250)),
            (0, timedelta(0)),
            (LONGEST, LONGEST),
        ],
    )
    def test_a_callables_answer_is_taken_exactly(self, answer, delay):
        assert delay_of(lambda attempt, exception: answer, 1) == Wait(delay, None)

    def test_a_callable_sees_the_attempt_and_the_exception(self):
        def policy(attempt, exception):
            return 60 * attempt if isinstance(exception, ConnectionError) else 1

        assert delay_of(policy, 4, ConnectionError("busy")).delay == timedelta(minutes=4)
        assert delay_of(policy, 4, ValueError("other")).delay == timedelta(seconds=1)

    def test_a_callable_gives_up_by_answering_none(self):
        assert delay_of(lambda attempt, exception: None, 2) == Wait(None, None)

    def test_a_callable_with_a_third_parameter_sees_the_job_s_arguments(self):
        def policy(attempt, exception, call):
            return call.args[0] * attempt + call.kwargs["more"]

        call = Call([10], {"more": 5})

        assert delay_of(policy, 3, call=lambda: call) == Wait(timedelta(seconds=35), None)

    @pytest.mark.parametrize(
        ("answer", "complaint"),
        [
            (-1, "between 0 and 3650 days"),
            (-SECOND, "between 0 and 3650 days"),
            (float("nan"), "nan seconds"),
            (float("inf"), "inf seconds"),
            (10**400, "between 0 and 3650 days"),
            pytest.param(10**5000, "ValueError", id="a number too long to print"),
            (timedelta.max, "between 0 and 3650 days"),
            (True, "not bool"),
            ("5", "not str"),
        ],
    )
    def test_an_answer_that_is_no_delay_lets_the_default_decide_and_says_so(self, answer, complaint):
        delay, problem = delay_of(lambda attempt, exception: answer, 2, default=Constant(HOUR, jitter=0))

        assert delay == HOUR
        assert problem is not None
        assert complaint in problem
        assert "attempt 2" in problem
        assert "Constant(" in problem

    def test_a_callable_that_raises_lets_the_default_decide_and_is_named(self):
        def broken_policy(attempt, exception):
            raise KeyError("retries")

        delay, problem = delay_of(broken_policy, 1)
        assert delay is not None

        assert DEFAULT.base * (1 - DEFAULT.jitter) <= delay <= DEFAULT.base
        assert problem is not None
        assert "broken_policy" in problem
        assert "KeyError: 'retries'" in problem

    def test_an_exception_without_a_readable_message_is_still_told(self):
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError

        def policy(attempt, exception):
            raise Mute

        assert "Mute: no message" in str(delay_of(policy, 1).problem)

    def test_a_coroutine_as_an_answer_is_a_problem_and_no_warning(self):
        async def policy():
            return 1

        assert "not coroutine" in str(delay_of(lambda attempt, exception: policy(), 1).problem)  # type: ignore[arg-type,return-value]

    def test_what_ends_the_process_is_not_swallowed(self):
        def policy(attempt, exception):
            raise SystemExit

        with pytest.raises(SystemExit):
            delay_of(policy, 1)


class TestIsPolicy:
    @pytest.mark.parametrize(
        "value", [Exponential(), Linear(), Constant(), lambda attempt, exception: 1, max]
    )
    def test_rules_and_callables_are_policies(self, value):
        assert is_policy(value)

    @pytest.mark.parametrize("value", [None, 5, SECOND, "exponential", Exponential])
    def test_a_number_a_name_or_a_class_is_none(self, value):
        assert not is_policy(value)

    def test_a_coroutine_function_is_none(self):
        async def policy(attempt, exception):
            return 1

        assert not is_policy(policy)
