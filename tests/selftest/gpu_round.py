"""Everything that only a card can prove, in one go: `python tests/selftest/gpu_round.py`.

Runs the suites, through pytest and with --scorecard, on the solutions and stubs and on chosen
honest variants, mutants and the files of on_card/; then, with --twins, asks again and again for
the speed verdict of each reference solution and of a twin that is a quarter slower, and counts
verdicts that flip. Prints a short table; --out FILE keeps everything as JSON.

A file in on_card/NN_slug says in its first line what must come of it: "honest: ..." passes whole,
"CONCEPT WORDS: ..." fails in that concept with those words in the message.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tests"))

TWIN = {
    "01_vector_add": "add(x.view(-1)[: x.numel() // 3], y.view(-1)[: y.numel() // 3])",
    "03_scale": "scale(x.view(-1)[: x.numel() // 3], s)",
    "07_softmax": "softmax(x[: x.shape[0] // 3])",
    "12_matmul": "matmul(a[: a.shape[0] // 3], b)",
}


def files(args) -> list[tuple[str, str, Path, str]]:
    """What is to be run: (kata, kind, file, lanes)."""
    from grader.grading import katas

    work = []
    for kata in katas():
        number = str(int(kata[:2]))
        if args.katas and number not in args.katas.split(","):
            continue
        if "solutions" in args.what:
            work.append((kata, "solution", PROJECT / "solutions" / kata / "kernel.py", args.lanes))
        if "stubs" in args.what:
            work.append((kata, "stub", PROJECT / "exercises" / kata / "kernel.py", args.lanes))
        for kind, folder in (
            ("honest", PROJECT / "tests/honest" / kata),
            ("mutant", PROJECT / "tests/mutants" / kata),
            ("card", PROJECT / "tests/selftest/on_card" / kata),
        ):
            for word in args.what.split(","):
                name, _, wanted = word.partition(":")
                if name != {"honest": "honest", "mutant": "mutants", "card": "card"}[kind]:
                    continue
                work += [
                    (kata, kind, file, "gpu")
                    for file in sorted(folder.glob("*.py"))
                    if not wanted or file.stem in wanted.split("+")
                ]
    return work


def run(kata: str, kind: str, file: Path, lanes: str) -> dict:
    """One suite on one file; the scorecard with the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / kata).mkdir()
        (root / kata / "kernel.py").write_bytes(file.read_bytes())
        card = root / "card.json"
        began = time.monotonic()
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", f"tests/test_{kata}.py", "-q"),
                *("--root", folder, "--scorecard", str(card), "--lanes", lanes),
            ],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            env=os.environ | {"NO_COLOR": "1"},
        )
        took = time.monotonic() - began
        facts = json.loads(card.read_text()) if card.exists() else {"checks": [], "score": 0}
    facts |= {"kind": kind, "name": file.stem if kind not in ("solution", "stub") else kind}
    facts |= {"seconds": round(took, 1), "exit": ended.returncode}
    if ended.returncode not in (0, 1) or any(c["status"] == "error" for c in facts["checks"]):
        facts["output"] = (ended.stdout + ended.stderr)[-3000:]
    facts["problem"] = problem(facts, file)
    return facts


def problem(facts: dict, file: Path) -> str:
    """What is not as it should be, "" when all is well. Mutants need only fail somewhere."""
    failed = [c for c in facts["checks"] if c["status"] in ("failed", "error")]
    if "output" in facts:
        return "the grader failed"
    wanted = file.read_text().split('"""', 2)[1].split(":", 1)[0].strip()
    if facts["kind"] == "honest":  # written to be right, not to be fast
        failed = [c for c in failed if "of the reference" not in c["message"]]
    if facts["kind"] in ("solution", "honest") or wanted == "honest":
        return "; ".join(f"{c['id']}: {c['message']}" for c in failed)[:300]
    if facts["kind"] == "card":
        concept, _, words = wanted.partition(" ")
        told = [c["message"] for c in failed if c["concept"] == concept]
        return "" if any(words in text for text in told) else f"not caught as it should: {told}"
    return "" if failed else "passes"


