"""Ledger: what many sessions cost together, each call once.

A resumed or forked session holds the calls of the one it came from, written down again. Over all sessions there is one
map of calls: a call belongs to one session, its *owner*, and the others have *inherited* it. So the sums over any
grouping are the total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forensic.replay.lineage import Snapshot
from forensic.replay.usage import (
    HISTORY,
    MAIN,
    UNDATED,
    Call,
    Key,
    Tally,
    Units,
    certainty_of,
    figures_of,
    fold,
    ratio,
    total_of,
    units_of,
)

__all__ = ["GROUPINGS", "Account", "Ledger", "report", "settle"]

GROUPINGS = ("session", "day", "model", "agent", "harness")

_FIRST = datetime.min.replace(tzinfo=UTC)
_UNKNOWN = "unknown"


class Account(Struct, array_like=True):
    """What one session tells of usage. `place` is where it was read; `origin` the session that it names as its own.

    `totals` are the running totals of its threads, for threads that were forked from them; `unsettled` names threads
    outside of this session whose totals would tell more surely what was inherited. Of a bundle also its `content_id`
    and those that it `supersedes`.
    """

    harness: str
    session: str
    place: str
    tally: Tally
    origin: str | None = None
    rules: dict[str, int] = {}
    totals: dict[str, list[Snapshot]] = {}
    unsettled: list[str] = []
    problems: list[str] = []
    content_id: str = ""
    supersedes: list[str] = []


class _Entry(Struct):
    """A call as the first account tells it, and as others do."""

    account: int
    call: Call
    others: list[tuple[int, Call]] | None = None


class Ledger(Struct):
    """All calls of all accounts: `own` of each account, and those it has `inherited`, in the order of `accounts`."""

    accounts: Sequence[Account]
    own: list[list[Call]]
    inherited: list[list[Call]]
    units: list[list[Units]]


def settle(accounts: Sequence[Account]) -> Ledger:
    """Give every call to one account, whatever the order they are given in."""
    accounts = sorted(accounts, key=lambda one: (one.harness, one.session, one.place))
    entries = _gather(accounts)
    order = _order(accounts, entries)
    own: list[list[Call]] = [[] for _ in accounts]
    inherited = _taken_along(accounts)
    for entry in entries:
        if entry.others is None:
            own[entry.account].append(entry.call)
            continue
        told = sorted([(entry.account, entry.call), *entry.others], key=lambda one: order[one[0]])
        owner, call = told[0][0], _merged([one for _, one in told])
        own[owner].append(call)
        sessions = {(accounts[owner].harness, accounts[owner].session)}
        for other, _ in told:
            session = (accounts[other].harness, accounts[other].session)
            if session not in sessions:
                sessions.add(session)
                inherited[other].append(call)
    return Ledger(accounts, own, inherited, _billed(accounts))


def _taken_along(accounts: Sequence[Account]) -> list[list[Call]]:
    """What each account took along of other threads' history; of a session that stands in two places, once."""
    known: set[tuple[str, str, Key]] = set()
    taken: list[list[Call]] = []
    for account in accounts:
        names = [(account.harness, account.session, call.key) for call in account.tally.inherited]
        taken.append([call for name, call in zip(names, account.tally.inherited, strict=True) if name not in known])
        known.update(names)
    return taken


def _billed(accounts: Sequence[Account]) -> list[list[Units]]:
    """The units of each account; of a session that stands in two places, each once."""
    known: set[tuple[object, ...]] = set()
    billed: list[list[Units]] = []
    for account in accounts:
        names = [(account.harness, account.session, told.at, *told.units.items()) for told in account.tally.units]
        billed.append([told for name, told in zip(names, account.tally.units, strict=True) if name not in known])
        known.update(names)
    return billed


def _gather(accounts: Sequence[Account]) -> list[_Entry]:
    """One entry a call, whichever and however many accounts tell of it."""
    message_of: dict[tuple[str, str], str] = {}
    for account in accounts:
        for call in account.tally.calls:
            if call.request is not None and call.key[0] == "message":
                message_of.setdefault((account.harness, call.request), call.key[1])
    entries: dict[tuple[object, ...], _Entry] = {}
    for number, account in enumerate(accounts):
        harness = account.harness
        for call in account.tally.calls:
            kind, told = call.key
            name = (harness, kind, told) if kind == "message" else _name(account, call, message_of)
            entry = entries.get(name)
            if entry is None:
                entries[name] = _Entry(number, call)
            elif entry.others is None:
                entry.others = [(number, call)]
            else:
                entry.others.append((number, call))
    return list(entries.values())


def _merged(told: Sequence[Call]) -> Call:
    """What several accounts say of one call, the owner's first."""
    call = replace(told[0])
    for other in told[1:]:
        fold(call, other)
        call.final |= other.final
        call.covered |= other.covered
    return call


def _name(account: Account, call: Call, message_of: Mapping[tuple[str, str], str]) -> tuple[object, ...]:
    kind, name = call.key
    if kind == "number":
        # a number is counted in each file anew: what says the same under the same one is a copy, and nothing else is
        return (account.harness, account.session, kind, name, call.at, call.counts)
    if kind == "request" and (message := message_of.get((account.harness, name))) is not None:
        kind, name = "message", message
    return (account.harness, kind, name)


