"""How large messages are: what a daemon takes from its callers, and into what pieces large things are cut."""

#: The largest message that a daemon takes, in bytes. What is larger travels in pieces on a stream.
REQUEST_MOST = 4 * 1024 * 1024
#: What a message of pieces holds, in bytes, unless a single thing in it is larger.
PIECE = 1024 * 1024
