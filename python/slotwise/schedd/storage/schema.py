"""The tables of the job queue, and the migrations from each version to the next."""

from __future__ import annotations

import sqlite3

from slotwise.errors import HostError

_FIRST = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clusters (
  cluster INTEGER PRIMARY KEY, owner TEXT NOT NULL, qdate INTEGER NOT NULL, next_proc INTEGER NOT NULL,
  ad BLOB NOT NULL, common TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
  cluster INTEGER NOT NULL, proc INTEGER NOT NULL, status INTEGER NOT NULL, delta BLOB, changes TEXT,
  PRIMARY KEY (cluster, proc)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS factories (
  cluster INTEGER PRIMARY KEY, total INTEGER NOT NULL, next_proc INTEGER NOT NULL, most INTEGER NOT NULL,
  max_idle INTEGER NOT NULL, paused INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS factory_parts (
  cluster INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, deltas BLOB NOT NULL,
  PRIMARY KEY (cluster, first));
CREATE TABLE IF NOT EXISTS runs (
  cluster INTEGER NOT NULL, proc INTEGER NOT NULL, run_id TEXT NOT NULL, token TEXT NOT NULL, claim TEXT NOT NULL,
  facts TEXT NOT NULL, PRIMARY KEY (cluster, proc)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (
  claim TEXT PRIMARY KEY, startd TEXT NOT NULL, slot TEXT NOT NULL, submitter TEXT NOT NULL, lease_s INTEGER NOT NULL,
  slot_ad BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS planned (
  seq INTEGER PRIMARY KEY, path TEXT NOT NULL, owner TEXT NOT NULL, offset INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS history (
  seq INTEGER PRIMARY KEY, cluster INTEGER NOT NULL, proc INTEGER NOT NULL, owner TEXT NOT NULL,
  status INTEGER NOT NULL, completed INTEGER NOT NULL, delta BLOB, changes TEXT);
CREATE INDEX IF NOT EXISTS history_job ON history (cluster, proc);
CREATE INDEX IF NOT EXISTS history_owner ON history (owner, seq);
"""

#: What each version adds to the one before. A step is never changed once it is released.
_STEPS = (
    """
ALTER TABLE claims ADD COLUMN limits TEXT NOT NULL DEFAULT '';
CREATE TABLE submissions (
  owner TEXT NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL, reply BLOB NOT NULL, PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE TABLE reserved (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, at INTEGER NOT NULL);
""",
    """
DELETE FROM reserved;
ALTER TABLE reserved ADD COLUMN owner TEXT NOT NULL DEFAULT '';
""",
    """
INSERT INTO meta SELECT 'history file', coalesce(max(seq), 0) FROM history;
INSERT INTO meta
  SELECT 'birthdate', coalesce((SELECT min(qdate) FROM clusters), CAST(strftime('%s', 'now') AS INTEGER));
CREATE INDEX history_completed ON history (completed);
""",
    """
CREATE TABLE users (
  name TEXT PRIMARY KEY, enabled INTEGER NOT NULL DEFAULT 1, attributes TEXT NOT NULL DEFAULT '{}',
  completed INTEGER NOT NULL DEFAULT 0, completed_cpu_s REAL NOT NULL DEFAULT 0,
  completed_slot_s REAL NOT NULL DEFAULT 0, removed INTEGER NOT NULL DEFAULT 0,
  removed_cpu_s REAL NOT NULL DEFAULT 0, removed_slot_s REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
""",
    """
CREATE TABLE job_sets (
  number INTEGER PRIMARY KEY, user TEXT NOT NULL, name TEXT NOT NULL,
  completed INTEGER NOT NULL DEFAULT 0, completed_cpu_s REAL NOT NULL DEFAULT 0,
  completed_slot_s REAL NOT NULL DEFAULT 0, removed INTEGER NOT NULL DEFAULT 0,
  removed_cpu_s REAL NOT NULL DEFAULT 0, removed_slot_s REAL NOT NULL DEFAULT 0
);
""",
    """
CREATE TABLE actions (
  id INTEGER PRIMARY KEY, user TEXT NOT NULL, action TEXT NOT NULL, reason TEXT NOT NULL, subcode INTEGER NOT NULL,
  at INTEGER NOT NULL, total INTEGER NOT NULL, done INTEGER NOT NULL, jobs BLOB NOT NULL
);
""",
    """
CREATE TABLE nodes (
  cluster INTEGER NOT NULL, proc INTEGER NOT NULL, node INTEGER NOT NULL, gang TEXT NOT NULL, run_id TEXT NOT NULL,
  token TEXT NOT NULL, claim TEXT NOT NULL, facts TEXT NOT NULL, end TEXT NOT NULL, PRIMARY KEY (cluster, proc, node)
) WITHOUT ROWID;
ALTER TABLE claims ADD COLUMN dedicated INTEGER NOT NULL DEFAULT 0;
""",
    """
CREATE TABLE projects (
  name TEXT PRIMARY KEY, enabled INTEGER NOT NULL DEFAULT 1, attributes TEXT NOT NULL DEFAULT '{}',
  completed INTEGER NOT NULL DEFAULT 0, completed_cpu_s REAL NOT NULL DEFAULT 0,
  completed_slot_s REAL NOT NULL DEFAULT 0, removed INTEGER NOT NULL DEFAULT 0,
  removed_cpu_s REAL NOT NULL DEFAULT 0, removed_slot_s REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
""",
    """
CREATE TABLE job_set_attributes (
  number INTEGER NOT NULL, name TEXT NOT NULL COLLATE NOCASE, value TEXT NOT NULL, PRIMARY KEY (number, name)
) WITHOUT ROWID;
""",
)


def prepare(connection: sqlite3.Connection) -> None:
    """Bring the tables to the version of this program, in one transaction for each step.

    :raises HostError: when a newer program has written them.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(_STEPS):
        raise HostError(
            f"the job queue has version {version} of its tables; this program knows those up to {len(_STEPS)}",
            hint="run the version of Slotwise that wrote it, or move the queue away to start with an empty one",
        )
    if version == 0:
        connection.executescript(_FIRST)
    for number, step in enumerate(_STEPS[version:], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE;\n{step}\nPRAGMA user_version={number};\nCOMMIT;")
