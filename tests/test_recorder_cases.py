"""Public bug reports about recording, ``../shared/cases`` 40 to 48 and 85: one function a case."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from golden_extension import document_of
from recorder_runs import AT_ONCE, Stage, append, numbered, raws, source, texts

from forensic.capture.payloads import local_path
from forensic.capture.recorder import Settings
from forensic.model import CaptureState, Payload, Role
from forensic.recording import open_recording

CASES = Path(__file__).parent.parent.parent / "shared" / "cases"
pytestmark = [
    pytest.mark.skipif(not CASES.is_dir(), reason="../shared/cases is not there"),
    pytest.mark.skipif(sys.platform == "win32", reason="pins are those of POSIX"),
]

FIRST = "11111111-1111-4111-8111-111111111111"
ONE_BY_ONE = Settings(grace=0.0, abandoned=1e9, idle=0.0, tick=0.0)
"""What was taken is sealed in the same round, ended or not."""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A fresh stage."""
    return Stage(tmp_path)


def case(name: str) -> tuple[Path, Any]:
    """The input of a case and its right values."""
    expected = json.loads((CASES / name / "expected.json").read_text(encoding="utf-8"))
    expected.pop("note", None)
    return CASES / name / "input", expected


def here(stage: Stage, path: str) -> str:
    """A path of the case's user as one of the stage's."""
    return path.replace("/home/dev", str(stage.user))


def test_40_hook_bom(stage: Stage) -> None:
    """However a payload is encoded, it is kept byte for byte; one that can be read goes to the session it names."""
    folder, expected = case("40-hook-bom")
    del expected["always"]  # test_hook.py holds the hook to that
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.iterdir()):
        raw = path.read_bytes()
        stage.hook("beforeSubmitPrompt", harness="cursor", raw=raw, head={"ppid": 1_000_000 + len(stage.sent)})
        stage.record(ONE_BY_ONE)
        session = stage.told[-1].session
        assert raw in raws(stage.newest(session))
        found[path.name] = {"parsed": session == "c-1"}
        if session != "c-1":
            assert session == "unattributed"
            text = raw.removeprefix(b"\xef\xbb\xbf")
            found[path.name] |= {"state": "invalid", "raw_kept": True} if text else {"state": "empty"}
    assert found == expected
    assert stage.warned == []


def test_41_hook_stdout_contract(stage: Stage) -> None:
    """A whole session of such payloads is one bundle; that hooks keep silent is in test_hook.py."""
    folder, _ = case("41-hook-stdout-contract")
    for line in (folder / "payloads.jsonl").read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        stage.hook(told["hook_event_name"], told["transcript_path"], raw=line.encode(), harness=told["harness"])
    stage.record()
    bundle = stage.newest(FIRST)
    assert raws(bundle) == (folder / "payloads.jsonl").read_bytes().splitlines()
    # the user of the case is not ours: none of the paths is below our roots
    assert [(one.state, one.reason) for one in bundle.manifest.sources] == [
        (CaptureState.REFUSED, "outside the harness roots")
    ]


def test_42_hook_path_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """One form for each path on Windows, whatever a harness made of it."""
    folder, expected = case("42-hook-path-forms")
    monkeypatch.setenv("HOME", "<home>")
    paths = json.loads((folder / "paths.json").read_text(encoding="utf-8"))
    wanted = [None if one is None else one.replace("/", "\\") for one in expected["windows"]]
    assert [local_path(path, windows=True) for path in paths] == wanted


def test_43_hook_empty_workspace_roots(stage: Stage) -> None:
    """A payload without a project is recorded like any other."""
    folder, expected = case("43-hook-empty-workspace-roots")
    raw = (folder / "payload.json").read_bytes()
    stage.hook("beforeSubmitPrompt", harness="cursor", raw=raw)
    stage.record(ONE_BY_ONE)
    bundle = stage.newest("c-1")
    assert raws(bundle) == [raw]
    facts = list(bundle.context())
    assert {"parsed": True, "project": facts[0] if facts else None} == expected


