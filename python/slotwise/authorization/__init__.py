"""Who may do what: lists of the configuration (ALLOW_<LEVEL>, DENY_<LEVEL>) against a caller's name and host.

:mod:`~slotwise.authorization.entries` is one entry of a list, :mod:`~slotwise.authorization.policy` decides; both are
pure. :mod:`~slotwise.authorization.settings` reads the lists of one daemon, :mod:`~slotwise.authorization.names` asks
the name service, and :mod:`~slotwise.authorization.authorizer` keeps what the daemon's server asks at every call.
"""
