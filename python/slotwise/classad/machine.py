"""What evaluations of this process are told about the machine, and what ``debug()`` tells."""

from __future__ import annotations

from slotwise._native import enable_user_home, forget_user_maps, keep_debug_lines, take_debug_lines

__all__ = ["enable_user_home", "forget_user_maps", "keep_debug_lines", "take_debug_lines"]
