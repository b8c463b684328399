"""Hands the pytest hooks over to the grader."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# `python -m pytest` puts the working directory first: what lies there must not stand in for torch.
if Path.cwd() not in (HERE, HERE.parent):
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path.cwd()]
sys.path.insert(0, str(HERE))

pytest_plugins = ["grader.plugin"]
