"""The verb-noun command ``htcondor``: ``htcondor job submit``, ``htcondor ap status`` (manual page of htcondor)."""
