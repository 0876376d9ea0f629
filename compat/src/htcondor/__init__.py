"""The names of HTCondor's module htcondor (version 1), over htcondor2."""

from htcondor2 import *  # noqa: F403
from htcondor2 import HTCondorException
from htcondor2 import __all__ as _all

from htcondor._version1 import Schedd, Submit, Transaction

# Version 1 had an exception for each kind of failure.
HTCondorEnumError = HTCondorInternalError = HTCondorIOError = HTCondorLocateError = HTCondorException
HTCondorReplyError = HTCondorTypeError = HTCondorValueError = HTCondorException

__all__ = [*_all, "Schedd", "Submit", "Transaction"]
