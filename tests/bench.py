"""`nox -s bench-N`: how fast the exercise, the solution, PyTorch and torch.compile are.

Not a suite: plain `pytest tests` passes it by, and nothing here is passed or failed. The work is
done by grader/bench.py, which says more.
"""

import pytest

pytest.importorskip("pytest_benchmark")

from grader import bench
from grader.speed import card_lock


def pytest_generate_tests(metafunc):
    kata = bench.suite(bench.named(metafunc.config.getoption("--kata"))).KATA
    sizes = bench.sizes_of(kata)
    # The exercise comes last: a crash of it on the card spoils what is measured after it.
    metafunc.parametrize("group", bench.GROUPS[::-1])
    metafunc.parametrize("sizes", sizes, ids=[bench.size_text(s) for s in sizes])


@pytest.fixture(scope="session")
def stand(request):
    """The card, made ready for one kata; at the end come a table and a plot."""
    config = request.config
    kata = bench.named(config.getoption("--kata"))
    page = config.pluginmanager.getplugin("capturemanager")
    with card_lock(alone=True):
        stand = bench.Stand(kata, config.katas_benched)
        yield stand
    with page.global_and_fixture_disabled():
        print(stand.finish())
        if config.getoption("--show-compiled"):
            print(f"\n{bench.side_by_side(stand)}")


@pytest.mark.benchmark(timer=bench.Moment)
def test_time(benchmark, stand, sizes, group):
    """Seconds of the card's own time for one call."""
    try:
        stand.measure(benchmark, sizes, group)
    except bench.Unfit as reason:
        pytest.skip(str(reason))
