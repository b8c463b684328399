"""Which Python the sessions use, when something is installed, and what bad input gets.

Every test works on a small copy of the project, with packages that are empty shells.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("nox")
from nox import registry as nox_registry

PROJECT = Path(__file__).resolve().parents[2]
PINS = sorted(file.name for file in (PROJECT / "tests").glob("*.txt"))
FAKE_PYTEST = """
import json, os, sys
print(json.dumps([sys.argv[1:], os.environ["PYTHONPATH"].split(os.pathsep)[0]]))
sys.exit(int(os.environ.get("FAKE_EXIT", "0")))
"""


@pytest.fixture
def project(tmp_path):
    """A copy of the project with two katas and no suites."""
    root = tmp_path / "katas"
    for kata in ("01_vector_add", "12_matmul"):
        folder = root / "exercises" / kata
        folder.mkdir(parents=True)
        (folder / "kernel.py").write_text("")
        (folder / "README.md").write_text(f"# {int(kata[:2])}. A title of its own\n")
    (root / "tests").mkdir()
    shutil.copy(PROJECT / "noxfile.py", root)
    for name in PINS:
        shutil.copy(PROJECT / "tests" / name, root / "tests")
    return root


@pytest.fixture
def with_grader(project):
    """The copy, with the grader in it."""
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "tests" / "grader", project / "tests" / "grader", ignore=leave_out)
    return project


@pytest.fixture
def load(project, monkeypatch):
    """Loads the copy's noxfile as nox would, with a command line."""
    for name in ("KATAS_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX", "NOXSESSION"):
        monkeypatch.delenv(name, raising=False)

    def load(*words):
        monkeypatch.setattr(sys, "argv", ["nox", *words])
        spec = importlib.util.spec_from_file_location("copied_noxfile", project / "noxfile.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def make_environment(folder, *packages):
    """A real environment that holds empty shells of some packages; returns its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for name in packages:
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("")
        (site / name / "__main__.py").write_text(FAKE_PYTEST)
    return str(folder / "bin" / "python")


def nox(project, *words, **env):
    """Run nox in a copy: (exit code, standard output, the lines of standard error)."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NOX", "KATAS_", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", "nox", *words],
        cwd=project,
        env=clean | env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


# Names on the command line


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["-s", "check-1"], ["check-1"]),
        (["-s", "check-1", "check-12", "-v"], ["check-1", "check-12"]),
        (["-s=check-99"], ["check-99"]),
        (["-scheck-99"], ["check-99"]),
        (["-e", "check-99"], ["check-99"]),
        (["--session", "check-99"], ["check-99"]),
        (["--sessions=check-99"], ["check-99"]),
        (["-R", "-s", "lint", "--", "-s", "check-99"], ["lint"]),
        (["-l"], []),
        ([], []),
    ],
)
def test_names_are_read_as_nox_reads_them(load, words, names):
    module = load()
    sys.argv[1:] = words
    assert module.requested() == names


def test_names_may_come_from_the_environment(load, monkeypatch):
    monkeypatch.setenv("NOXSESSION", "check-1, check-12")
    assert load().requested() == ["check-1", "check-12"]


@pytest.mark.parametrize("name", ["check-99", "check-0", "check-099", "hint-99"])
def test_unknown_kata_is_one_line_and_exit_2(load, capsys, name):
    with pytest.raises(SystemExit) as stopped:
        load("-s", "check-1", name)
    assert stopped.value.code == 2
    number = int(name.partition("-")[2])
    assert capsys.readouterr().err == f"there is no kata {number} here; katas: 1, 12\n"


