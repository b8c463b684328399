"""Who handed in what: the layouts of learning platforms, archives that bite, names that are odd."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from grader.classroom import archives, intake, layouts

KNOWN = ["01_vector_add", "03_scale", "12_matmul"]
WORK = b"import torch\n"


@pytest.fixture
def taken(tmp_path):
    """taken(asked): what is understood of tmp_path/in, by student and id."""

    def take(asked=None):
        folder = tmp_path / "in"
        kept = []
        found, ignored = intake.take_in(folder, KNOWN, asked, kept.append)
        take.kept, take.ignored = kept, ignored
        return found

    return take


@pytest.fixture
def put(tmp_path):
    """put(path, data): a file in the folder of submissions."""

    def put(path: str, data: bytes = WORK) -> Path:
        file = tmp_path / "in" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    return put


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(mode: str, *members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def by_name(found) -> dict:
    return {(each.student, each.ident): each for each in found}


# ---- layouts ---------------------------------------------------------------------------------


def test_plain_folders_clones_and_archives(put, taken):
    put("anna/01_vector_add/kernel.py")
    put("ben/triton-katas/exercises/03_scale/kernel.py")
    put("ben/triton-katas/solutions/03_scale/kernel.py", b"the reference")
    put("ben/triton-katas/tests/selftest/golden/03_scale/kernel.py", b"another")
    put("cem.zip", zipped(**{"work/12_matmul/kernel.py": WORK, "work/README.md": b""}))
    put("dora.tar.gz", tarred("w:gz", (member("./01_vector_add/kernel.py"), WORK)))
    put("emil/upload.zip", zipped(**{"exercises/01_vector_add/kernel.py": WORK}))
    found = {each.student: each for each in taken()}
    assert {name: [*each.works] for name, each in found.items()} == {
        "anna": ["01_vector_add"],
        "ben": ["03_scale"],
        "cem": ["12_matmul"],
        "dora": ["01_vector_add"],
        "emil": ["01_vector_add"],
    }
    assert all(each.problems == {} for each in found.values())
    assert {*taken.kept} == {WORK}
    assert found["anna"].works["01_vector_add"] == intake.digest(WORK)


def test_moodle(put, taken):
    put("Anna Müller_12345_assignsubmission_file_/01_vector_add/kernel.py")
    put("Anna Müller_12345_assignsubmission_onlinetext_/onlinetext.html", b"<p>done")
    put("Anna Müller_99_assignsubmission_file_/work.zip", zipped(**{"03_scale/kernel.py": WORK}))
    put("Jo_van_Dam_7_assignsubmission_file_kernel.py")
    found = by_name(taken(["01_vector_add"]))
    assert [*found] == [("Anna Müller", "12345"), ("Anna Müller", "99"), ("Jo_van_Dam", "7")]
    assert [*found["Anna Müller", "12345"].works] == ["01_vector_add"]
    assert "for 03_scale" in found["Anna Müller", "99"].problems[""]
    assert [*found["Jo_van_Dam", "7"].works] == ["01_vector_add"]


def test_canvas(put, taken):
    put("mustermax_123_4567_kernel.py", b"first")
    put("mustermax_123_4568_kernel-1.py", b"second")
    put("doejane_LATE_124_4569_01_vector_add.py")
    put("doejane_125_4570_work.zip", zipped(**{"01_vector_add/kernel.py": b"other"}))
    found = by_name(taken(["01_vector_add"]))
    assert [*found] == [("doejane", "125"), ("doejane", "124"), ("mustermax", "123")]
    assert found["mustermax", "123"].works["01_vector_add"] == intake.digest(b"second")
    assert found["doejane", "124"].late
    assert not found["doejane", "125"].late


def test_gradescope_names_everybody_of_a_group(put, taken):
    put("submission_11/01_vector_add/kernel.py")
    put("submission_12/kernel.py", b"other")
    text = """
submission_11:
  :submitters:
  - :name: "Zoë Ångström"
    :sid: 0017
    :email: zoe@example.edu
  - :name: Bo
    :sid: "18"
