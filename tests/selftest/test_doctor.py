"""The doctor's advice for machines that are not this one."""

import copy
import json

import pytest
from grader import doctor
from grader.doctor import diagnose, lanes

CPU_TORCH = {
    "version": "2.13.0+cpu",
    "cuda": None,
    "hip": None,
    "devices": [],
    "gpu_error": None,
}
H200 = {
    "name": "NVIDIA H200",
    "capability": [9, 0],
    "sms": 132,
    "memory": 150_000_000_000,
    "arch": "",
}


def machine(**changes):
    """A Linux machine without a GPU where all is well, with some facts changed."""
    facts = {
        "system": "Linux",
        "machine": "x86_64",
        "python": [3, 11, 7],
        "executable": ".venv/bin/python",
        "cores": 2,
        "torch": CPU_TORCH,
        "triton": {"version": "3.7.1", "missing_tools": [], "backends": ["amd", "nvidia"]},
        "numpy": {"version": "2.2.6"},
        "pytest": {"version": "9.2.0"},
        "nvidia_smi": "",
        "amd_device": False,
        "cache": {"path": "/home/ada/.triton/cache", "size": 3 << 20, "writable": True},
        "env": {},
    }
    return copy.deepcopy(facts | changes)


def gpu_machine(**device):
    torch = CPU_TORCH | {"version": "2.13.0", "cuda": "13.0", "devices": [H200 | device]}
    return machine(torch=torch, nvidia_smi="NVIDIA H200, 580.65")


def findings(facts, *levels):
    return [line for line in diagnose(facts) if line.level in levels]


def only(facts, *levels):
    """The one finding of these levels that is not about a lane."""
    found = [line for line in findings(facts, *levels) if not line.text.startswith("lane ")]
    assert len(found) == 1, found
    return found[0]


def missing(name):
    return {"error": f"ModuleNotFoundError: No module named '{name}'"}


def test_all_is_well_without_a_gpu():
    facts = machine()
    assert findings(facts, "warn", "bad") == []
    assert "No GPU" in only(facts, "note").text
    assert lanes(facts) == {"trace": True, "compile": True, "gpu": False}


@pytest.mark.parametrize(("system", "name"), [("Darwin", "macOS"), ("Windows", "Windows")])
def test_platform_without_a_wheel(system, name):
    facts = machine(system=system, triton=missing("triton"))
    platform, package = [x for x in findings(facts, "bad") if not x.text.startswith("lane")]
    assert f"no wheel for {name}" in platform.text
    assert "notebook host" in platform.todo
    assert "not installed" in package.text
    assert not any(lanes(facts).values())


def test_windows_is_sent_to_wsl():
    assert "WSL 2" in findings(machine(system="Windows", triton=missing("triton")), "bad")[0].todo


def test_python_out_of_range():
    line = only(machine(python=[3, 14, 0]), "warn", "bad")
    assert "3.14.0" in line.text
    assert "3.10 to 3.13" in line.todo


@pytest.mark.parametrize("version", ["3.5.0", "3.10.0", "4.0.0+git1"])
def test_triton_out_of_range(version):
    facts = machine(triton={"version": version, "missing_tools": [], "backends": []})
    line = only(facts, "warn", "bad")
    assert version in line.text
    assert "3.6 to 3.9" in line.text
    assert lanes(facts)["trace"]


def test_numpy_that_breaks_an_old_interpreter():
    old = {"version": "3.6.0", "missing_tools": [], "backends": []}
    line = only(machine(triton=old, numpy={"version": "2.4.6"}), "warn", "bad")
    assert "numpy<2.4" in line.todo
    assert findings(machine(triton=old), "warn", "bad") == []
    assert findings(machine(numpy={"version": "2.4.6"}), "warn", "bad") == []


def test_old_torch():
    line = only(machine(torch=CPU_TORCH | {"version": "2.6.0"}), "warn", "bad")
    assert "2.6.0" in line.text


@pytest.mark.parametrize("value", ["1", "true", "TRUE"])
def test_interpreter_left_on_in_the_shell(value):
    line = only(machine(env={"TRITON_INTERPRET": value}), "warn", "bad")
    assert line.todo.startswith("unset TRITON_INTERPRET")


def test_interpreter_set_to_off_is_fine():
    assert findings(machine(env={"TRITON_INTERPRET": "0"}), "warn", "bad") == []


def test_other_variables_are_told():
    facts = machine(env={"TRITON_ALWAYS_COMPILE": "1", "TRITON_KERNEL_OVERRIDE": "1"})
    texts = "\n".join(map(str, findings(facts, "note")))
    assert "TRITON_ALWAYS_COMPILE" in texts
    assert "TRITON_KERNEL_OVERRIDE" in texts


