"""Advice in words and tables, for the command, the Run dialog and the page Compute alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import Any

from engine.advisor.advice import NEARLY, Advice, Estimate, frontier, in_currency, table_in_place, usual_currency
from engine.advisor.storage_cost import as_json as storage_as_json
from engine.text import duration, money_between, number, plural, size

COLUMNS = ("machine", "cores", "GPUs", "time", "from - to", "cost", "limited by", "known from")
"""Of the lines of `row`."""
SHOWN = 12
BENCH_FIRST = "Run `voxelflow bench` here first (some minutes): it measures how fast this machine trains."
_BOUND = {"input": "input", "compute": "computing", "memory": "memory"}
_WAYS = {"files": "files, one each", "table": "a table", "remote table": "a table in an object store"}


def subject(advice: Advice) -> str:
    """What is trained: `5 epochs of 1,600 volumes from a table, in batches of 32`."""
    work = advice.work
    workers = f" on {work.workers} workers" if work.workers > 1 else ""
    return (
        f"{plural(work.epochs, 'epochs')} of {plural(work.volumes, 'volumes')} from {_WAYS[advice.way]},"
        f" in batches of {work.batch_size}{workers}"
    )


def span(estimate: Estimate) -> str:
    """The error bar: `8 - 12 min` in words of `duration`."""
    return f"{duration(estimate.low)} - {duration(estimate.high)}"


def cost_span(estimate: Estimate) -> str:
    """What it costs by the error bar: `0.08 to 0.16 USD`; "unknown" without a price."""
    ends = estimate.cost_range
    return "unknown" if ends is None else money_between(*ends, estimate.machine.currency)


def source_of(estimate: Estimate) -> str:
    """How its speed is known: whether it was measured, scaled or guessed, and from what."""
    return f"{estimate.basis} {estimate.source}".rstrip()


def row(estimate: Estimate) -> tuple[str, ...]:
    """A line of the table, with the columns `COLUMNS`."""
    machine = estimate.machine
    gpus = f"{machine.gpus} x {machine.gpu}".removesuffix(" x ") if machine.gpus else ""
    if not estimate.fits:
        return (machine.name, str(machine.cores), gpus, "does not fit", "", "", _BOUND["memory"], source_of(estimate))
    return (
        machine.name,
        str(machine.cores),
        gpus,
        duration(estimate.seconds),
        span(estimate),
        cost_span(estimate),
        _BOUND[estimate.bound],
        source_of(estimate),
    )


def chosen_few(advice: Advice, most: int = SHOWN) -> list[Estimate]:
    """The estimates worth a line: the profile's own, what is measured, the cheapest without a GPU, the cheapest in each
    other currency, the efficient ones, then the cheapest."""
    comparable = _comparable(advice, advice.estimates)
    among = {id(e) for e in comparable}

    def place(each: Estimate) -> tuple[bool, bool, str, float, float]:
        return each.cost is None, id(each) not in among, each.machine.currency, each.cost or 0.0, each.seconds

    ranked = sorted(advice.estimates, key=place)
    plain = next((e for e in ranked if not e.machine.gpus and e.cost is not None), None)
    others = {e.machine.currency: e for e in reversed(ranked) if e.cost is not None and id(e) not in among}
    measured = [e for e in advice.estimates if e.machine.origin == "bench"]
    first = [advice.own, advice.recommended, plain, *measured, *others.values()]
    wanted = [*(e for e in first if e is not None), *reversed(frontier(comparable)), *ranked]
    few = list(dict.fromkeys(id(e) for e in wanted))[:most]
    return [e for e in ranked if id(e) in few]


def _comparable(advice: Advice, estimates: Iterable[Estimate]) -> list[Estimate]:
    """Those with a cost in the currency of the recommended one."""
    best, known = advice.recommended, list(estimates)
    return in_currency(known, best.machine.currency if best is not None and best.cost else usual_currency(known))


# --- sentences -----------------------------------------------------------------------------------


def in_a_line(advice: Advice) -> str:
    """The advice for the Run dialog: the time and cost under the profile, where it would be better, what its storage
    costs."""
    text = _of_machines(advice)
    return text if advice.storage is None else f"{text} {advice.storage.sentence()}"


def _of_machines(advice: Advice) -> str:
    own, best = advice.own, advice.recommended
    if own is None:
        return BENCH_FIRST
    if not own.fits:
        text, left = f"Does not fit into the memory of {own.machine.name}", []
    else:
        text = f"About {duration(own.seconds)} ({span(own)}){_for_cost(own)}, limited by {_BOUND[own.bound]}"
        left = left_out(advice)
        left += ["waiting for volumes, which was not measured"] if advice.assumed_input else []
    if own.source:
        text += f", {source_of(own)}"
    text += "."
    if best is not None and best.machine.name != own.machine.name and best.fits and best.seconds < 0.9 * own.seconds:
        text += f" {best.machine.name} would take {duration(best.seconds)}{_for_cost(best)}"
        text += "." if best.basis == "measured" else f", {source_of(best)}."
    return f"{text} Not in these times: {', '.join(left)}." if left else text


def _for_cost(estimate: Estimate) -> str:
    return "" if estimate.cost is None else f" for {cost_span(estimate)}"


def reasons(advice: Advice) -> list[str]:
    """Why the recommended machine."""
    best = advice.recommended
    if best is None:
        return []
    out = []
    faster = [e for e in frontier(_comparable(advice, advice.estimates)) if e.seconds < 0.9 * best.seconds]
    if _is_late(best, advice.within_s):
        known = all(_is_late(e, advice.within_s) for e in advice.estimates)
        # One whose price is not known is never recommended.
        machine, them = ("machine", "") if known else ("machine with a known price", " of them")
        out.append(f"No {machine} is done in {duration(advice.within_s or 0.0)}; this is the fastest{them}.")
    if best.cost_range is not None:
        out.append(f"It {_by_cost(advice, best)} {cost_span(best)}, in {duration(best.low)} to {duration(best.high)}.")
    if faster:
        other = faster[-1]
        times = best.seconds / other.seconds
        out.append(
            f"The next faster one is {other.machine.name}: {number(round(times, 1))} times as fast{_for_cost(other)}."
        )
    if best.bound == "input":
        share = 1 - best.compute_s / best.step_s
        out.append(f"It waits for volumes {share:.0%} of the time.")
    elif advice.assumed_input:
        out.append("Whether it waits for volumes was not measured: it is taken to be limited by computing.")
    elif best.input_s:
        out.append(
            f"It is limited by computing: volumes come {number(round(best.compute_s / best.input_s, 1))} times as fast"
            " as they are used."
        )
    if best.source:
        out.append(f"It was not measured: its speed is {source_of(best)}, so its error bar is wide.")
    return out


def _is_late(estimate: Estimate, within_s: float | None) -> bool:
    """Whether it is not done by then, or does not fit at all."""
    return not estimate.fits or (within_s is not None and estimate.seconds > within_s)


def _by_cost(advice: Advice, best: Estimate) -> str:
    """How its cost compares with that of others in its currency: `is the cheapest:`."""
    within = advice.within_s
    priced = _comparable(advice, advice.estimates)
    in_time = [e for e in priced if not _is_late(e, within)]
    among = _with_a_price(advice, priced)
    for those, which in ((priced, ""), (in_time, f" of those that are done in {duration(within or 0.0)}")):
        cheapest = min((e.cost or 0.0 for e in those), default=0.0)
        if (best.cost or 0.0) <= cheapest:
            return f"is the cheapest{among}{which}:"
        if (best.cost or 0.0) <= cheapest * (1 + NEARLY):
            return f"is nearly as cheap as the cheapest{among}{which}, and faster:"
    return "costs"


def _with_a_price(advice: Advice, priced: Sequence[Estimate]) -> str:
    """` with a known price` where the profile's own machine has none; ` with a price in USD` where it has another."""
    own = advice.own
    if own is None or not own.fits or any(e is own for e in priced):
        return ""
    return " with a known price" if own.cost is None else f" with a price in {usual_currency(priced) or 'no currency'}"