@pytest.mark.parametrize("name", ["check", "check-", "check-one", "hint", "reset-"])
def test_check_without_a_number(load, capsys, name):
    with pytest.raises(SystemExit) as stopped:
        load("-s", name)
    assert stopped.value.code == 2
    family = name.partition("-")[0]
    said = f"there is no session {name} here; write {family}-N, with N of katas: 1, 12\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("check1", "did you mean check-1? "),
        ("check_12", "did you mean check-12? "),
        ("Hint-12", "did you mean hint-12? "),
        ("watch-1", "did you mean watch? "),
        ("xyz", ""),
    ],
)
def test_a_session_that_is_not_there(load, capsys, name, meant):
    with pytest.raises(SystemExit) as stopped:
        load("-s", "lint", name)
    assert stopped.value.code == 2
    said = f"there is no session {name} here; {meant}nox -l lists them\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("name", ["home", "next", "hint-1", "doctor"])
def test_words_for_a_session_that_takes_none(load, capsys, name):
    load("-s", name)
    with pytest.raises(SystemExit) as stopped:
        nox_registry.get()[name](SimpleNamespace(name=name, posargs=["5"]))
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"{name} takes no further words\n"


def test_nox_passes_the_line_and_the_code_on(project):
    code, output, errors = nox(project, "-s", "check-99")
    assert (code, output) == (2, "")
    assert errors == ["there is no kata 99 here; katas: 1, 12"]


def test_nox_alone_says_where_you_are_and_what_to_type(with_grader):
    code, output, errors = nox(with_grader)
    assert code == 0
    assert errors == []
    assert "0 of 2 solved" in output
    assert "kata 1, A title of its own" in output
    assert "exercises/01_vector_add/README.md" in output
    assert re.search(r"nox -s check-1$", output, flags=re.M)


@pytest.mark.parametrize("name", ["status", "next", "hint-12", "hint-012", "reset-1"])
def test_what_runs_no_kernel_needs_nothing_installed(with_grader, name):
    stub = with_grader / "tests" / "stubs" / "01_vector_add" / "kernel.py"
    stub.parent.mkdir(parents=True)
    stub.write_text("")
    code, output, errors = nox(with_grader, "-s", name, KATAS_PYTHON="")
    assert (code, errors) == (0, [])
    assert len(output.splitlines()) >= 1
    assert not (with_grader / ".venv").exists()


def test_watch_without_a_terminal(with_grader):
    code, output, errors = nox(with_grader, "-s", "watch", "--", "12", KATAS_PYTHON=sys.executable)
    assert (code, output) == (2, "")
    assert errors[1:] == [f"watch needs a terminal; {nox_said(errors)} -s check-12 checks once"]


def nox_said(errors):
    """How nox was called, as the advice repeats it."""
    return errors[-1].partition("; ")[2].partition(" -s ")[0]


def test_the_list_shows_what_can_be_done_once(project):
    _, output, _ = nox(project, "-l")
    assert {"check-1", "check-12", "hint-1", "bench-1"} <= set(re.findall(r"[a-z]+-\d+", output))
    assert "hint-12" not in output


def test_noxfile_imports_neither_torch_nor_triton(project):
    code = "import noxfile, sys; sys.exit(bool({'torch', 'triton', 'pytest'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=project, check=False)
    assert done.returncode == 0


# The Python that serves the sessions


def test_named_python_runs_the_check(project, tmp_path):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    words = ("-s", "check-01", "--", "--lanes=trace")
    code, output, errors = nox(project, *words, KATAS_PYTHON=python)
    assert code == 0
    assert "tests/test_01_vector_add.py" in output
    assert '"--root=exercises", "--lanes=trace"' in output
    assert str(project / "tests") in output
    assert errors == [f"Using {python}, with the torch and triton that are installed there."]
    assert not (project / ".venv").exists()


@pytest.mark.parametrize(("fake", "code"), [(1, 1), (2, 2), (4, 2), (5, 5)])
def test_exit_code_is_that_of_the_check(project, tmp_path, fake, code):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    got, _, errors = nox(project, "-s", "check-1", KATAS_PYTHON=python, FAKE_EXIT=str(fake))
    assert got == code
    assert len(errors) == 1


