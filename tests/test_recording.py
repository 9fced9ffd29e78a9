"""Opening, replaying and verifying recordings; capturing sessions into an archive."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from forensic import intake
from forensic import recording as house
from forensic.archive import Archive
from forensic.bundle import seal
from forensic.capture import named
from forensic.errors import NoSuchParser, NotRegular
from forensic.intake import Captured, capture
from forensic.jsonio import canonical
from forensic.model import WHOLE
from forensic.recording import Recording, Report, open_recording
from forensic.renderers import document


@pytest.fixture
def unpacked(root: Path, tmp_path: Path) -> Path:
    """A golden recording to spoil, its verdict made anew."""
    place = tmp_path / "unpacked"
    shutil.copytree(
        root / "golden" / "claude" / "a-working-day", place, ignore=shutil.ignore_patterns("source", "sessions")
    )
    judge(place)
    return place


def judge(place: Path, **changes: Any) -> None:
    """Give a recording its verdict, or another one."""
    verdict = replace(house.judge(open_recording(place).replay()), **changes)
    (place / "recorded.json").write_bytes(canonical(verdict) + b"\n")


def kinds(report: Report) -> list[tuple[str, bool]]:
    """Findings as kind and whether they are a problem."""
    return [(finding.kind, finding.problem) for finding in report.findings]


def sealed(place: Path) -> Recording:
    """The recording, sealed."""
    target = place.parent / "sealed.zst"
    seal(place, target)
    return open_recording(target)


def test_a_sound_recording_verifies_with_its_verdict(unpacked: Path) -> None:
    """Nothing is found, sealed or unpacked, with the verdict or without."""
    for recording in (open_recording(unpacked), sealed(unpacked)):
        for verdict in (True, False):
            report = recording.verify(verdict=verdict)
            assert (report.ok, report.damaged, report.findings) == (True, False, ())
            assert report.content_id == recording.content_id


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"observations_sha256": "0" * 64}, [("observations-differ", True)]),
        ({"document_sha256": "0" * 64}, [("document-differs", True)]),
        ({"document_sha256": "0" * 64, "replay_version": 999}, [("replay-version", False)]),
    ],
)
def test_a_verdict_that_no_longer_holds_is_told(
    unpacked: Path, changes: dict[str, Any], found: list[tuple[str, bool]]
) -> None:
    """A document may differ between replay versions, observations never."""
    judge(unpacked, **changes)
    report = sealed(unpacked).verify()
    assert kinds(report) == found
    assert report.ok is not found[0][1]
    assert sealed_again(unpacked).verify(verdict=False).findings == ()


def sealed_again(place: Path) -> Recording:
    """The bundle that is there already."""
    return open_recording(place.parent / "sealed.zst")


def test_a_verdict_of_a_parser_that_is_not_there_is_told(unpacked: Path) -> None:
    """One finding, no exception."""
    raw = json.loads((unpacked / "recorded.json").read_bytes())
    raw["parser"]["version"] = 99
    (unpacked / "recorded.json").write_bytes(canonical(raw) + b"\n")
    assert kinds(sealed(unpacked).verify()) == [("no-parser", True)]


def test_a_recording_without_a_verdict_is_good_and_says_so(unpacked: Path) -> None:
    """There is nothing to compare with."""
    (unpacked / "recorded.json").unlink()
    report = sealed(unpacked).verify()
    assert (report.ok, kinds(report)) == (True, [("no-verdict", False)])


def test_a_spoilt_verdict_is_damage(unpacked: Path) -> None:
    """It is named by its member."""
    (unpacked / "recorded.json").write_bytes(b"{}\n")
    report = sealed(unpacked).verify()
    assert (report.ok, report.damaged, kinds(report)) == (False, True, [("damaged", True)])
    assert "recorded.json" in report.findings[0].note


def test_a_flipped_bit_is_damage(unpacked: Path) -> None:
    """Wherever it is."""
    path = sealed(unpacked).path
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.chmod(0o600)
    path.write_bytes(raw)
    report = open_recording(path).verify()
    assert (report.ok, report.damaged, kinds(report)) == (False, True, [("damaged", True)])


def test_what_this_program_knows_of_producers_is_in_no_document(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version may know more; the bundles of today must still verify then."""
    monkeypatch.setattr(house, "unverified", lambda *_: ("1.2.3",))
    recording = sealed(unpacked)
    session = recording.replay()
    assert [remark.kind for remark in session.remarks] == ["unverified-producer"]
    assert b"unverified-producer" not in b"".join(document.chunks(session))
    assert recording.verify().findings == ()