def changes(advice: Advice) -> list[str]:
    """What would change the recommendation."""
    out = []
    best, own = advice.recommended, advice.own
    if advice.from_table:
        out += list(_table_instead(advice))
    if own is not None and best is not None and best.source and best.machine.name != own.machine.name:
        overlap = best.cost_range is not None and any(
            e.cost_range is not None and e is not best and e.cost_range[0] < (best.cost or 0.0) < e.cost_range[1]
            for e in _comparable(advice, advice.estimates)
        )
        if overlap:
            out.append(
                f"Other machines lie within the error bars: `voxelflow bench` on {best.machine.name} makes it certain."
            )
    if best is not None and best.bound == "input" and not best.cached and best.fits and advice.work.epochs > 1:
        needed = (advice.work.volumes + advice.work.validation) * advice.work.volume_bytes
        out.append(f"Where all volumes fit into memory ({size(needed)}), epochs after the first do not wait for them.")
    return out


def elsewhere(advice: Advice) -> list[str]:
    """What the same training takes with the data in other places that were probed, on the profile's machine."""
    now = advice.own or advice.recommended
    if now is None or not now.fits:
        return []
    out = []
    for place in advice.elsewhere:
        then = next((e for e in place.estimates if e.machine.name == now.machine.name and e.fits), None)
        if then is not None:
            out.append(
                f"From {place.place}, as {_WAYS[place.way]}, {now.machine.name} takes {duration(then.seconds)}"
                f" ({span(then)}){_for_cost(then)} instead of {duration(now.seconds)}."
            )
    return out