@pytest.mark.parametrize(("fake", "code"), [(0, 0), (1, 1), (2, 2)])
def test_grading_a_class_starts_where_the_command_was_typed(project, tmp_path, fake, code):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    package = project / "tests" / "grader" / "classroom"
    package.mkdir(parents=True)
    for folder in (
        package.parent,
        package,
    ):  # a real package: this project's own may be on the path
        (folder / "__init__.py").touch()
    text = (
        "import os, sys; print(os.getcwd(), *sys.argv[1:]); sys.exit(int(os.environ['FAKE_EXIT']))"
    )
    (package / "__main__.py").write_text(text)
    words = ("-f", str(project / "noxfile.py"), "-s", "grade", "--", "in", "--out", "out")
    env = dict(KATAS_PYTHON=python, FAKE_EXIT=str(fake))
    got, printed, said = nox(tmp_path, *words, **env)
    assert (got, printed) == (code, f"{tmp_path} in --out out\n")
    assert len(said) == 1


def test_benchmark_is_run_by_the_python_of_the_checks(project, tmp_path):
    python = make_environment(
        tmp_path / "env", "torch", "triton", "numpy", "pytest", "pytest_benchmark"
    )
    words = ("-s", "bench-12", "--", "--show-compiled")
    code, printed, said = nox(project, *words, KATAS_PYTHON=python)
    assert (code, len(said)) == (0, 1)
    arguments, _ = json.loads(printed)
    assert "tests/bench.py" in arguments
    assert "--kata=12" in arguments
    assert arguments[-1] == "--show-compiled"


def test_picture_is_drawn_by_the_python_of_the_checks(project, tmp_path):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    (project / "tests" / "grader").mkdir()
    (project / "tests" / "grader" / "__init__.py").touch()
    (project / "tests" / "grader" / "show.py").write_text(FAKE_PYTEST)
    code, printed, said = nox(project, "-s", "show-12", "--", "--open", KATAS_PYTHON=python)
    assert (code, len(said)) == (0, 1)
    assert json.loads(printed)[0] == ["12", "--open"]


def test_benchmark_without_its_plugin_says_what_to_install(project, tmp_path):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    code, printed, said = nox(project, "-s", "bench-1", KATAS_PYTHON=python)
    assert (code, printed) == (2, "")
    assert said[-1].endswith("-m pip install pytest-benchmark")


def test_histogram_without_pygal_says_what_to_install(project, tmp_path):
    python = make_environment(
        tmp_path / "env", "torch", "triton", "numpy", "pytest", "pytest_benchmark"
    )
    words = ("-s", "bench-1", "--", "--benchmark-histogram")
    code, printed, said = nox(project, *words, KATAS_PYTHON=python)
    assert (code, printed) == (2, "")
    assert said[-1].endswith("-m pip install pygal pygaljs")


def test_one_failure_among_several_checks(project, tmp_path):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    words = ("-s", "check-1", "check-12")
    code, output, _ = nox(project, *words, KATAS_PYTHON=python, FAKE_EXIT="1")
    assert code == 1
    assert "test_01_vector_add" in output
    assert "test_12_matmul" in output


@pytest.mark.parametrize("fake", [0, 1])
def test_all_tests_in_an_existing_environment(project, tmp_path, fake):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    (project / "tests" / "grader").mkdir()
    (project / "tests" / "grader" / "__init__.py").touch()
    (project / "tests" / "grader" / "__init__.py").touch()
    (project / "tests" / "grader" / "selfcheck.py").write_text("print('selfcheck ran')")
    code, output, errors = nox(project, "-s", "tests", KATAS_PYTHON=python, FAKE_EXIT=str(fake))
    assert code == fake
    assert "--root=solutions" in output
    assert "selfcheck ran" in output
    assert "tests/selftest" in output
    assert any("ruff and mypy are not installed" in line for line in errors)


