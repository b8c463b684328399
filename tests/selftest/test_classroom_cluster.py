"""The Ray engine on a local cluster of two nodes, one of which is killed midway."""

from __future__ import annotations

import pytest

pytest.importorskip("ray")

from grader.classroom import __main__ as command
from grader.classroom.cluster import Cluster
from grader.classroom.units import Unit

SETTINGS = {"sandbox": "off", "seconds": 60.0, "limits": {}}


def slow():
    """A fake unit of work, which says where it was done. (Ray carries what is made in a function.)"""

    def work(settings, seed, what, content):
        import time

        import ray

        time.sleep(0.4)
        status = "crashed" if what["sha"] == "u3" else "judged"
        where = ray.get_runtime_context().get_node_id()
        return {"answer": {"status": status, "where": where, "content": content.decode()}}

    return work


def test_unreachable_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    folder = tmp_path / "in" / "anna" / "01_vector_add"
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text("")
    words = [str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--engine=ray"]
    with pytest.raises(SystemExit) as stopped:
        command.main([*words, "--address=127.0.0.1:9"])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no Ray cluster can be reached at 127.0.0.1:9" in line


def test_a_lost_node_s_work_is_done_again_elsewhere(monkeypatch):
    import ray
    from ray.cluster_utils import Cluster as Nodes

    monkeypatch.setenv("RAY_agent_register_timeout_ms", "300000")
    facts = {"num_cpus": 1, "object_store_memory": 100 << 20}
    engine, nodes = None, Nodes()
    try:
        nodes.add_node(**facts, include_dashboard=False)
        second = nodes.add_node(**facts)
        engine = Cluster(SETTINGS, "s", str.encode, nodes.address, function=slow())
        units = [Unit(f"u{number}", "01_vector_add", "cpu") for number in range(16)]
        for unit in units:
            engine.submit(unit)
        seen = {}
        while len(seen) < len(units):
            unit, record = engine.wait()
            assert unit not in seen
            seen[unit] = record
            if second is not None and len({each["where"] for each in seen.values()}) == 2:
                nodes.remove_node(second, allow_graceful=False)
                second = None
        assert second is None, "the second node was never used"
        assert {unit.sha for unit in seen} == {unit.sha for unit in units}
        assert [unit.sha for unit, each in seen.items() if each["status"] == "crashed"] == ["u3"]
        assert all(each["content"] == unit.sha for unit, each in seen.items())
    finally:
        if engine is not None:
            engine.close()
        ray.shutdown()
        nodes.shutdown()
