"""Lengths of time counted by class."""

from __future__ import annotations

import random

import pytest

from django_jobs.core.histogram import CLASSES, class_of, end_of, quantile


@pytest.mark.parametrize("seconds", [0.001, 0.0015, 0.01, 1.0, 59.9, 3600.0, 100_000.0])
def test_a_length_lies_within_its_class(seconds):
    number = class_of(seconds)

    assert end_of(number - 1) <= seconds * 1.000001
    assert seconds <= end_of(number)


def test_the_first_and_the_last_class_are_open():
    assert class_of(-5.0) == class_of(0.0) == class_of(0.0009) == 0
    assert class_of(1e12) == CLASSES - 1


def test_a_quantile_is_right_to_a_fifth():
    rng = random.Random(7)
    lengths = sorted(rng.lognormvariate(0, 2) for _ in range(20_000))
    counts = [0] * CLASSES
    for length in lengths:
        counts[class_of(length)] += 1

    for share in (0.5, 0.95, 0.99):
        assert quantile(counts, share) == pytest.approx(lengths[int(share * len(lengths))], rel=0.2)


def test_of_nothing_there_is_no_quantile():
    assert quantile([], 0.5) is None
    assert quantile([0, 0], 0.5) is None