def test_lint_asked_for_without_its_tools(project, tmp_path):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    code, _, errors = nox(project, "-s", "lint", KATAS_PYTHON=python)
    assert code == 2
    assert f"ruff and mypy are not installed: {python} -m pip install ruff mypy" in errors


def test_named_python_that_does_not_run(project):
    code, _, errors = nox(project, "-s", "check-1", KATAS_PYTHON="/no/such/python")
    assert code == 2
    assert errors == ["KATAS_PYTHON=/no/such/python: that is not a Python that runs"]


def test_named_python_that_lacks_something(project, tmp_path):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy")
    code, _, errors = nox(project, "-s", "check-1", KATAS_PYTHON=python)
    assert code == 2
    assert errors == [f"KATAS_PYTHON={python} lacks pytest: {python} -m pip install pytest"]


def here(module, monkeypatch, *packages, version=(3, 11)):
    """Let the Python that runs nox have these packages, and no part in .venv."""
    monkeypatch.setattr(module, "in_venv", lambda: False)
    monkeypatch.setattr(module, "probe_here", lambda *names: (version, set(names) & set(packages)))


def test_python_of_nox_is_used_as_it_is(load, monkeypatch):
    module = load()
    here(module, monkeypatch, "torch", "triton", "numpy", "pytest")
    assert module.existing_python() == sys.executable


def test_missing_pytest_is_said(load, monkeypatch, capsys):
    module = load()
    here(module, monkeypatch, "torch", "triton", "numpy")
    with pytest.raises(SystemExit) as stopped:
        module.shared_python()
    assert stopped.value.code == 2
    assert "-m pip install pytest" in capsys.readouterr().err


def test_existing_python_out_of_range(load, monkeypatch, capsys):
    module = load()
    here(module, monkeypatch, "torch", "triton", "numpy", "pytest", version=(3, 14))
    with pytest.raises(SystemExit) as stopped:
        module.shared_python()
    assert stopped.value.code == 2
    assert "3.10 to 3.13" in capsys.readouterr().err


def test_active_environment_is_used_as_it_is(load, monkeypatch, tmp_path):
    module = load()
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    here(module, monkeypatch)
    assert module.existing_python() is None
    module.existing_python.cache_clear()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    assert module.existing_python() == python


def test_folder_named_like_a_package_is_no_package(load, tmp_path, monkeypatch):
    module = load()
    (tmp_path / "triton").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    python = make_environment(tmp_path / "env")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert module.probe(python, "triton") == (sys.version_info[:2], set())


# Installing into .venv


