"""Tables of ads: keyed, columnar, and their wire form ("packs").

An :class:`AdTable` keeps the newest ad of each key in typed columns (about 1 KB a machine ad). Batches of ads go in
and come out as packs, which are bytes: nothing here makes a Python object per attribute, except where one asks for
a :class:`~slotwise.classad.ClassAd`.

>>> from slotwise.classad import ClassAd
>>> table = AdTable()
>>> table.upsert("slot1@a", ClassAd({"Cpus": 4, "Memory": 2048}))
>>> table.count("Memory > 1024")
1
>>> unpack_ads(table.query("Cpus == 4", projection=["Memory"]))
[ClassAd({'Memory': 2048})]
"""

from slotwise.table.ads import AdChunks, AdTable, ApplyReport, ArrowStream, Form, LoadReport, TextLoader
from slotwise.table.packs import PackBuilder, diff_ads, pack_ads, unpack_ads, unpack_ops

__all__ = [
    "AdChunks",
    "AdTable",
    "ApplyReport",
    "ArrowStream",
    "Form",
    "LoadReport",
    "PackBuilder",
    "TextLoader",
    "diff_ads",
    "pack_ads",
    "unpack_ads",
    "unpack_ops",
]