def test_whole_texts_stand_beside_their_previews(unpacked: Path) -> None:
    """The tree is the same, and what was folded is there."""
    path = next((unpacked / "transcripts").iterdir())
    assert path.is_file()
    recording = open_recording(unpacked)
    folded, whole = recording.replay(), recording.replay(whole=True)
    assert WHOLE.text("x" * 1001).text == "x" * 1001
    assert (folded.observations, whole.observations_sha256) == (whole.observations, "")
    out = io.BytesIO()
    document.write(whole, out)
    assert json.loads(out.getvalue())["summary"]["turns"] == 3


def test_a_parser_version_that_is_not_there_is_refused(unpacked: Path) -> None:
    """With the ones there are."""
    with pytest.raises(NoSuchParser, match="the dialect claude has no parser version 99: there are 1"):
        open_recording(unpacked).replay(99)


def transcript(folder: Path, name: str, *texts: str) -> Path:
    """A transcript with a prompt for each text."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    rows = [
        {
            "type": "user",
            "sessionId": name,
            "uuid": f"{name}-{n}",
            "version": "2.1.332",
            "message": {"role": "user", "content": text},
        }
        for n, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def taken(archive: Archive, *paths: Path, **options: Any) -> list[Captured]:
    """What a capture of the paths gives."""
    return list(capture(paths, archive, **options))


def test_the_same_session_is_stored_once_and_a_grown_one_supersedes(tmp_path: Path) -> None:
    """Same content, same id; more content, a new bundle that names the old one."""
    archive = Archive(tmp_path / "archive")
    path = transcript(tmp_path / "home", "s1", "one")
    (first,) = taken(archive, path)
    (again,) = taken(archive, path)
    assert (first.state, again.state, again.bundle) == ("sealed", "unchanged", first.bundle)
    transcript(tmp_path / "home", "s1", "one", "two")
    (grown,) = taken(archive, path)
    assert (grown.state, grown.supersedes, grown.rows) == ("superseding", (first.content_id,), 2)
    assert len(list(archive.bundles())) == 2


def test_a_parsers_failure_does_not_cost_the_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle is sealed without a verdict, and that is a problem."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(house, "play", broken)
    (one,) = taken(Archive(tmp_path / "archive"), transcript(tmp_path / "home", "s1", "one"))
    assert [(finding.kind, finding.problem) for finding in one.findings] == [("no-verdict", True)]
    assert open_recording(one.bundle).verdict() is None
    assert open_recording(one.bundle).verify(verdict=False).ok


def test_a_session_that_cannot_be_captured_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one failed session in the list."""
    real = named.record

    def spoilt(found: Any, *rest: Any, **more: Any) -> Any:
        if found.session == "s1":
            raise NotRegular(path="s1.jsonl")
        return real(found, *rest, **more)

    monkeypatch.setattr(intake, "record", spoilt)
    home = tmp_path / "home"
    transcript(home, "s1", "one")
    transcript(home, "s2", "two")
    states = {one.session: one.state for one in taken(Archive(tmp_path / "archive"), home)}
    assert states == {"s1": "failed", "s2": "sealed"}


def spoil(bundle: str, *, manifest: bool) -> Path:
    """Flip a bit of a sealed bundle: in its manifest, or behind it, so that the manifest still reads."""
    path = Path(bundle)
    raw = bytearray(path.read_bytes())
    raw[40 if manifest else -200] ^= 1
    path.chmod(0o600)
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("manifest", [True, False])
def test_a_damaged_bundle_is_set_apart_and_sealed_anew(tmp_path: Path, *, manifest: bool) -> None:
    """With its verdict, under the old name; the spoilt file is kept, and told."""
    root = tmp_path / "archive"
    path = transcript(tmp_path / "home", "s1", "one")
    (first,) = taken(Archive(root), path)
    bundle = spoil(first.bundle, manifest=manifest)
    before = bundle.read_bytes()
    (again,) = taken(Archive(root), path)
    assert (again.state, again.bundle) == ("sealed", first.bundle)
    assert [(finding.kind, finding.problem) for finding in again.findings] == [("damaged-before", True)]
    assert open_recording(bundle).verify().findings == ()
    assert bundle.with_name(f"{bundle.name}.damaged-1").read_bytes() == before
    assert taken(Archive(root), path)[0].state == "unchanged"