@pytest.fixture
def fresh(load, monkeypatch):
    """A noxfile with no environment but .venv, whose pip only writes down what it was asked."""
    module = load()
    here(module, monkeypatch)
    monkeypatch.setattr(module, "has_pip", lambda python: True)
    module.asked = []
    module.answer = (0, [])

    def pip_install(python, arguments):
        assert python == str(module.venv_python())
        module.asked.append(arguments)
        return module.answer

    def make(command, **options):
        make_environment(Path(command[-1]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(module, "pip_install", pip_install)
    real = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda c, **o: make(c, **o) if "venv" in c else real(c, **o)
    )
    return module


def again(module):
    """The next run of nox: nothing is remembered but what is on the disk."""
    for function in (module.existing_python, module.shared_python, module.dev_python):
        function.cache_clear()
    return module.shared_python()


def test_environment_is_made_and_filled_once(fresh, capsys):
    python = again(fresh)
    assert python == str(fresh.VENV / "bin" / "python")
    assert fresh.asked == [["-r", str(fresh.REQUIREMENTS)]]
    said = capsys.readouterr().err
    assert said.startswith("Installing PyTorch")
    assert said.count("\n") == 1
    assert again(fresh) == python
    assert len(fresh.asked) == 1
    assert capsys.readouterr().err == ""


def test_other_pins_are_installed(fresh):
    again(fresh)
    with fresh.CONSTRAINTS.open("a") as pins:
        pins.write("# another\n")
    again(fresh)
    assert fresh.asked == [["-r", str(fresh.REQUIREMENTS)]] * 2


def test_interrupted_installation_is_repaired(fresh, monkeypatch):
    patched = fresh.pip_install

    def interrupted(python, arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(fresh, "pip_install", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again(fresh)
    monkeypatch.setattr(fresh, "pip_install", patched)
    again(fresh)
    again(fresh)
    assert fresh.asked == [["-r", str(fresh.REQUIREMENTS), "--force-reinstall"]]


def test_failed_installation_shows_why_and_is_tried_again(fresh, capsys):
    fresh.answer = (1, ["ERROR: no network"])
    with pytest.raises(SystemExit) as stopped:
        again(fresh)
    assert stopped.value.code == 2
    assert "ERROR: no network" in capsys.readouterr().err
    fresh.answer = (0, [])
    again(fresh)
    assert len(fresh.asked) == 2


def test_broken_environment_is_made_anew(fresh):
    again(fresh)
    fresh.venv_python().unlink()
    again(fresh)
    assert fresh.venv_python().exists()


def test_maintainers_tools_come_only_when_asked_for(fresh):
    python = again(fresh)
    assert fresh.dev_python("ruff") == python
    files = [fresh.DEV_REQUIREMENTS, fresh.GRADING_REQUIREMENTS]
    assert fresh.asked[1:] == [[word for file in files for word in ("-r", str(file))]]


def test_grading_a_class_brings_its_packages_and_ray_only_for_a_cluster(fresh):
    python = again(fresh)
    assert fresh.grading_python(cluster=False) == python
    assert fresh.asked[1:] == [["-r", str(fresh.GRADING_REQUIREMENTS)]]
    fresh.grading_python(cluster=True)
    assert fresh.asked[2:] == [["-r", str(fresh.CLUSTER_REQUIREMENTS)]]


def test_existing_environment_without_the_tools_is_left_alone(fresh, monkeypatch, tmp_path):
    python = make_environment(tmp_path / "env", "torch", "triton", "numpy", "pytest")
    monkeypatch.setenv("KATAS_PYTHON", python)
    assert fresh.shared_python() == python
    assert fresh.dev_python("ruff") is None
    assert fresh.asked == []


@pytest.mark.parametrize(("system", "name"), [("darwin", "macOS"), ("win32", "Windows")])
def test_platform_without_triton(fresh, monkeypatch, capsys, system, name):
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(SystemExit) as stopped:
        again(fresh)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert f"no wheel for {name}" in said
    assert said.count("\n") == 1
    assert not fresh.VENV.exists()


def test_environment_of_another_python(fresh, capsys):
    again(fresh)
    notes = fresh.VENV / "pyvenv.cfg"
    notes.write_text(re.sub(r"version = .*", "version = 3.14.0", notes.read_text()))
    with pytest.raises(SystemExit) as stopped:
        again(fresh)
    assert stopped.value.code == 2
    assert ".venv is Python 3.14" in capsys.readouterr().err


# What is written in more than one place


def test_ci_calls_what_the_readme_says():
    readme = (PROJECT / "README.md").read_text()
    (command,) = re.findall(r"^python3 -m venv .* && .*nox -s tests$", readme, flags=re.M)
    assert command in (PROJECT / ".ci" / "run").read_text()
    assert ".ci/run" in (PROJECT / ".github" / "workflows" / "ci.yml").read_text()
    pin = re.search(r"nox==\S+", (PROJECT / "tests" / "requirements-dev.txt").read_text())[0]
    assert set(re.findall(r"nox==\S+", readme)) == {pin}


def test_every_requirement_is_pinned():
    for name in PINS:
        for line in (PROJECT / "tests" / name).read_text().splitlines():
            assert re.match(
                r"$|#|-c |[a-z0-9-]+==\d[\w.]*(; python_version [<>]=? \"3.11\")?$", line
            )
