"""What evaluations in this process know about the machine, and the output of ``debug()``."""

from __future__ import annotations

from slotwise._native import (
    answer_in_thread,
    enable_user_home,
    forget_user_maps,
    keep_debug_lines,
    take_debug_lines,
)

__all__ = ["answer_in_thread", "enable_user_home", "forget_user_maps", "keep_debug_lines", "take_debug_lines"]
