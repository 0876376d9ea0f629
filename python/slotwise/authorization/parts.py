"""Parts of a level that is a whole in HTCondor."""

#: Parts of NEGOTIATOR that daemons besides the negotiator have: to drain machines, and to note wake-up calls in the
#: ads of sleeping machines. The lists of NEGOTIATOR apply to them.
PARTS_OF_NEGOTIATOR = ("DRAIN", "WAKEUP")
