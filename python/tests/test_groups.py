"""Links, supervised groups, and classes whose actors go on after failures."""

from __future__ import annotations

import everwarp as ew
import pytest
from conftest import until


@ew.actor
class Worker:
    done: ew.i64

    def work(self, n: ew.i64) -> None:
        self.done += 12 // n

    def read(self) -> ew.i64:
        return self.done


def test_linked_actors_end_together_when_one_fails(engine: ew.Engine) -> None:
    one, other, third, fourth = engine.spawn(Worker, 4)
    one.link(other)
    third.link(fourth)
    third.unlink(fourth)
    ends = [actor.monitor() for actor in (one, other, third)]
    one.work.tell(0)
    third.work.tell(0)
    assert [end.wait(60) for end in ends] == ["failed", "killed", "failed"]
    engine.settle()
    assert fourth.read.ask() == 0
    with pytest.raises(ew.ActorGone):
        fourth.link(one)
    with pytest.raises(TypeError):
        fourth.link(5)  # type: ignore[arg-type]
    with ew.engine("cpu", size=1) as another, pytest.raises(ew.WrongEngine):
        fourth.link(another.spawn(Worker))


def test_one_for_one_restarts_the_failed_member(engine: ew.Engine) -> None:
    actors = engine.spawn(Worker, 3)
    group = engine.supervise(actors, restarts=2, within=3600)
    actors.work.tell(3)
    actors[1].work.tell(0)
    actors[1].work.tell(6)
    engine.settle()
    assert actors.read.ask() == [4, 2, 4]
    assert (group.restarts, group.members, group.ended) == (1, 3, False)
    actors[0].stop()
    assert until(lambda: group.restarts == 2)
    assert actors[0].read.ask() == 0, "a permanent member is restarted however it ends"
    actors[2].work.tell(0)
    assert until(lambda: group.ended)
    engine.settle()
    for actor in actors:
        with pytest.raises(ew.ActorGone):
            actor.read.ask()
    assert "ended" in repr(group)


def test_strategies_and_policies(engine: ew.Engine) -> None:
    one, two, three, extra = engine.spawn(Worker, 4)
    engine.supervise([one, two, (three, "transient"), (extra, "temporary")], strategy="rest_for_one", restarts=9, within=3600)
    engine.spawn(Worker)
    for actor in (one, two, three):
        actor.work.tell(1)
    two.work.tell(0)
    engine.settle()
    assert until(lambda: [actor.read.ask() for actor in (one, two, three)] == [12, 0, 0])
    end = extra.monitor()
    extra.work.tell(0)
    assert end.wait(60) == "failed"
    # One that stops is not restarted if it is transient.
    end = three.monitor()
    three.stop()
    assert end.wait(60) == "stopped"


def test_a_group_in_a_group_is_restarted_as_a_whole(engine: ew.Engine) -> None:
    first, second, third = engine.spawn(Worker, 3)
    inner = engine.supervise([first, second], restarts=0, within=3600)
    outer = engine.supervise([inner, third], strategy="one_for_all", restarts=1, within=3600)
    for actor in (first, second, third):
        actor.work.tell(1)
    engine.settle()
    first.work.tell(0)
    assert until(lambda: outer.restarts == 1)
    assert until(lambda: [actor.read.ask() for actor in (first, second, third)] == [0, 0, 0])
    outer.end()
    assert until(lambda: outer.members == 1 and inner.members == 0 and outer.ended and inner.ended)
    with pytest.raises(ew.ActorGone):
        third.read.ask()


