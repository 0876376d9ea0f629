"""A negotiation outcome as tables for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotwise.matchmaking.rows import JsonObject


def render(report: JsonObject, width: int) -> str:
    """The report of ``slotwise negotiate`` as text, at most ``width`` columns wide."""
    parts = [_summary(report)]
    if report["matches"]:
        parts.append(_matches(report["matches"]))
    if report["rejections"]:
        head = ["SUBMITTER", "AUTOCLUSTER", "JOBS", "REASON"]
        rows = [[r["submitter"], r["autocluster"], str(r["count"]), r["reason"]] for r in report["rejections"]]
        parts.append(table("Rejected", head, rows))
    parts.append(_submitters(report["submitters"]))
    if len(report["groups"]) > 1:
        parts.append(_groups(report["groups"]))
    if report["reservations"]:
        rows = [[r["job"], r["slot"], f"{r['starts_at']:.0f}"] for r in report["reservations"]]
        parts.append(table("Reserved", ["JOB", "SLOT", "EXPECTED AT"], rows))
    parts.append(_timings(report))
    return "\n\n".join(_cut(part, width) for part in parts)


def _summary(report: JsonObject) -> str:
    counts = report["statistics"]
    preempting = sum(1 for match in report["matches"] if match["preempts"])
    text = f"{len(report['matches'])} matches"
    if preempting:
        text += f" ({preempting} preempt a claim)"
    text += f"; {counts['candidate_slots']} of {counts['total_slots']} slots are candidates"
    text += f", in {counts['slot_classes']} classes; {counts['idle_jobs']} idle jobs"
    for warning in report.get("warnings", []):
        text += f"\nwarning: {warning}"
    return text


def _matches(matches: list[JsonObject]) -> str:
    shown = matches[:200]
    rows = []
    for match in shown:
        preempts = f"{match['preempts']} ({match['preemption']})" if match["preempts"] else ""
        rows.append([match["job"] or "", match["submitter"], match["slot"], f"{match['rank']:g}", preempts])
    text = table("Matched", ["JOB", "SUBMITTER", "SLOT", "RANK", "PREEMPTS"], rows)
    if len(matches) > len(shown):
        hosts = Counter(match["submitter"] for match in matches[len(shown) :])
        rest = ", ".join(f"{name} {count}" for name, count in sorted(hosts.items()))
        text += f"\n... and {len(matches) - len(shown)} more: {rest} (--json lists all)"
    return text


def _submitters(rows: list[JsonObject]) -> str:
    head = ["SUBMITTER", "PRIORITY", "FACTOR", "SHARE", "LIMIT", "MATCHED", "USES", "HELD BACK"]
    lines = []
    for row in rows:
        held = row.get("held_back")
        lines.append(
            [
                row["name"],
                f"{row['priority']:.2f}",
                f"{row['factor']:g}",
                "" if row["share"] is None else f"{row['share']:.1%}",
                "" if row["limit"] is None else f"{row['limit']:.1f}",
                str(row["matched"]),
                f"{row['usage']:g}",
                f"{held['count']} jobs: {held['reason']}" if held else "",
            ]
        )
    return table("Submitters", head, lines)


def _groups(rows: list[JsonObject]) -> str:
    head = ["GROUP", "QUOTA", "SUBTREE", "ASKED", "ALLOCATED", "USES", "MATCHED", "SURPLUS"]
    keys = ("quota", "subtree_quota", "requested", "allocated", "usage", "matched")
    lines = [[row["name"], *(f"{row[key]:g}" for key in keys), row["surplus"]] for row in rows]
    return table("Groups", head, lines)


def _timings(report: JsonObject) -> str:
    times = report["timings"]
    parts = [f"{name.removesuffix('_s')} {seconds:.3f} s" for name, seconds in times.items()]
    return f"Time: {', '.join(parts)}; peak memory {report['peak_rss_mb']:g} MB"


def table(title: str, head: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as their widest cell; numbers are set right."""
    columns = list(zip(head, *rows, strict=True)) if rows else [(name,) for name in head]
    widths = [max(len(cell) for cell in column) for column in columns]
    right = [all(_is_number(cell) for cell in column[1:] if cell) and len(column) > 1 for column in columns]
    lines = [title]
    for row in [head, *rows]:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _is_number(cell: str) -> bool:
    return cell.rstrip("%").replace(".", "", 1).replace("-", "", 1).isdigit()


def _cut(text: str, width: int) -> str:
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in text.splitlines())
