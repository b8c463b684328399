"""The database that results go into as they come: SQLite, one file in OUT.

Every result is one transaction that is on the disk before the next one is looked at, so the grader
can be killed at any moment. A lock keeps a second grader out; the system lets go of it when the first
one ends, however it ends.
"""

from __future__ import annotations

import fcntl
import json
import re
import sqlite3
import threading
from pathlib import Path
from typing import Any

from .units import Unit

NAME = "grades.sqlite"
SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sources (sha TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS outlines (
    kata TEXT, suite TEXT, outline TEXT NOT NULL, PRIMARY KEY (kata, suite));
CREATE TABLE IF NOT EXISTS results (
    sha TEXT, kata TEXT, part TEXT, suite TEXT, conditions TEXT, record TEXT NOT NULL,
    PRIMARY KEY (sha, kata, part, suite, conditions));
CREATE TABLE IF NOT EXISTS written (name TEXT, sha TEXT, PRIMARY KEY (name, sha));
"""
TABLES = {*re.findall(r"EXISTS (\w+)", SCHEMA)}
VERSION = 1
NOT_OURS = "is no database of this grader; name another --out"


class Trouble(Exception):
    """What keeps the store from working, as one line for the instructor; the exit code with it."""

    def __init__(self, text: str, code: int = 2):
        super().__init__(text)
        self.code = code


class Store:
    """Results, by what they depend on. Every method raises Trouble where the disk is full or broken."""

    def __init__(self, out: Path):
        try:
            out.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_file = (out / ".lock").open("a+")
        except OSError as error:
            raise Trouble(f"cannot write to {out}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = f"another grader is at work on {out}; wait for it, or name another --out"
            raise Trouble(text) from None
        self.path = out / NAME
        self._lock = threading.RLock()
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            rows = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = {name for (name,) in rows}
            if version not in (0, VERSION):
                raise Trouble(
                    f"{self.path} is of another version of the grader; name another --out"
                )
            # The version is set together with the tables; others number theirs from 1 too.
            if (tables and not version) or (version and not tables >= TABLES):
                raise Trouble(f"{self.path} {NOT_OURS}")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            script = f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;"
            self._db.executescript(script)
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def close(self) -> None:
        self._db.close()
        self._lock_file.close()

    def _trouble(self, error: sqlite3.Error) -> Trouble:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            there = "what is graded so far is kept: free some space, then --resume"
            return Trouble(f"the disk of {self.path} is full or broken ({text}); {there}", 1)
        if "not a database" in text:
            return Trouble(f"{self.path} {NOT_OURS}")
        if "malformed" in text:
            return Trouble(f"{self.path} is damaged ({text}); name another --out", 1)
        return Trouble(f"cannot write to {self.path}: {text}", 1)

    def _run(self, command: str, values: tuple = ()) -> list[tuple]:
        try:
            with self._lock:
                return self._db.execute(command, values).fetchall()
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def _read(self, text: str) -> Any:
        """What was kept as JSON."""
        try:
            return json.loads(text)
        except (ValueError, TypeError) as error:
            raise Trouble(f"{self.path} is damaged ({error}); name another --out", 1) from None

    # ---- settings, sources, outlines ---------------------------------------------------------

    def settings(self) -> dict:
        """What this OUT was graded with so far; {} if nothing was."""
        return {name: self._read(value) for name, value in self._run("SELECT * FROM settings")}

    def set(self, settings: dict) -> None:
        for name, value in settings.items():
            text = json.dumps(value)
            self._run("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, text))

    def keep(self, sha: str, content: bytes) -> None:
        self._run("INSERT OR IGNORE INTO sources VALUES (?, ?)", (sha, content))

    def source(self, sha: str) -> bytes:
        return self._run("SELECT content FROM sources WHERE sha = ?", (sha,))[0][0]

    def outlines(self, suites: dict[str, str]) -> dict[str, dict]:
        """What each of these katas' suites asks for, as far as it is known."""
        rows = self._run("SELECT kata, suite, outline FROM outlines")
        return {kata: self._read(text) for kata, suite, text in rows if suites.get(kata) == suite}

    def outline(self, kata: str, suite: str, outline: dict) -> None:
        values = (kata, suite, json.dumps(outline))
        self._run("INSERT OR REPLACE INTO outlines VALUES (?, ?, ?)", values)

    # ---- files of OUT ------------------------------------------------------------------------

    def wrote(self, name: str, sha: str) -> None:
        """A file of OUT is about to have these contents."""
        self._run("INSERT OR IGNORE INTO written VALUES (?, ?)", (name, sha))

    def is_ours(self, name: str, sha: str) -> bool:
        """Whether a file of OUT with these contents is one that the grader wrote."""
        values = (name, sha)
        return bool(self._run("SELECT 1 FROM written WHERE name = ? AND sha = ?", values))

    # ---- results -----------------------------------------------------------------------------

    def put(self, unit: Unit, suite: str, conditions: str, record: dict) -> None:
        """A result, for good: the first one for a key stays, unless it tells of the grader's own fault."""
        values = (*unit.key, suite, conditions, json.dumps(record))
        again = 'DO UPDATE SET record = excluded.record WHERE record LIKE \'{"status": "error"%\''
        self._run(f"INSERT INTO results VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT {again}", values)

    def get(self, unit: Unit, suite: str, conditions: str) -> dict | None:
        where = "sha = ? AND kata = ? AND part = ? AND suite = ? AND conditions = ?"
        values = (*unit.key, suite, conditions)
        rows = self._run(f"SELECT record FROM results WHERE {where}", values)
        return self._read(rows[0][0]) if rows else None

    def count(self) -> int:
        return self._run("SELECT count(*) FROM results")[0][0]
