"""The names of HTCondor's module htcondor (version 1) that htcondor2 serves."""

from htcondor2 import *  # noqa: F403
from htcondor2 import HTCondorException, __all__  # noqa: F401

# Version 1 had an exception for each kind of failure.
HTCondorEnumError = HTCondorInternalError = HTCondorIOError = HTCondorLocateError = HTCondorException
HTCondorReplyError = HTCondorTypeError = HTCondorValueError = HTCondorException