def test_the_chain_goes_on_behind_a_damaged_bundle(tmp_path: Path) -> None:
    """The bundle before it is superseded by what is sealed now, whether the source has grown or not."""
    root = tmp_path / "archive"
    transcript(tmp_path / "home", "s1", "one")
    (first,) = taken(Archive(root), tmp_path / "home")
    transcript(tmp_path / "home", "s1", "one", "two")
    (second,) = taken(Archive(root), tmp_path / "home")
    spoil(second.bundle, manifest=False)
    (mended,) = taken(Archive(root), tmp_path / "home")
    assert (mended.state, mended.content_id, mended.supersedes) == (
        "superseding", second.content_id, (first.content_id,),
    )  # fmt: skip
    spoil(mended.bundle, manifest=False)
    transcript(tmp_path / "home", "s1", "one", "two", "three")
    (third,) = taken(Archive(root), tmp_path / "home")
    assert (third.state, third.rows, third.supersedes) == ("superseding", 3, (first.content_id,))
    current = [kept.content_id for kept in Archive(root).sessions() if not kept.superseded]
    assert current == [third.content_id]


def test_forgetting_a_session_takes_along_what_was_set_apart(tmp_path: Path) -> None:
    """Nothing of it stays behind, readable or not; other sessions stay."""
    root = tmp_path / "archive"
    for name in ("s1", "s2"):
        path = transcript(tmp_path / "home", name, "one")
        (first,) = taken(Archive(root), path)
        spoil(first.bundle, manifest=name == "s1")
        taken(Archive(root), path)
    archive = Archive(root)
    told: list[Any] = []
    archive.sessions(told.append)
    assert [finding.kind for finding in told] == ["damaged-bundle"] * 2
    assert len(archive.apart(archive.forgettable("s1"))) == 1
    assert len(archive.apart(archive.forgettable("s2"))) == 1
    bundles = archive.forgettable("s1")
    archive.drop([*(kept.path for kept in bundles), *archive.apart(bundles)])
    assert sorted(path.name.partition(".")[2] for path in root.glob("??/*")) == ["zst", "zst.damaged-1"]


def test_what_a_killed_process_half_sealed_is_swept(tmp_path: Path) -> None:
    """The next one to seal takes it away, and nothing else."""
    root = tmp_path / "archive"
    (first,) = taken(Archive(root), transcript(tmp_path / "home", "s1", "one"))
    left = Path(first.bundle).with_name(".sealing-abcd")
    left.write_bytes(b"half")
    taken(Archive(root), transcript(tmp_path / "home", "s2", "two"))
    assert not left.exists()
    assert Path(first.bundle).exists()


def test_captures_that_race_leave_one_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who finds that more of the session was sealed meanwhile begins again behind it."""
    archive = Archive(tmp_path / "archive")
    path = transcript(tmp_path / "home", "s1", "one")
    real = named.record
    raced: list[Captured] = []

    def record_late(found: Any, *rest: Any, **more: Any) -> Any:
        manifest = real(found, *rest, **more)
        if not raced:
            monkeypatch.setattr(intake, "record", real)
            transcript(tmp_path / "home", "s1", "one", "two")
            raced.extend(taken(Archive(tmp_path / "archive"), path))
        return manifest

    monkeypatch.setattr(intake, "record", record_late)
    (slow,) = taken(archive, path)
    assert [one.state for one in (*raced, slow)] == ["sealed", "unchanged"]
    assert slow.rows == 2
    assert [kept.superseded for kept in Archive(tmp_path / "archive").sessions()] == [False]


def test_a_large_recording_is_verified_without_building_its_tree(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest that must hold for ever is compared, in bounded memory; the other is told not to be."""
    recording = sealed(unpacked)
    monkeypatch.setattr(house, "LARGE", 10)
    monkeypatch.setattr(house, "play", None)
    report = recording.verify()
    assert (report.ok, kinds(report)) == (True, [("document-not-compared", False)])
    judge_as(unpacked, observations_sha256="0" * 64)


def judge_as(place: Path, **changes: Any) -> None:
    """Give a sealed recording another verdict, and find that out without a tree."""
    raw = json.loads((place / "recorded.json").read_bytes()) | changes
    (place / "recorded.json").write_bytes(canonical(raw) + b"\n")
    target = place.parent / "other.zst"
    seal(place, target)
    found = kinds(open_recording(target).verify())
    assert found == [("observations-differ", True), ("document-not-compared", False)]
