"""Ledger: what many sessions cost together, each call once.

A resumed or forked session holds the calls of the one it came from, written down again. Over all sessions there is one
map of calls: a call belongs to one session, its *owner*, and the others have *inherited* it. So the sums over any
grouping are the total.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
    billed,
    certainty_of,
    figures_of,
    fold,
    ratio,
    total_of,
    units_of,
)

__all__ = ["GROUPINGS", "Account", "Ledger", "report", "settle"]

Name = tuple[str, str]
"""Harness and session, harness and thread."""

GROUPINGS = ("session", "day", "model", "agent", "harness")

_FIRST = datetime.min.replace(tzinfo=UTC)
_UNKNOWN = "unknown"


class Account(Struct, array_like=True):
    """What one session tells of usage. `place` is where it was read; `origin` the session that it names as its own.

    `rules` name what told the history of each thread apart. `quiet` says that no model was asked for anything: so a
    session without calls has cost nothing, where else nobody knows what it cost.

    `totals` are the running totals of its threads, for threads that were forked from them; `unsettled` names threads
    outside of this session whose totals would tell more surely what was inherited. Of a bundle also its `content_id`
    and those that it `supersedes`.
    """

    harness: str
    session: str
    place: str
    tally: Tally
    origin: str | None = None
    rules: dict[str, str] = {}
    totals: dict[str, list[Snapshot]] = {}
    unsettled: list[str] = []
    problems: list[str] = []
    content_id: str = ""
    supersedes: list[str] = []
    quiet: bool = False

    @property
    def name(self) -> Name:
        """What names the session: two harnesses may use one id."""
        return self.harness, self.session


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
        sessions = {accounts[owner].name}
        for other, _ in told:
            if accounts[other].name not in sessions:
                sessions.add(accounts[other].name)
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
        return (account.harness, account.session, *_own_name(call))
    if kind == "request" and (message := message_of.get((account.harness, name))) is not None:
        kind, name = "message", message
    return (account.harness, kind, name)


def _own_name(call: Call) -> tuple[object, ...]:
    """What names a call within its session."""
    # a number is counted in each file anew: what says the same under the same one is a copy, and nothing else is
    return (*call.key, call.at, call.counts) if call.key[0] == "number" else call.key


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
    name: str
    harness: str
    calls: list[Call] = []
    inherited: list[Call] = []
    units: list[Units] = []
    sessions: set[Name] = set()
    rules: dict[Name, str] = {}


def report(ledger: Ledger, by: str, zone: tzinfo = UTC) -> dict[str, Any]:
    """All groups of one grouping, the total, and what people must know to believe it (docs/cli.md).

    Days are those of `zone`. Groups are in the order of time (session, day), else the largest first.
    """
    groups: dict[object, _Group] = {}
    name_of = _namer(by, zone)

    def group_of(account: Account, call: Call | None, at: datetime | None) -> _Group:
        name = name_of(account, call, at)
        key = account.name if by == "session" else name
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(name, account.harness)
        return group

    for account, own, inherited, units in zip(ledger.accounts, ledger.own, ledger.inherited, ledger.units, strict=True):
        if by in ("session", "harness"):
            group = group_of(account, None, None)
            group.sessions.add(account.name)
            group.inherited.extend(inherited)
            group.units.extend(units)
            _add(group.rules, account)
        for call in own:
            group = group_of(account, call, call.at)
            group.calls.append(call)
            group.sessions.add(account.name)
        if by == "day":
            for told in units:
                group_of(account, None, told.at).units.append(told)
    untold = _untold(ledger.accounts)
    return {
        "by": by,
        "groups": [_told(group, by, untold) for group in _sorted(groups.values(), by)],
        **_overall(ledger, untold),
    }


def _add(rules: dict[Name, str], account: Account) -> None:
    """Note how history was told apart; a thread that stands in two places is one."""
    for thread, rule in account.rules.items():
        rules.setdefault((account.harness, thread), rule)


def _namer(by: str, zone: tzinfo) -> Callable[[Account, Call | None, datetime | None], str]:
    def name(account: Account, call: Call | None, at: datetime | None) -> str:
        if by == "session":
            return account.session
        if by == "harness":
            return account.harness
        if by == "day":
            return UNDATED if at is None else _day(at, zone)
        if by == "model":
            return (call.model if call is not None else None) or _UNKNOWN
        return (call.agent if call is not None else None) or MAIN

    return name


def _day(at: datetime, zone: tzinfo) -> str:
    """The day that it was in a zone; the last or first one of the calendar where that has none beyond."""
    with contextlib.suppress(OverflowError):
        at = at.astimezone(zone)
    return at.date().isoformat()


def _sorted(groups: Iterable[_Group], by: str) -> list[_Group]:
    if by == "day":
        return sorted(groups, key=lambda group: group.name)
    if by == "session":
        return sorted(groups, key=lambda group: (_began(group), group.name, group.harness))
    return sorted(groups, key=lambda group: (-(figures_of(group.calls, asked=False)["total_tokens"] or 0), group.name))


def _began(group: _Group) -> datetime:
    return min((call.at for call in (*group.calls, *group.inherited) if call.at is not None), default=_FIRST)


def _told(group: _Group, by: str, untold: AbstractSet[Name]) -> dict[str, Any]:
    told: dict[str, Any] = {"name": group.name}
    if by == "session":
        began = _began(group)
        told |= {"harness": group.harness, "started": None if began is _FIRST else began}
    known = bool(group.sessions) and untold.isdisjoint(group.sessions) and not billed(group.units)
    told |= _figures(group.calls, group.rules, known=known)
    if by in ("session", "harness"):
        told["inherited"] = figures_of(group.inherited, asked=False)
    told["units"] = units_of(group.units)
    told["sessions"] = len(group.sessions)
    return told


def _figures(calls: Sequence[Call], rules: Mapping[Name, str], *, known: bool) -> dict[str, Any]:
    """Figures and certainty; where there are no calls they are zero if that is `known`, else nobody knows them."""
    inferred = Counter(HISTORY + rule for rule in rules.values() if rule != "ordinal")
    certainty = certainty_of(calls, inferred=inferred)
    if not calls and not known:
        certainty = {"level": _UNKNOWN, "reasons": []}
    return {**figures_of(calls, asked=bool(calls) or not known), "certainty": certainty}


def _untold(accounts: Iterable[Account]) -> frozenset[Name]:
    """The sessions that tell of no call in any place, though a model may have been asked."""
    telling = {one.name for one in accounts if one.tally.calls}
    return frozenset(one.name for one in accounts if not one.quiet and one.name not in telling)


def _once(accounts: Iterable[Account]) -> Iterator[Account]:
    """The accounts without those of whose calls others of the same session, the larger ones first, tell as well."""
    known: dict[Name, set[tuple[object, ...]]] = {}
    for account in sorted(accounts, key=lambda one: -len(one.tally.calls)):
        names = known.setdefault(account.name, set())
        calls = {_own_name(call) for call in account.tally.calls}
        if not calls <= names:
            names |= calls
            yield account


def _overall(ledger: Ledger, untold: AbstractSet[Name]) -> dict[str, Any]:
    calls = [call for own in ledger.own for call in own]
    sessions = {account.name for account in ledger.accounts}
    inheriting = {account.name for account in ledger.accounts if account.tally.inherited}
    rules: dict[Name, str] = {}
    for account in ledger.accounts:
        _add(rules, account)
    unfinished = [call for call in calls if not call.final and not call.unusable]
    progress = [call for call in calls if not call.by_row]
    counted = sum(total_of(call.counts) or 0 for call in calls)
    borrowed = sum(total_of(call.counts) or 0 for call in progress)
    once = [account.tally for account in _once(ledger.accounts)]
    return {
        "total": _figures(calls, rules, known=bool(sessions) and not untold),
        "units": units_of(told for units in ledger.units for told in units),
        "sessions": len(sessions),
        "sessions_without_usage": len(untold - inheriting),
        "raw_vs_deduped": ratio(sum(one.raw for one in once), calls),
        "unfinished": figures_of(unfinished, asked=False),
        "from_progress": {
            **figures_of(progress, asked=False),
            "share": round(borrowed / counted, 4) if counted else None,
        },
        "unusable_records": sum(one.unusable for one in once),
        "idless_records": sum(one.idless for one in once),
    }
