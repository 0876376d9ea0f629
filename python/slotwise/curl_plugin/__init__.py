"""The file transfer plugin that comes with Slotwise: URLs of http, https, ftp, file, dav and davs.

It has the arguments, the variables and the answers of HTCondor's ``curl_plugin``, and stands in for it where
FILETRANSFER_PLUGINS names one that is not there. It runs with the job's rights (HTCondor manual, "File Transfer
Plugins").
"""

from __future__ import annotations

#: What it serves, in the order in which HTCondor's tells it.
METHODS = ("http", "https", "ftp", "file", "dav", "davs")
#: The version of HTCondor's plugin that it answers for.
VERSION = "0.2"
