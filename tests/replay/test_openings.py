"""Calls that wait for their total, against a list that is looked through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from score import ref

from forensic.model import COUNTED, Accounting, Counts, Usage
from forensic.replay.growth import UNTOLD, exceeds, largest
from forensic.replay.openings import Open, Openings, Spent

OUTPUT = COUNTED.index("output_tokens")
ROW = Spent(0, Accounting(ref=ref(0), family="call"), Usage())
MODELS = st.sampled_from([None, "a", "b"])
FEW = st.sampled_from([None, 0, 1, 2, 3])
COUNTS = st.builds(
    lambda input_, output, total: (input_, output, *UNTOLD[2:-1], total), FEW, FEW, st.sampled_from([None, 0, 4])
)


class Plain:
    """The same, looked through from the front each time."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Counts, str | None]] = []

    def of(self, model: str | None) -> list[tuple[str, Counts, str | None]]:
        return [one for one in self.calls if model in (None, one[2])]

    def first(self, model: str | None) -> str | None:
        return next((one[0] for one in self.of(model)), None)

    def nothings(self, model: str | None, whole: Counts) -> bool:
        nothing = tuple(None if figure is None else 0 for figure in whole)
        return any(not exceeds(one[1], nothing) for one in self.of(model))

    def modelless(self, output: int) -> str | None:
        return next((one[0] for one in self.calls if one[2] is None and (one[1][OUTPUT] or 0) <= output), None)


def name_of(one: Open | None) -> str | None:
    return None if one is None else one.name


@given(st.data())
def test_every_question_has_the_answer_of_a_list(data: st.DataObject) -> None:
    """Whatever was told, told again or closed before, in whatever order."""
    openings, plain = Openings(), Plain()
    for number in range(data.draw(st.integers(1, 60))):
        step = data.draw(st.sampled_from(["tell", "tell", "tell", "again", "close", "close first"]))
        if step == "tell" or not plain.calls:
            counts, model = data.draw(COUNTS), data.draw(MODELS)
            openings.add(f"c{number}", counts, model, ROW)
            plain.calls.append((f"c{number}", counts, model))
            continue
        at = 0 if step == "close first" else data.draw(st.integers(0, len(plain.calls) - 1))
        name, counts, model = plain.calls[at]
        one = openings.get(name)
        assert one is not None
        if step == "again":
            counts, model = largest(counts, data.draw(COUNTS)), model or data.draw(MODELS)
            openings.learn(one, counts, model)
            plain.calls[at] = (name, counts, model)
        else:
            openings.close(one)
            del plain.calls[at]
            assert openings.get(name) is None
        whole = data.draw(COUNTS)
        assert bool(openings) == bool(plain.calls)
        assert name_of(openings.modelless(2)) == plain.modelless(2)
        modelless = [name for name, _, model in plain.calls if model is None]
        few = openings.few_modelless(4)
        assert (few is None) == (len(modelless) > 4)
        assert few is None or [one.name for one in few] == modelless
        for of in (None, "a", "c"):
            assert name_of(openings.first(of)) == plain.first(of)
            assert openings.nothings(of, whole) == plain.nothings(of, whole)