def test_gpu_is_named_with_backend_and_architecture():
    facts = gpu_machine()
    text = next(line.text for line in findings(facts, "ok") if line.text.startswith("GPU"))
    assert text == "GPU NVIDIA H200: cuda, sm_90, 132 SMs, 140 GiB"
    assert lanes(facts) == {"trace": True, "compile": True, "gpu": True}
    assert findings(facts, "warn", "bad") == []


def test_amd_gpu():
    facts = gpu_machine(name="AMD Instinct MI300X", arch="gfx942", sms=304)
    facts["torch"] |= {"cuda": None, "hip": "7.1.1"}
    text = next(line.text for line in findings(facts, "ok") if line.text.startswith("GPU"))
    assert "hip, gfx942, 304 compute units" in text


def test_gpu_older_than_triton_supports():
    line = only(gpu_machine(name="Tesla T4", capability=[7, 5]), "warn", "bad")
    assert "sm_75" in line.text
    assert "--lanes=trace,compile" in line.todo


def test_cpu_build_beside_a_card():
    line = only(machine(nvidia_smi="NVIDIA H200, 580.65"), "warn", "bad")
    assert "not a CUDA build" in line.text
    assert "CUDA build" in line.todo


def test_card_that_torch_cannot_use():
    torch = CPU_TORCH | {"cuda": "13.0", "gpu_error": "The NVIDIA driver on your system is too old"}
    line = only(machine(torch=torch, nvidia_smi="NVIDIA A100, 450.80"), "warn", "bad")
    assert "too old" in line.text
    assert "450.80" in line.text
    assert "driver" in line.todo


def test_hidden_card():
    facts = machine(nvidia_smi="NVIDIA H200, 580.65", env={"CUDA_VISIBLE_DEVICES": ""})
    assert only(facts, "warn", "bad").todo == "unset CUDA_VISIBLE_DEVICES"


def test_amd_card_with_another_build():
    assert "ROCm build" in only(machine(amd_device=True), "warn", "bad").text


def test_cache_that_cannot_be_written():
    cache = {"path": "/root/.triton/cache", "size": 0, "writable": False}
    facts = machine(cache=cache)
    assert "TRITON_CACHE_DIR" in only(facts, "warn", "bad").todo
    assert lanes(facts) == {"trace": True, "compile": False, "gpu": False}


def test_nothing_installed():
    facts = machine(**{name: missing(name) for name in ("torch", "triton", "numpy", "pytest")})
    assert len(findings(facts, "bad")) == 5
    assert not lanes(facts)["trace"]


def test_package_that_crashes_on_import():
    facts = machine(triton={"error": "the process died of SIGSEGV"})
    line = only(facts, "bad")
    assert "SIGSEGV" in line.text
    assert "--force-reinstall triton" in line.todo


def test_tools_missing_from_triton():
    facts = machine(triton={"version": "3.7.1", "missing_tools": ["cuobjdump"], "backends": []})
    assert "cuobjdump" in only(facts, "warn", "bad").text
    assert not lanes(facts)["compile"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_package", "No module named 'no_such_package'"),
        ("import os; os.abort()", "SIGABRT"),
        ("import os; os._exit(3)", "exit code 3"),
        ("while True: pass", "did not answer"),
        ("print('hello')", "exit code 0"),
        ("print(3)", "makes no sense"),
    ],
)
def test_a_broken_probe_becomes_one_line(code, words):
    error = doctor.ask(code, timeout=2)["error"]
    assert words in error
    assert "\n" not in error


def test_collect_gives_plain_data(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "deep" / "cache"))
    monkeypatch.setattr(doctor, "ask", lambda code: {"error": "not asked"})
    facts = doctor.collect()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cache"] == {"path": str(tmp_path / "deep/cache"), "size": 0, "writable": True}
    assert not (tmp_path / "deep").exists()
    assert all(str(line) for line in diagnose(facts))


def test_cache_below_a_file_is_not_writable(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert not doctor.cache_facts()["writable"]


@pytest.mark.parametrize("columns", [50, 80])
def test_what_it_says_fits_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    facts = machine(env={"TRITON_INTERPRET": "1", "TRITON_ALWAYS_COMPILE": "1"})
    lines = "\n".join(map(str, diagnose(facts))).splitlines()
    assert max(map(len, lines)) <= columns
    assert "     -> unset TRITON_INTERPRET (each lane" in "\n".join(lines)


def test_main_prints_and_tells_whether_anything_can_be_judged(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "collect", machine)
    assert doctor.main() == 0
    assert "lane trace:" in capsys.readouterr().out
    monkeypatch.setattr(doctor, "collect", lambda: machine(torch=missing("torch")))
    assert doctor.main() == 1
    assert "X" in capsys.readouterr().out
