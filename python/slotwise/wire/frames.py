"""Frames of a stream: messages that are sent at the same moment travel together, in the ``more`` of the first.

A frame is bounded, so that no number of messages makes one that the receiver refuses: the same messages would make it
again on every new stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from slotwise.wire.sizes import PIECE


async def next_frame(
    queue: asyncio.Queue[Any], weigh: Callable[[Any], int] = lambda message: message.ByteSize(), most: int = PIECE
) -> tuple[Any, int]:
    """Wait for a message; it carries those behind it. Returns the frame and its weight.

    :param weigh: the bytes of a message, or of what counts in it.
    :param most: takes no further message once the frame weighs as much.
    """
    frame = await queue.get()
    weight = weigh(frame)
    while weight < most and not queue.empty():
        following = queue.get_nowait()
        weight += weigh(following)
        frame.more.append(following)
    return frame, weight
