"""Mail of daemons to users and administrators: messages, and the ways by which they leave the host.

A mail is a courtesy: it is sent at most once, after what it reports is durable, and a lost one is only logged.
"""
