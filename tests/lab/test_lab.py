"""A few runs of real clients: everything is recorded once, and nothing is disturbed. `make lab` runs all there are."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_judge import Calm, Verdict, disturbed, judge
from lab_place import Missing, client_folder, harness_of, is_isolated, lab
from lab_runs import Lab

Compare = Callable[[str, str], Calm]


@pytest.fixture(scope="module")
def place() -> Iterator[Lab]:
    """The lab, with what it needs of us, in a folder that pytest does not close to other users; skips without it."""
    try:
        lab()
        client_folder()
    except Missing as missing:
        pytest.skip(str(missing))
    if not is_isolated():
        pytest.skip("clients run in namespaces of their own only as root, with unshare and ip")
    with tempfile.TemporaryDirectory(prefix="forensic-lab-") as folder:
        try:
            made = Lab(Path(folder))
        except Missing as missing:
            pytest.skip(str(missing))
        yield made


@pytest.fixture(scope="module")
def compare(place: Lab) -> Compare:
    """Runs of a client without hooks, made once; skips where it is not installed."""
    made: dict[tuple[str, str], Calm] = {}

    def without_hooks(client: str, scenario: str) -> Calm:
        try:
            client_folder(harness_of(client))
        except Missing as missing:
            pytest.skip(str(missing))
        if (client, scenario) not in made:
            made[client, scenario] = Calm(place, client, scenario)
        return made[client, scenario]

    return without_hooks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "scenario", "way"),
    [
        ("claude", "b_read_edit_bash", "live"),
        ("claude", "transcript_deleted", "murderous"),
        ("codex", "b_read_edit_bash", "live"),
        ("copilot", "b_read_edit_bash", "live"),
    ],
)
def test_all_is_recorded_once_and_nothing_is_disturbed(
    client: str, scenario: str, way: str, place: Lab, compare: Compare
) -> None:
    """Each payload that another recorder got, each row that stood on disk; the client does and says what it would."""
    calm = compare(client, scenario)
    run = place.hooked(client, scenario, way)
    verdict = calm.added(judge(run, way), run)
    assert verdict.faults == []
    assert min(verdict.hooks, verdict.rows, verdict.bundles) > 0
    assert verdict.lost == (scenario == "transcript_deleted")


@pytest.mark.slow
@pytest.mark.parametrize("client", ["claude", "codex", "copilot"])
def test_hooks_that_stay_when_all_else_is_gone_disturb_nothing(client: str, place: Lab, compare: Compare) -> None:
    """Without the package and its Python the registered commands do no harm."""
    scenario = "b_read_edit_bash"
    calm = compare(client, scenario)
    run = place.spoiled(client, scenario, "python")
    assert (run.folder / "tool" / "install.rc").read_text() == "0"
    assert calm.added(Verdict(client, scenario, ""), run).faults == []


@pytest.mark.slow
def test_a_disturbed_client_is_noticed(place: Lab, compare: Compare) -> None:
    """A command that is not made harmless has every tool denied: the comparison sees that."""
    calm = compare("copilot", "b_read_edit_bash")
    run = place.spoiled("copilot", "b_read_edit_bash", "guard")
    assert list(disturbed(run, calm.runs[0])) != []
