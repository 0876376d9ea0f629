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

from slotwise.table.ads import (
    SLICE_STEPS,
    AdChunks,
    AdTable,
    ApplyReport,
    ArrowStream,
    Form,
    LoadReport,
    TextLoader,
    too_much,
)
from slotwise.table.allowance import Allowance, limit_evaluations, question_most
from slotwise.table.order import Order
from slotwise.table.packs import (
    PackBuilder,
    PackKeys,
    Picked,
    diff_ads,
    pack_ads,
    pack_keys,
    picked,
    split_pack,
    survey_pack,
    unpack_ads,
    unpack_ops,
    without,
)

__all__ = [
    "SLICE_STEPS",
    "AdChunks",
    "AdTable",
    "Allowance",
    "ApplyReport",
    "ArrowStream",
    "Form",
    "LoadReport",
    "Order",
    "PackBuilder",
    "PackKeys",
    "Picked",
    "TextLoader",
    "diff_ads",
    "limit_evaluations",
    "pack_ads",
    "pack_keys",
    "picked",
    "question_most",
    "split_pack",
    "survey_pack",
    "too_much",
    "unpack_ads",
    "unpack_ops",
    "without",
]
