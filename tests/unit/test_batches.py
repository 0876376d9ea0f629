"""Jobs by batch: what is known of those that have left the queue."""

from __future__ import annotations

from slotwise.model.batches import Batch, batches


def row(count: int, status: int, cluster: int, submitted: object = 10, **more: object) -> dict[str, object]:
    return {"Count": count, "JobStatus": status, "ClusterId": cluster, "TotalSubmitProcs": submitted, **more}


def test_jobs_that_have_left_the_queue_are_done() -> None:
    rows = [row(3, 1, 1, Cmd="/bin/a"), row(2, 2, 1, Cmd="/bin/a"), row(1, 4, 2, Cmd="/usr/bin/a")]
    assert batches(rows) == (Batch("a", {1: 3, 2: 2, 4: 1}, "", 20),)
    assert batches(rows)[0].done == 15


def test_it_is_not_known_how_many_are_done_while_jobs_are_materialized_or_nobody_says_how_many_there_were() -> None:
    factory = row(3, 1, 1, JobBatchName="b", JobMaterializeLimit=3)
    assert batches([factory])[0].done is None
    assert batches([row(3, 1, 1, submitted="many", Cmd="x")])[0].done is None
    assert batches([{"Cmd": "x", "JobStatus": 2, "Count": 4}]) == (Batch("x", {2: 4}),)


def test_batches_of_two_users_with_one_name_are_two_and_the_busiest_comes_first() -> None:
    rows = [row(1, 1, 1, JobBatchName="n", User="a@x"), row(1, 2, 2, JobBatchName="n", User="b@x")]
    assert [(batch.user, batch.of(2)) for batch in batches(rows)] == [("b@x", 1), ("a@x", 0)]
