"""The configuration: an administrator's ``condor_config`` files, read in HTCondor's order and language.

:func:`load` reads; :class:`Config` answers typed questions and says where each value comes from. The language itself is
Rust (crate ``config``). Rules: HTCondor manual, "Introduction to Configuration".
"""

from slotwise.config.checking import check, require_sound
from slotwise.config.loading import config_file_of, home_of, load
from slotwise.config.problem import Problem
from slotwise.config.table import Knob, find_knob, knobs, similar_knobs, templates
from slotwise.config.view import Config, Origin

__all__ = [
    "Config",
    "Knob",
    "Origin",
    "Problem",
    "check",
    "config_file_of",
    "find_knob",
    "home_of",
    "knobs",
    "load",
    "require_sound",
    "similar_knobs",
    "templates",
]
