"""The names of HTCondor's module classad (version 1) that classad2 serves."""

from classad2 import *  # noqa: F403
from classad2 import __all__  # noqa: F401