def _order(accounts: Sequence[Account], entries: Iterable[_Entry]) -> list[tuple[Any, ...]]:
    """Who of several has the better claim on a call: who names no origin; who went on first, or had nothing to add.

    A session that was resumed in another file ends where the other goes on, so it has nothing that is only its own.
    """
    alone: list[datetime | None] = [None] * len(accounts)
    began = [_FIRST] * len(accounts)
    for entry in entries:
        if entry.others is None:
            at, known = entry.call.at or _FIRST, alone[entry.account]
            if known is None or at < known:
                alone[entry.account] = at
    for number, account in enumerate(accounts):
        began[number] = min((call.at or _FIRST for call in account.tally.calls), default=_FIRST)
    return [
        (account.origin is not None, alone[number] or _FIRST, began[number], account.session, account.place)
        for number, account in enumerate(accounts)
    ]


class _Group(Struct):
    calls: list[Call] = []
    inherited: list[Call] = []
    units: list[Units] = []
    sessions: set[tuple[str, str]] = set()
    harness: str | None = None
    rules: dict[str, int] = {}


def report(ledger: Ledger, by: str, zone: tzinfo = UTC) -> dict[str, Any]:
    """All groups of one grouping, the total, and what people must know to believe it (docs/cli.md).

    Days are those of `zone`. Groups are in the order of time (session, day), else the largest first.
    """
    groups: dict[str, _Group] = {}
    name_of = _namer(by, zone)
    for account, own, inherited, units in zip(ledger.accounts, ledger.own, ledger.inherited, ledger.units, strict=True):
        session = (account.harness, account.session)
        if by in ("session", "harness"):
            group = groups.setdefault(name_of(account, None, None), _Group())
            group.sessions.add(session)
            group.harness = account.harness
            group.inherited.extend(inherited)
            group.units.extend(units)
            _add(group.rules, account.rules)
        for call in own:
            group = groups.setdefault(name_of(account, call, call.at), _Group())
            group.calls.append(call)
            group.sessions.add(session)
        if by == "day":
            for told in units:
                groups.setdefault(name_of(account, None, told.at), _Group()).units.append(told)
    return {
        "by": by,
        "groups": [_told(name, group, by) for name, group in _sorted(groups, by)],
        **_overall(ledger),
    }


def _add(rules: dict[str, int], more: Mapping[str, int]) -> None:
    for rule, count in more.items():
        rules[rule] = rules.get(rule, 0) + count


def _namer(by: str, zone: tzinfo) -> Callable[[Account, Call | None, datetime | None], str]:
    def name(account: Account, call: Call | None, at: datetime | None) -> str:
        if by == "session":
            return account.session
        if by == "harness":
            return account.harness
        if by == "day":
            return UNDATED if at is None else at.astimezone(zone).date().isoformat()
        if by == "model":
            return (call.model if call is not None else None) or _UNKNOWN
        return (call.agent if call is not None else None) or MAIN

    return name


def _sorted(groups: Mapping[str, _Group], by: str) -> list[tuple[str, _Group]]:
    if by == "day":
        return sorted(groups.items())
    if by == "session":
        return sorted(groups.items(), key=lambda item: (_began(item[1]), item[0]))
    return sorted(
        groups.items(), key=lambda item: (-(figures_of(item[1].calls, asked=False)["total_tokens"] or 0), item[0])
    )


def _began(group: _Group) -> datetime:
    return min((call.at for call in (*group.calls, *group.inherited) if call.at is not None), default=_FIRST)


def _told(name: str, group: _Group, by: str) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name}
    if by == "session":
        began = _began(group)
        told |= {"harness": group.harness, "started": None if began is _FIRST else began}
    told |= _figures(group.calls, group.rules)
    if by in ("session", "harness"):
        told["inherited"] = figures_of(group.inherited, asked=False)
    told["units"] = units_of(group.units)
    told["sessions"] = len(group.sessions)
    return told


def _figures(calls: Sequence[Call], rules: Mapping[str, int]) -> dict[str, Any]:
    inferred = {HISTORY + rule: count for rule, count in rules.items() if rule != "ordinal"}
    figures: dict[str, Any] = dict(figures_of(calls, asked=True))
    certainty = certainty_of(calls, inferred=inferred)
    if not calls:
        certainty = {"level": _UNKNOWN, "reasons": []}
    return {**figures, "certainty": certainty}


def _overall(ledger: Ledger) -> dict[str, Any]:
    calls = [call for own in ledger.own for call in own]
    silent = sorted(
        {
            (account.harness, account.session)
            for account in ledger.accounts
            if not account.tally.calls and not account.tally.inherited
        }
    )
    rules: dict[str, int] = {}
    for account in ledger.accounts:
        _add(rules, account.rules)
    unfinished = [call for call in calls if not call.final and not call.unusable]
    progress = [call for call in calls if not call.by_row]
    counted = sum(total_of(call.counts) or 0 for call in calls)
    borrowed = sum(total_of(call.counts) or 0 for call in progress)
    return {
        "total": _figures(calls, rules),
        "units": units_of(told for units in ledger.units for told in units),
        "sessions": len({(account.harness, account.session) for account in ledger.accounts}),
        "sessions_without_usage": len(silent),
        "raw_vs_deduped": ratio(sum(account.tally.raw for account in ledger.accounts), calls),
        "unfinished": figures_of(unfinished, asked=False),
        "from_progress": {
            **figures_of(progress, asked=False),
            "share": round(borrowed / counted, 4) if counted else None,
        },
        "unusable_records": sum(account.tally.unusable for account in ledger.accounts),
        "idless_records": sum(account.tally.idless for account in ledger.accounts),
    }
