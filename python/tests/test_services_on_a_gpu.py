"""The tests of names, timers, monitors, groups, dead letters, kept asks, topics and streams once more, with actors on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import everwarp as ew
import pytest

from test_groups import (  # noqa: F401
    test_a_class_can_keep_its_latest_messages,
    test_a_class_can_restart_its_actors_and_undo_failures,
    test_a_group_in_a_group_is_restarted_as_a_whole,
    test_linked_actors_end_together_when_one_fails,
    test_one_for_one_restarts_the_failed_member,
    test_strategies_and_policies,
    test_wrong_groups_are_refused,
)
from test_handlers import (  # noqa: F401
    test_a_time_that_is_none_fails_the_handler,
    test_a_timer_is_never_early,
    test_an_actor_has_64_timers_and_cancels_only_its_own,
    test_an_ask_with_a_timeout_ends,
    test_handlers_end_other_actors,
    test_handlers_set_and_cancel_timers,
)
from test_kept import (  # noqa: F401
    test_a_reply_after_the_handler_has_returned_is_the_same_in_cpython,
    test_a_reply_to_another_message_fails_the_actor,
    test_the_program_waits_for_a_kept_reply,
)
from test_services import (  # noqa: F401
    test_a_monitor_says_how_an_actor_has_ended,
    test_an_actor_is_found_by_its_name_until_it_ends,
    test_an_ask_has_a_deadline,
    test_dead_letters_have_their_reason_and_their_values,
    test_many_asks_of_asyncio_each_have_their_own_reply,
    test_timers_are_never_early_and_can_be_cancelled,
)
from test_streams import (  # noqa: F401
    Listener,
    test_a_deactivated_actor_keeps_its_messages,
    test_a_slow_subscriber_misses_messages_and_is_notified,
    test_a_topic_passes_messages_on_to_its_subscribers,
    test_an_inlet_carries_arrays_in_their_order,
    test_ask_array_returns_an_array_of_the_results_type,
    test_asks_of_asyncio_are_futures_and_coroutines,
    test_full_mailboxes_delay_asks_of_asyncio,
    test_what_actors_send_to_an_outlet_comes_out,
)


@pytest.fixture
def engine() -> Iterator[ew.Engine]:
    """An engine for one program of actors: a GPU runs one at a time."""
    try:
        engine = ew.engine("cuda")
    except ew.DeviceError as error:
        pytest.skip(f"no GPU: {error}")
    with engine:
        yield engine


def test_members_of_groups_are_on_the_gpu(engine: ew.Engine) -> None:
    """They do not fall back to the CPU."""
    listeners = engine.spawn(Listener, 2)
    group = engine.supervise(listeners, restarts=2, within=3600)
    assert "GPU" in repr(listeners)
    assert (group.members, group.restarts, group.ended) == (2, 0, False)