def _table_instead(advice: Advice) -> Iterator[str]:
    by_name = {e.machine.name: e for e in advice.from_table}
    for each in dict.fromkeys(filter(None, (advice.own, advice.recommended))):
        then = by_name.get(each.machine.name)
        if then is not None and then.fits and each.fits and then.seconds < 0.95 * each.seconds:
            yield (
                f"From {_WAYS[then.way]} {each.machine.name} takes {duration(then.seconds)} instead of"
                f" {duration(each.seconds)}{_for_cost(then)}."
            )
    if advice.conversion_s is not None and advice.pays_after is not None:
        yield (
            f"Converting the files takes about {duration(advice.conversion_s)} and has paid after"
            f" {plural(advice.pays_after, 'epochs')}."
        )
    from_table, files = _comparable(advice, advice.from_table), _comparable(advice, advice.estimates)
    fast = min((e for e in from_table if e.machine.gpus), key=_cost, default=None)
    slow = min((e for e in from_table if not e.machine.gpus), key=_cost, default=None)
    files_gpu = min((e for e in files if e.machine.gpus), key=_cost, default=None)
    files_cpu = min((e for e in files if not e.machine.gpus), key=_cost, default=None)
    if fast and slow and files_gpu and files_cpu and _cost(fast) < _cost(slow) and _cost(files_gpu) > _cost(files_cpu):
        yield (
            f"A GPU pays off once the data is a table: {fast.machine.name} then takes"
            f" {duration(fast.seconds)}{_for_cost(fast)}."
        )


def _cost(estimate: Estimate) -> float:
    return estimate.cost or 0.0


def missing(advice: Advice, place: str) -> list[str]:
    """What to measure for a better prediction, as commands."""
    out, place = [], quote(place)
    if not advice.estimates:
        out.append(BENCH_FIRST)
    elif advice.own is None or advice.own.source:
        out.append(_to_measure(advice))
    if advice.assumed_input and advice.estimates:
        beyond = " longer than the latency given" if advice.with_latency else ""
        out.append(
            f"How fast volumes come is not known: `voxelflow probe {place}` measures it. Until then the times"
            f" are as if no step had to wait for them{beyond}."
        )
    elif advice.way == "files" and advice.estimates and not advice.from_table and _could_be_a_table(advice):
        out.append(f"What a table in that place would take is not known: `voxelflow probe {place}` measures it.")
    said = advice.assumed_input and place == quote(advice.saved_in)
    if advice.saved_in and not said and advice.own is not None and _saves_unknown(advice.own):
        out.append(
            f"How fast checkpoints are written is not known: `voxelflow probe {quote(advice.saved_in)}` measures it."
            " Until then the times are without them."
        )
    if advice.own is not None and advice.own.machine.remote and advice.own.machine.memory_bytes is None:
        out.append(
            f"Whether it fits into the memory of {advice.own.machine.name}'s machines is not known: its profile names"
            ' no type of them, such as executor_machine = "m5.4xlarge@us-east-1".'
        )
    if not advice.work.exact_network:
        out.append("The network is your own: times are those of the ResNet with the same parameters.")
    return out