def test_wrong_groups_are_refused(engine: ew.Engine) -> None:
    one, two, dead = engine.spawn(Worker, 3)
    dead.kill()
    engine.settle()
    with pytest.raises(ew.ActorGone):
        engine.supervise([one, dead])
    group = engine.supervise(one)
    with pytest.raises(ValueError, match="member of a supervised group already"):
        engine.supervise([one, two])
    with pytest.raises(ValueError, match='a strategy is one of "one_for_one"'):
        engine.supervise(two, strategy="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='a policy is one of "permanent"'):
        engine.supervise([(two, "sometimes")])
    with pytest.raises(ValueError, match="one member at least"):
        engine.supervise([])
    for wrong in (5, [5], [(two, "transient", 3)], [(group, "temporary")]):
        with pytest.raises(TypeError):
            engine.supervise(wrong)
    for wrong in ({"restarts": -1}, {"within": -1.0}, {"within": float("nan")}):
        with pytest.raises(ValueError):
            engine.supervise(two, **wrong)  # type: ignore[arg-type]
    with ew.engine("cpu", size=1) as another:
        there = another.spawn(Worker)
        for members in (there, [two, there]):
            with pytest.raises(ew.WrongEngine):
                engine.supervise(members)
        with pytest.raises(ew.WrongEngine):
            engine.inlet(there)
    assert two.read.ask() == 0


def test_a_class_can_restart_its_actors_and_undo_failures(engine: ew.Engine) -> None:
    @ew.actor(restarts=(2, 3600), atomic=True)
    class Careful:
        n: ew.i64

        def change(self, by: ew.i64) -> None:
            self.n += 1
            self.n += 10 // by

        def read(self) -> ew.i64:
            return self.n

    careful = engine.spawn(Careful)
    careful.change.tell(5)
    careful.change.tell(0)
    careful.change.tell(0)
    engine.settle()
    assert careful.read.ask() == 3, "an atomic class keeps the state that it had before"
    careful.change.tell(0)
    engine.settle()
    with pytest.raises(ew.ActorGone):
        careful.read.ask()


def test_a_class_can_handle_a_message_again() -> None:
    @ew.actor(restarts=(100, 3600), retries=3, sends=1)
    class Again:
        n: ew.i64

        def fail(self, count: ew.actor_id) -> None:
            count.tick.tell()
            assert self.n > 0

        def tick(self) -> None:
            self.n += 1

        def read(self) -> ew.i64:
            return self.n

    with ew.engine("cpu", size=1) as engine:
        failing, counter = engine.spawn(Again, 2)
        failing.fail.tell(counter)
        engine.settle()
        assert counter.read.ask() == 4


def test_a_class_can_keep_its_latest_messages(engine: ew.Engine) -> None:
    @ew.actor(mailbox=3, keep_latest=True)
    class Latest:
        last: ew.i64
        count: ew.i64

        def set(self, n: ew.i64) -> None:
            self.last = n
            self.count += 1

        def read(self) -> ew.i64:
            return self.last * 1000 + self.count

    latest = engine.spawn(Latest)
    latest.deactivate()
    for n in range(50):
        latest.set.tell(n)
    latest.activate()
    engine.settle()
    assert latest.read.ask() == 49 * 1000 + 3


def test_limits_of_classes_that_cannot_work_are_refused() -> None:
    def make(**limits: object) -> object:
        class A:
            n: ew.i64

            def f(self) -> None:
                pass

        return ew.actor(**limits)(A)  # type: ignore[arg-type]

    for wrong in ({"restarts": 3}, {"restarts": ("a", 1)}, {"restarts": (1, 2, 3)}, {"restarts": (1, 0.5)}):
        with pytest.raises(TypeError, match="restarts"):
            make(**wrong)
    for wrong in ({"restarts": (-1, 5)}, {"restarts": (1, 0)}, {"retries": -1}, {"sends": 124}):
        with pytest.raises(ValueError):
            make(**wrong)
    with pytest.raises(ValueError, match="pass sends=3, or lower `retries`"):
        make(retries=30)
    with ew.engine("cpu", size=1) as engine:
        assert len(engine.spawn(make(sends=123), 2)) == 2
        assert len(engine.spawn(make(retries=30, sends=3), 2)) == 2
