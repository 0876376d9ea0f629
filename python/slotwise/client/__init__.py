"""Slotwise from Python: submit jobs, look at them, act on them.

>>> schedd = Schedd()                                       # the pool named by SLOTWISE_HOME
>>> result = schedd.submit({"executable": "/bin/sleep", "arguments": "10"}, count=5)
>>> schedd.query(f"ClusterId == {result.cluster}", ["ProcId", "JobStatus"])
>>> schedd.act("hold", f"ClusterId == {result.cluster}", reason="later")

:class:`AsyncSchedd` has the same calls as coroutines; many may be under way at once, and the schedd makes those that
arrive together durable together. :class:`EventLog` reads job event logs.
"""

from slotwise.client.blocking import Schedd
from slotwise.client.coroutines import AsyncSchedd
from slotwise.client.event_log import EventLog
from slotwise.client.messages import ActResult, Description, SubmitResult

__all__ = ["ActResult", "AsyncSchedd", "Description", "EventLog", "Schedd", "SubmitResult"]