def twins(kata: str, verdicts: int, children: int, most_seconds: float) -> list[dict]:
    """Ask for so many speed verdicts on the reference solution and on its slower twin."""
    from grader.evidence import Evidence
    from grader.grading import suite
    from grader.judge import Nursery
    from grader.reasons import Wrong
    from grader.speed import card_lock

    statement = suite(kata).KATA
    solution = (PROJECT / "solutions" / kata / "kernel.py").read_text()
    name, parameters = statement.launcher, ", ".join(statement.parameters)
    again = TWIN[kata].replace(name, "whole", 1)
    slower = (
        f"\n\nwhole = {name}\n\n\ndef {name}({parameters}):\n"
        f"    out = whole({parameters})\n    {again}\n    return out\n"
    )
    out = []
    nursery = Nursery()
    with tempfile.TemporaryDirectory() as folder:
        for who, source in (("reference", solution), ("twin", solution + slower)):
            file = Path(folder) / f"{who}.py"
            file.write_text(source)
            results, troubles = [], []
            began = time.monotonic()
            for _ in range(children):
                evidence = Evidence(statement, file, nursery, {}, "twins")
                child = evidence._child("speed")
                share = most_seconds / children
                until = time.monotonic() + share
                with card_lock(alone=True):
                    for _ in range(verdicts // children):
                        if time.monotonic() > until:
                            break
                        try:
                            results.append(evidence.measure(child))
                        except Wrong as wrong:
                            troubles.append(wrong.message)
                child.stop()
                evidence.close()
            passes = sum(r.passed for r in results)
            ratios = [r.ratio for r in results] or [0.0]
            # The mark of memory-bound katas lies between the two; for others it is tried as well.
            above = sum(r >= 0.85 for r in ratios)
            out.append(
                {
                    "kata": kata,
                    "who": who,
                    "verdicts": len(results),
                    "passes": passes,
                    "above_0.85": above,
                    "distinctions": sum(r.distinction for r in results),
                    "undecided": sum(not r.decided for r in results),
                    "lowest": min(ratios),
                    "median": statistics.median(ratios),
                    "highest": max(ratios),
                    "example": results[-1].text if results else "",
                    "troubles": troubles[:5],
                    "seconds": round(time.monotonic() - began, 1),
                    "rounds": [r.rounds for r in results],
                    "marks": dataclasses.asdict(results[-1])["marks"] if results else None,
                }
            )
    nursery.close()
    return out


def show(card: dict) -> None:
    """One file's row, and what the checks on the card had to say."""
    failed = ",".join(c["id"] for c in card["checks"] if c["status"] in ("failed", "error"))
    of = card.get("max_score", 0) - card.get("not_judged", 0)
    state = "BAD " if card["problem"] else "ok  "
    print(
        f"{state}{card.get('kata', '?'):<14} {card['name']:<28} {card['score']:>3}/{of:<3} "
        f"{card['seconds']:>5.1f} s  {failed[:60]}"
    )
    for check in card["checks"]:
        if check["lane"] == "gpu" and check["message"]:
            print(f"       {check['id']}: {check['message'][:160]}")
    if card["problem"]:
        print(f"     ! {card['problem']}\n{card.get('output', '')[-1500:]}")


def keep(out: str | None, cards: list[dict], rows: list[dict]) -> None:
    if out:
        Path(out).write_text(json.dumps({"cards": cards, "twins": rows}, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--what",
        default="solutions,stubs,card",
        help="of solutions, stubs, card, honest, mutants; the last three also as NAME:file+file",
    )
    parser.add_argument("--katas", default="", help="kata numbers, such as 1,12 (default: all)")
    parser.add_argument("--lanes", default="trace,compile,gpu", help="for solutions and stubs")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--twins", type=int, default=0, help="speed verdicts for each and its twin")
    parser.add_argument("--twin-seconds", type=float, default=60, help="at most, for each of them")
    parser.add_argument("--children", type=int, default=2, help="processes they are spread over")
    parser.add_argument("--out", help="write everything as JSON to this file")
    args = parser.parse_args()
    began = time.monotonic()
    cards = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for card in pool.map(lambda work: run(*work), files(args)):
            cards.append(card)
            show(card)
            keep(args.out, cards, [])
    rows = []
    if args.twins:
        from grader.grading import katas

        for kata in katas():
            if kata in TWIN and (not args.katas or str(int(kata[:2])) in args.katas.split(",")):
                rows += twins(kata, args.twins, args.children, args.twin_seconds)
                for row in rows[-2:]:
                    print(
                        f"{row['kata']:<13} {row['who']:<9} "
                        f"{row['passes']}/{row['verdicts']} pass, {row['above_0.85']} above 0.85, "
                        f"{row['distinctions']} with distinction, "
                        f"ratio {row['lowest']:.3f} {row['median']:.3f} {row['highest']:.3f}, "
                        f"{row['undecided']} undecided, {row['seconds']} s {row['troubles']}"
                    )
                    print(f"       {row['example']}")
                keep(args.out, cards, rows)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if any(card["problem"] for card in cards) else 0


if __name__ == "__main__":
    sys.exit(main())
