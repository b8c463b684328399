"""The engine that grades a kata: it runs a kernel in three lanes and turns what it saw into a verdict.

How a verdict comes about, in the order in which the data flows:

`kata`       what a suite states once: launcher, cases, reference, tolerance, cost
`judge`      asks a worker to run every case in every lane, and keeps the answers as evidence
`worker`     the child process that alone imports the file under test (`wire` is how they talk)
`recorder`, `interpreter`, `quick`, `watch`   the trace lane, inside the worker
`compiling`, `chips`                 the compile lane, inside the worker
`hints`      words for beginners' mistakes, in both of these lanes
`gpu`, `speed`                       the gpu lane, inside the worker
`talk`, `client`                     in place of lanes where a kata asks for an agent: a scripted
                                     server in the judge, its client in the worker
`evidence`, `run`, `oracle`          what was seen: of one file, in one call of its launcher, and held
                     against an fp64 reference (`tensors` go as bytes, `reasons` are raised);
                     `outline` finds the lines of the file that a message points to
`explain`, `guesses`   what an error means for the learner; which mistake gives just these numbers
`sandbox`, `cell`    what a submission sees and may use where a class is graded: the nursery in
                     bubblewrap (judge side), each child in a cell of its own (worker side)
`guard`, `signs`     what looks like deceit: replaced functions (worker side), words in the text
`loading`, `processes`   load torch and triton fast; how much processor time a process has had
`plugin`, `scorecard`, `report`      pytest hooks, the JSON file, and the page a learner reads
`words`      numbers in sentences
`cost`       an estimate for the report, from what the lanes saw anyway
`progress`   where a learner is: one file, written by every check of exercises/
`status`, `clues`, `stubs`   what is told from it: where you are, hints, the way back to a stub
`watching`, `warm`   check again at every save, with a judge that stays loaded
`hunts`      bug hunts: mutants under names that give nothing away
`beside`, `sanitize`   on a card: torch.compile's own kernel, NVIDIA's compute-sanitizer
`selfcheck`  proves that the suites have teeth: mutants fail, honest variants pass
`hostile`    proves that the grader has: attacks are caught, their honest twins pass
`show`, `picture`, `sheets`   no verdicts: a page that shows a kernel at work; its record is the
                     trace lane's, `show.html` draws it
`examples`, `screenshots`   real reports for the lessons, real pictures for the README
`classroom`  grades a class: submissions in, marks and feedback out (a package of its own)
`bench`, `table`   no verdicts: benchmarks over sizes, and the figures in solutions/README.md
"""

import sys


def _quiet(kind, error, traceback) -> None:
    """Let a command that Ctrl-C ends, as it may while it still loads, end without a traceback."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _quiet