def _to_measure(advice: Advice) -> str:
    """The benchmark that makes the figures of the profile's machine measured ones."""
    own, work = None if advice.own is None else advice.own.machine, advice.work
    options, where = "", "this machine"
    if own is not None and own.remote and own.machine_type:
        where = own.machine_type
    elif own is not None and own.remote:
        # Where no type is named, the machine is known by the profile's name alone.
        options, where = f" --name {quote(own.name)}", "the machine of an executor"
    if work.mixed_precision is not None:
        options += f" --mixed-precision {'on' if work.mixed_precision else 'off'}"
    if work.jit:
        options += " --xla on"
    return f"`voxelflow bench{options}` on {where} makes its figures measured ones."


def left_out(advice: Advice) -> list[str]:
    """What no time, and so no cost, has in it."""
    unknown = any(map(_saves_unknown, advice.estimates))
    return [
        "the start of a machine or cluster",
        *(["checkpoints on disks of unknown speed"] if unknown else []),
    ]


def _saves_unknown(estimate: Estimate) -> bool:
    return estimate.fits and estimate.saving_s is None


def _could_be_a_table(advice: Advice) -> bool:
    return table_in_place(advice.work) in advice.work.access


# --- for other programs --------------------------------------------------------------------------


def as_json(advice: Advice, place: str) -> dict[str, Any]:
    """The advice as plain values; times in seconds."""

    def one(estimate: Estimate | None) -> dict[str, Any] | None:
        if estimate is None:
            return None
        machine = estimate.machine
        return {
            "machine": machine.name,
            "cores": machine.cores,
            "gpus": machine.gpus,
            "gpu": machine.gpu,
            "price_per_hour": machine.price_per_hour,
            "currency": machine.currency,
            "stored_as": estimate.way,
            "batch_size": estimate.batch_size,
            "workers": estimate.workers,
            "fits": estimate.fits,
            "seconds": round(estimate.seconds, 1),
            "low": round(estimate.low, 1),
            "high": round(estimate.high, 1),
            "cost": estimate.cost,
            "cost_range": estimate.cost_range,
            "bound": estimate.bound,
            "step_s": estimate.step_s,
            "compute_s": estimate.compute_s,
            "input_s": estimate.input_s,
            "first_epoch_s": round(estimate.first_epoch_s, 1),
            "later_epoch_s": round(estimate.later_epoch_s, 1),
            "saving_s": None if estimate.saving_s is None else round(estimate.saving_s, 1),
            "memory_bytes": estimate.memory_bytes,
            "basis": estimate.basis,
            "source": source_of(estimate),
        }

    return {
        "subject": subject(advice),
        "own": one(advice.own),
        "recommended": one(advice.recommended),
        "estimates": [one(e) for e in advice.estimates],
        "from_table": [one(e) for e in advice.from_table],
        "elsewhere": [{"place": p.place, "estimates": [one(e) for e in p.estimates]} for p in advice.elsewhere],
        "conversion_s": advice.conversion_s,
        "conversion_pays_after_epochs": advice.pays_after,
        "reasons": reasons(advice),
        "changes": changes(advice),
        "settings": [vars(s) for s in advice.settings],
        "missing": missing(advice, place),
        "left_out": left_out(advice),
        "storage": None if advice.storage is None else storage_as_json(advice.storage),
    }
