"""The starter: runs jobs for the startd of its host, and stands for them towards the schedds' shadows.

One service process per host. Each job has a keeper of its own, native code that outlives the service
(crate ``keeper``); what a run needs after a restart is in its directory under ``EXECUTE``.
"""
