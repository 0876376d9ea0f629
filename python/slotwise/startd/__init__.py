"""The startd: a host's slots, the claims on them, and the owner's policy.

``slot`` is the state machine of a slot and does no I/O; ``host`` applies events to slots and carries out what follows;
``policy`` evaluates the owner's expressions; ``journal`` keeps claims durable; ``service``, ``publish`` and
``starter_link`` adapt RPC; ``app`` wires and starts.
"""
