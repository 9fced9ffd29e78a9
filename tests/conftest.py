"""What all tests share: where things are, and a home of their own for whatever they archive."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# how long an example takes says how busy the machine is
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# a job in the background is started with this signal ignored, and would hand that on to every program under test
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A FORENSIC_HOME for each test, so that none ever touches the archive of who runs it."""
    place = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("FORENSIC_HOME", str(place))
    monkeypatch.delenv("FORENSIC_DEBUG", raising=False)
    return place
