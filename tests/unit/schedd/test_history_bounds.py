"""What constraints say of the columns of the history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad import ClassAd, ExprTree
from slotwise.schedd.history.bounds import Bounds, bounds_of

NOW = 1_800_000_000


@pytest.mark.parametrize(
    ("constraint", "bounds"),
    [
        ('Owner == "ann"', Bounds(owner="ann")),
        ('("ann" =?= MY.Owner) && x', Bounds(owner="ann", is_exact=True)),
        ("ClusterId == 5 && ProcId < 3 && JobStatus == 4", Bounds(cluster=5, status=4)),
        ("CompletionDate >= time() - 3600", Bounds(completed_since=NOW - 3600)),
        ("(((CompletionDate > 5.5))) && 9 >= completiondate", Bounds(completed_since=5, completed_until=9)),
        ("CompletionDate == 7", Bounds(completed_since=7, completed_until=7)),
        # Jobs that were removed have the date 0, and their column another.
        ("CompletionDate < 9", Bounds()),
        ("CompletionDate >= 0 && CompletionDate < 9", Bounds()),
        ("CompletionDate > 5 ? 6 : 7", Bounds()),
        ("CompletionDate > 5 || Owner == \"ann\"", Bounds()),
        ("CompletionDate > QDate", Bounds()),
        ("CompletionDate > undefined", Bounds()),
        ("TARGET.CompletionDate > 5", Bounds()),
        ("!(ClusterId == 5)", Bounds()),
        ("ClusterId == 5.5", Bounds()),
        ("Owner == 5", Bounds()),
        ("Owner > \"ann\"", Bounds()),
        ("this is none", Bounds()),
        ("", Bounds()),
    ],
)  # fmt: skip
def test_what_a_constraint_says(constraint: str, bounds: Bounds) -> None:
    assert bounds_of(constraint, NOW) == bounds


CLAUSES = st.sampled_from([
    'Owner == "Ann"', 'Owner =?= "ann"', '"bob" == Owner', "ClusterId == 2", "2 == MY.ClusterId", "JobStatus == 4",
    "JobStatus =?= 3", "CompletionDate > 2", "CompletionDate >= 1 + 1", "3 > CompletionDate", "CompletionDate <= 2.5",
    "CompletionDate == 2", "CompletionDate != 2", "(ClusterId == 1 || ClusterId == 2)", "true", "ClusterId < 2",
    "CompletionDate > 1 == true", "CompletionDate > (1 == 1)", "isUndefined(x)", "ClusterId == 1 + 1",
])  # fmt: skip


@given(
    st.lists(CLAUSES, min_size=1, max_size=4),
    st.sampled_from([" && ", " || "]),
    st.sampled_from(["ann", "Ann", "bob"]),
    st.integers(1, 3),
    st.sampled_from([3, 4]),
    st.integers(0, 4),
)
def test_a_bound_never_leaves_out_a_job_that_is_asked_for(
    clauses: list[str], joint: str, owner: str, cluster: int, status: int, completed: int
) -> None:
    constraint = joint.join(clauses)
    ad = ClassAd({"Owner": owner, "ClusterId": cluster, "JobStatus": status, "CompletionDate": completed})
    if ExprTree(constraint).eval(ad) is not True:
        return
    bounds = bounds_of(constraint, NOW)
    column = completed or 99  # when it left
    assert bounds.owner is None or (owner == bounds.owner if bounds.is_exact else owner.lower() == bounds.owner.lower())
    assert bounds.cluster in (None, cluster) and bounds.status in (None, status)
    assert bounds.completed_since is None or bounds.completed_since <= column
    assert bounds.completed_until is None or column <= bounds.completed_until
