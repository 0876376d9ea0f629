"""The startd: a host's slots, the claims on them, and the owner's policy.

``states``, ``events``, ``machine``, ``checks``, ``leaving``, ``retirement``, ``drain``, ``slots`` and ``admission``
decide and do no I/O; ``journal`` keeps claims durable; ``service``, ``publish`` and ``starter_link`` adapt RPC;
``app`` wires and starts.
"""
