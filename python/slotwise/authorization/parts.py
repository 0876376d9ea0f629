"""Parts of a level that HTCondor has as a whole."""

#: Parts of NEGOTIATOR that daemons beside the negotiator have: to drain machines, and to note in the ads of machines
#: that sleep when they were called. The lists of NEGOTIATOR are about them.
PARTS_OF_NEGOTIATOR = ("DRAIN", "WAKEUP")
