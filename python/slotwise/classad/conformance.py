"""The conformance forms of ``slotwise classad``: one JSON object a line in, one out."""

from __future__ import annotations

from typing import Any

from slotwise._native import evaluate_text, format_text, read_ads_as_reference

#: A JSON object, whose reader checks its values.
Case = dict[str, Any]

FORMATS = ("new1", "new", "old", "auto", "json", "xml")


def eval_case(case: Case, strict: bool) -> Case:
    """Answer ``{"id","my","target","expr"}`` with ``{"id","type","value"}``.

    A text that does not parse gives ``{"id","parse_error":true}``; an evaluation that broke off is an error with
    ``"raised":true``.
    """
    result = evaluate_text(case["expr"], case.get("my"), case.get("target"), strict=strict)
    if result is None:
        return {"id": case["id"], "parse_error": True}
    kind, value = result
    if kind == "raised":
        return {"id": case["id"], "type": "error", "value": "error", "raised": True}
    return {"id": case["id"], "type": kind, "value": value if isinstance(value, str) else repr(value)}


def fmt_case(case: Case, strict: bool = False) -> Case:
    """Answer ``{"id","expr"}`` with ``{"id","value": canonical text}``."""
    text = format_text(case["expr"], strict=strict)
    return {"id": case["id"], "parse_error": True} if text is None else {"id": case["id"], "value": text}


def ads_case(case: Case, strict: bool = False) -> Case:
    """Answer ``{"id","format","text"}`` with ``{"id","ads":[{"attrs","new","old","json","pretty"}]}``.

    :raises ValueError: the format is not one of :data:`FORMATS`.
    """
    if case["format"] not in FORMATS:
        raise ValueError(f"{case['format']!r} is not a format (use one of {', '.join(FORMATS)})")
    ads = read_ads_as_reference(case["text"], case["format"], strict=strict)
    if ads is None:
        return {"id": case["id"], "parse_error": True}
    return {"id": case["id"], "ads": ads}
