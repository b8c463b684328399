"""Hands the pytest hooks over to the grader."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

pytest_plugins = ["grader.plugin"]
