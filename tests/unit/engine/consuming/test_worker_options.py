"""Every option is declared in one place; constructors name it once more, for editors and type checkers."""

import inspect
from typing import Any, get_type_hints

import pytest

from relevo import Queue, Worker
from relevo.engine.consuming.worker_options import WorkerOptions
from relevo.engine.producing.queue_options import QueueOptions
from relevo.options import options_of
from relevo.wire.limits import QueueLimits

OF_THE_CONNECTION = {"self", "name", "queue_name", "handler", "redis_url", "tls", "credential_provider"}


@pytest.mark.parametrize(("taker", "declared"), [(Worker, WorkerOptions), (Queue, QueueOptions)])
def test_a_constructor_takes_every_option_as_it_is_declared_and_no_other(taker: type, declared: type) -> None:
    taken = {name: each for name, each in inspect.signature(taker).parameters.items() if name not in OF_THE_CONNECTION}
    hints: dict[str, Any] = get_type_hints(taker.__init__)
    kinds: dict[str, Any] = get_type_hints(declared)
    options = {each.name: each for each in options_of(declared)}
    assert set(taken) == set(options)
    for name, option in options.items():
        if option.about.none:
            assert (hints[name], taken[name].default) == (kinds[name] | None, None), name
        else:
            assert (hints[name], taken[name].default) == (kinds[name], option.default), name


@pytest.mark.parametrize("declared", [WorkerOptions, QueueOptions, QueueLimits])
def test_every_option_says_what_it_means_in_sentences(declared: type) -> None:
    for option in options_of(declared):
        assert option.about.text[-1] == ".", option.name
        assert len(option.about.text) < 120, option.name


def test_limits_left_out_are_the_same_for_queue_and_worker() -> None:
    assert QueueOptions().limits == QueueLimits()
    limits = {each.name: each.default for each in options_of(QueueLimits)}
    options = {each.name: each.default for each in options_of(WorkerOptions) if each.name != "max_stream_len"}
    shared = set(limits) & set(options)
    assert shared == {"dlq_max_stream_len", "events_max_stream_len", "max_payload_bytes"}
    assert {name: limits[name] for name in shared} == {name: options[name] for name in shared}