def test_44_hook_subagent_parent_transcript(stage: Stage) -> None:
    """The agent's own file is followed as its own, although payloads name the parent's; also rows after its stop."""
    folder, expected = case("44-hook-subagent-parent-transcript")
    payloads = [here(stage, line) for line in (folder / "hooks.jsonl").read_text(encoding="utf-8").splitlines()]
    main = stage.transcript(FIRST)
    agent = Path(json.loads(payloads[1])["agent_transcript_path"])
    call = {"type": "tool_use", "id": "toolu_e", "name": "Edit", "input": {}}
    message = {"role": "assistant", "content": [call], "id": "m1"}
    append(main, numbered(1, 1, FIRST))
    append(agent, numbered(2, 2, FIRST, agentId="aaa111", isSidechain=True))
    with stage.recorder() as recording:
        for line in payloads:
            stage.hook(json.loads(line)["hook_event_name"], main, raw=line.encode())
        recording.step()
        late = numbered(3, 3, FIRST, agentId="aaa111", isSidechain=True, message=message).replace(
            b'"user"', b'"assistant"'
        )
        append(agent, late)
        stage.hook("SessionEnd", main, session=FIRST)
        recording.step()
        recording.step()
    bundle = stage.newest(FIRST)
    assert texts(bundle) == {("main", 1): main.read_bytes(), ("agent-aaa111", 1): agent.read_bytes()}
    holding = [stream for (stream, _), content in texts(bundle).items() if b"toolu_e" in content]
    assert holding == ["agent-aaa111"]
    assert source(bundle, "agent-aaa111").role is Role.SUBAGENT
    assert expected["toolu_e"]["belongs_to"] == f"agent {source(bundle, 'agent-aaa111').native_id}"
    assert expected["toolu_e"]["transcript"] == "agent file, not the parent"


def test_46_hook_out_of_order_and_repeats(stage: Stage) -> None:
    """Every payload is kept, in the order of the hooks, also those told twice, and one session is made of them."""
    folder, expected = case("46-hook-out-of-order-and-repeats")
    lines = (folder / "hooks.jsonl").read_bytes().splitlines()
    for line in lines:
        stage.hook(json.loads(line)["hook_event_name"], raw=line)
    stage.record(ONE_BY_ONE)
    bundle = stage.newest(FIRST)
    payloads = [entry for entry in bundle.timeline() if isinstance(entry, Payload)]
    assert [payload.raw for payload in payloads] == lines
    assert [payload.n for payload in payloads] == list(range(1, expected["raw_events"] + 1))
    document = document_of(open_recording(bundle.path).replay())
    assert len(stage.bundles()) == 1
    # what payloads tell is not replayed yet; each is shown all the same
    assert [one["family"] for one in document["aside"]] == [json.loads(line)["hook_event_name"] for line in lines]


@pytest.mark.parametrize("way", ["named", "by a link"])
def test_48_hook_path_outside_roots(stage: Stage, way: str) -> None:
    """Neither a path outside nor a link to it is read, and the manifest says why."""
    folder, expected = case("48-hook-path-outside-roots")
    raw = here(stage, (folder / "payload.json").read_text(encoding="utf-8")).encode()
    secret = Path(json.loads(raw)["transcript_path"])
    secret.parent.mkdir()
    secret.write_bytes(b"SECRET\n")
    path = secret
    if way == "by a link":
        path = stage.transcript(FIRST)
        path.symlink_to(secret)
        raw = raw.replace(os.fsencode(secret), os.fsencode(path))
    stage.hook("Stop", path, raw=raw, pin=False)
    stage.record(ONE_BY_ONE)
    bundle = stage.newest(FIRST)
    (one,) = bundle.manifest.sources
    assert one.state is CaptureState.REFUSED
    assert {"captured": bool(one.generations), "reason": one.reason} == (
        expected if way == "named" else expected | {"reason": "a link"}
    )
    assert all(b"SECRET" not in (bundle.member(name) or b"") for name in bundle.manifest.members)


def test_85_tail_steps(stage: Stage) -> None:
    """A file that grows, is rewritten, replaced, deleted and made anew: each row once, in five generations."""
    folder, expected = case("85-tail-steps")
    path = stage.transcript(FIRST)
    stage.hook("SessionStart", path, session=FIRST)
    with stage.recorder(msgspec.structs.replace(AT_ONCE, grace=1e9)) as recording:
        for number, step in enumerate(json.loads((folder / "steps.json").read_text(encoding="utf-8"))):
            text = step.get("text", "").encode()
            if step["op"] in {"append", "recreate"}:
                append(path, text)
            elif step["op"] in {"truncate_rewrite", "replace_same_size"}:
                path.write_bytes(text)
            elif step["op"] == "rename_recreate":
                path.rename(path.with_suffix(".old"))
                append(path, text)
            else:
                assert step["op"] == "delete"
                path.unlink()
            if path.exists():
                os.utime(path, (1_700_000_000 + number,) * 2)
            recording.step()
    stage.hook("SessionEnd", path, session=FIRST)
    stage.record()
    kept = texts(stage.newest(FIRST))
    seen = [json.loads(row)["n"] for key in sorted(kept) for row in kept[key].splitlines()]
    assert {
        "duplicates": len(seen) - len(set(seen)),
        "generations": len(kept),
        "rows_seen": seen,
    } == expected