submission_13: rubbish
submission_14:
  :submitters:
  - :name: Lost
"""
    put("submission_metadata.yml", text.encode())
    found = by_name(taken(["01_vector_add"]))
    assert [each[0] for each in found] == [
        "Zoë Ångström",
        "Bo",
        "submission_12",
        "submission_13",
        "Lost",
    ]
    assert {*found["Bo", "18"].works} == {"01_vector_add"}
    assert {*found["submission_12", "submission_12"].works} == {"01_vector_add"}
    assert next(iter(found.values())).email == "zoe@example.edu"
    assert "names a folder that is not there" in found["Lost", "14"].problems[""]
    assert taken.ignored == ["submission_metadata.yml"]


def test_broken_metadata_costs_the_names_only(put, taken):
    put("submission_11/01_vector_add/kernel.py")
    put("submission_metadata.yml", b"{[\xff")
    assert [each.student for each in taken()] == ["submission_11"]


@pytest.mark.parametrize(
    "name", ["a b", "Ümläut", "-rf", "=1+1", "it's", "名前", "a\nb", "x" * 200]
)
def test_odd_names_survive(put, taken, name):
    put(f"{name}/01_vector_add/kernel.py")
    (found,) = taken()
    assert [*found.works] == ["01_vector_add"]
    assert found.student == name.replace("\n", "\N{REPLACEMENT CHARACTER}")


def test_a_name_that_is_no_text(tmp_path, taken):
    folder = os.fsencode(tmp_path / "in") + b"/\xff\xfe/01_vector_add"
    os.makedirs(folder)
    with open(folder + b"/kernel.py", "wb") as file:
        file.write(WORK)
    (found,) = taken()
    assert [*found.works] == ["01_vector_add"]
    found.student.encode()


def test_two_alike_stay_two(put, taken):
    put("anna/01_vector_add/kernel.py")
    put("anna.zip", zipped(**{"01_vector_add/kernel.py": b"other"}))
    found = by_name(taken())
    assert {*found} == {("anna", "anna"), ("anna", "anna.zip")}


# ---- what is not understood is a row ---------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("notes.txt", "neither a student's folder nor a zip or tar"),
        ("anna/kernel.py", "lies in no kata's folder"),
        ("anna/99_unknown/kernel.py", "there is no kata 99_unknown"),
        ("anna/essay.docx", "holds essay.docx, but no kernel.py in a kata's folder"),
        ("01_vector_add/kernel.py", "a kata's folder, not a student's"),
        ("anna.zip", "cannot be read"),
        ("anna.tar.xz", "cannot be read"),
    ],
)
def test_the_reason_is_said(put, taken, path, reason):
    put(path)
    (found,) = taken()
    assert not found.works
    assert reason in found.problems[""]


def test_reasons_for_a_single_kata(put, taken):
    put("anna/01_vector_add/solution.py")
    put("ben/01_vector_add/kernel.py", b"one")
    put("ben/old/01_vector_add/kernel.py", b"two")
    put("cem/01_vector_add/kernel.py", b"x" * (archives.MAX_KERNEL + 1))
    found = {each.student: each for each in taken()}
    assert found["anna"].problems == {
        "01_vector_add": "its folder holds solution.py, but no kernel.py"
    }
    assert "keep one" in found["ben"].problems["01_vector_add"]
    assert archives.TOO_LARGE in found["cem"].problems["01_vector_add"]
    assert not any(each.works for each in found.values())


def test_the_same_file_twice_is_no_question(put, taken):
    put("ben/01_vector_add/kernel.py")
    put("ben/old/01_vector_add/kernel.py")
    assert [*taken()[0].works] == ["01_vector_add"]


def test_an_empty_folder_is_a_row(tmp_path, taken):
    (tmp_path / "in" / "anna").mkdir(parents=True)
    assert taken()[0].problems == {"": "there is no file in it"}


def test_debris_is_named_and_no_row(put, taken):
    put("anna/01_vector_add/kernel.py")
    put(".DS_Store")
    put("._anna")
    assert len(taken()) == 1
    assert taken.ignored == ["._anna", ".DS_Store"]


# ---- nothing leads out -----------------------------------------------------------------------


def test_links_are_not_followed(tmp_path, put, taken):
    secret = tmp_path / "secret.py"
    secret.write_bytes(b"secret")
    put("anna/01_vector_add/kernel.py").unlink()
    (tmp_path / "in/anna/01_vector_add/kernel.py").symlink_to(secret)
    put("ben/notes")
    (tmp_path / "in/ben/01_vector_add").symlink_to(tmp_path / "in/cem/01_vector_add")
    put("cem/01_vector_add/kernel.py")
    (tmp_path / "in/dora").symlink_to(tmp_path / "in/cem")
    (tmp_path / "in/emil.zip").symlink_to(secret)
    found = {each.student: each for each in taken()}
    assert {name: [*each.works] for name, each in found.items() if each.works} == {
        "cem": ["01_vector_add"]
    }
    for name in ("anna", "ben", "dora", "emil"):
        assert "link" in " ".join(found[name].problems.values()), name
    assert taken.kept == [WORK]


def test_pipes_and_devices_do_not_block(tmp_path, put, taken):
    put("anna/01_vector_add/x")
    os.mkfifo(tmp_path / "in/anna/01_vector_add/kernel.py")
    os.mkfifo(tmp_path / "in/ben.zip")
    found = {each.student: each for each in taken()}
    assert "no regular file" in found["anna"].problems["01_vector_add"]
    assert "no regular file" in found["ben"].problems[""]


@pytest.mark.parametrize(
    "name",
    ["../01_vector_add/kernel.py", "/01_vector_add/kernel.py", "C:\\x\\kernel.py", "a\\..\\b"],
)
def test_paths_that_lead_out_of_an_archive(put, taken, name):
    honest = {"01_vector_add/kernel.py": WORK}
    put("anna.zip", zipped(**honest, **{name: b"x"}))
    put("ben.tar", tarred("w", (member("01_vector_add/kernel.py"), WORK), (member(name), b"x")))
    for each in taken():
        assert "leads out of it" in each.problems[""]
        assert not each.works


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_in_archives(put, taken, kind):
    put("ben.tar.bz2", tarred("w:bz2", (member("a", kind, "/etc/passwd"), b"")))
    info = zipfile.ZipInfo("01_vector_add/kernel.py")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    put("anna.zip", out.getvalue())
    for each in taken():
        assert "a link or device" in each.problems[""]


def test_a_tool_s_folder_may_hold_links(put, taken):
    members = [(member(".venv/bin/python", tarfile.SYMTYPE, "/usr/bin/python3"), b"")]
    put("ben.tar", tarred("w", *members, (member("01_vector_add/kernel.py"), WORK)))
    assert [*taken()[0].works] == ["01_vector_add"]


def test_bombs_are_refused(put, taken, monkeypatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED", 8 << 20)
    zeros = bytes(9 << 20)
    put("anna.zip", zipped(zeros=zeros, **{"01_vector_add/kernel.py": WORK}))
    work = (member("01_vector_add/kernel.py"), WORK)
    put("ben.tar.xz", tarred("w:xz", (member("zeros"), zeros), work))
    put("cem.zip", zipped(**{"01_vector_add/kernel.py": bytes(2 << 20)}))
    found = {each.student: each for each in taken()}
    assert "would unpack to more than 8 MiB" in found["anna"].problems[""]
    assert "would unpack to more than 8 MiB" in found["ben"].problems[""]
    assert archives.TOO_LARGE in found["cem"].problems["01_vector_add"]


def test_many_small_bombs_are_one_large_bomb(put, taken, monkeypatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED", 8 << 20)
    monkeypatch.setattr(archives, "MAX_KERNELS", 2 << 20)
    part = tarred("w:xz", (member("zeros"), bytes(3 << 20)))
    for number in range(4):
        put(f"anna/{number}.tar.xz", part)
        put(f"ben/{number}.zip", zipped(zeros=bytes(3 << 20)))
        put(f"cem/{number}/kernel.py", bytes(1 << 20))
    put("dora.zip", zipped(**{f"{number}/kernel.py": bytes(1 << 20) for number in range(4)}))
    found = {each.student: each.problems[""] for each in taken()}
    assert "would unpack to more than 8 MiB" in found["anna"]
    assert "would unpack to more than 8 MiB" in found["ben"]
    assert "larger than 2 MiB together" in found["cem"]
    assert "larger than 2 MiB together" in found["dora"]


def test_too_many_archives(put, taken, monkeypatch):
    monkeypatch.setattr(archives, "MOST_ARCHIVES", 3)
    for number in range(9):
        put(f"anna/{number}.zip", zipped(**{"01_vector_add/kernel.py": WORK}))
        put("ben/01_vector_add/kernel.py")
    told = taken()[0].problems[""]
    assert "more than 3 archives" in told
    assert told.endswith("and 3 more like these")
    assert taken()[1].problems == {}


def test_a_long_list_of_members_cannot_fill_the_memory(put, taken, monkeypatch):
    monkeypatch.setattr(archives, "MOST_AT_ONCE", 100_000)
    put("anna.zip", zipped(**{f"{number:0100}": b"" for number in range(1000)}))
    put("ben.zip", zipped(**{f"{number:0100}": b"" for number in range(500)}))
    assert "made to fill the memory" in taken()[0].problems[""]
    assert "no kernel.py" in taken()[1].problems[""]


def test_a_header_cannot_fill_the_memory(put, taken):
    info = member("x", tarfile.XHDTYPE)
    info.size = 1 << 40
    put("anna.tar", info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    assert "made to fill the memory" in taken()[0].problems[""]


def test_too_many_files(put, taken, monkeypatch):
    monkeypatch.setattr(archives, "MOST_FILES", 3)
    many = {f"{number}.txt": b"" for number in range(5)}
    put("anna.zip", zipped(**many))
    put("ben.tar", tarred("w", *((member(name), b"") for name in many)))
    for name in many:
        put(f"cem/{name}")
    assert all("more than 3 files" in each.problems[""] for each in taken())
    assert len(taken()) == 3


def test_a_locked_zip(put, taken):
    data = bytearray(zipped(**{"01_vector_add/kernel.py": WORK}))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    put("anna.zip", bytes(data))
    assert "password" in taken()[0].problems["01_vector_add"]


def test_a_platform_numbers_what_is_handed_in_once_more(put, taken):
    put("muster_11_101_01_vector_add-1.py")
    put("muster_12_102_01_vector_add-2.zip", zipped(**{"kernel.py": WORK}))
    put("anna/01_vector_add (1).py")
    put("ben/01_vector_add(2)/kernel.py")
    put("cem/01_vector_add.py", b"first")
    put("cem/01_vector_add-1.py")
    put("dora/01_vector_add2x/kernel.py")
    found = {each.ident: each for each in taken()}
    assert found.pop("dora").works == {}
    assert len(found) == 5
    assert {each.works["01_vector_add"] for each in found.values()} == {intake.digest(WORK)}


def test_no_two_rows_are_called_the_same(put, taken):
    for name in ("Ju\u0308rgen", "J\u00fcrgen", "a\x01", "a\x02"):
        put(f"{name}/01_vector_add/kernel.py")
    found = [(each.student, each.ident) for each in taken()]
    assert len({*found}) == 4
    assert found[0] == ("a\ufffd", "a\ufffd")
    assert found[1] == ("a\ufffd", "a\ufffd (2)")


def test_clean_leaves_what_can_be_shown():
    assert layouts.clean("Zoe\u0308 \u202e\x00x") == "Zo\u00eb \ufffd\ufffdx"
