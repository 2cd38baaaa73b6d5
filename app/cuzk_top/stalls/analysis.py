"""All rules over one window: causes under their effects, what closing each saves, the best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from cuzk_top import figures
from cuzk_top.model import Snapshot
from cuzk_top.stalls import (
    builds,
    claims,
    clocks,
    copies,
    faults,
    hung,
    idle,
    intervals,
    lost,
    memory,
    scene,
    tails,
)
from cuzk_top.stalls.critical import Paths
from cuzk_top.stalls.draft import Draft
from cuzk_top.stalls.finding import Analysis, Finding
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.limits import Limits
from cuzk_top.stalls.scene import Proof, Scene
from cuzk_top.stalls.whatif import NO_CUT, WhatIf

Rule = Callable[[Graph], Iterable[Draft]]
RULES: tuple[Rule, ...] = (
    copies.exposed,
    copies.slow,
    claims.claimed,
    faults.find,
    memory.find,
    claims.waited,
    clocks.find,
    tails.cpu,
    tails.gpu,
    lost.silent,
    hung.find,
    builds.find,
    lost.records,
)
"""In the order of the table in the documentation; those of idle time come first."""


def analyse(snapshot: Snapshot, window: tuple[int, int] | None, limits: Limits) -> Analysis:
    """See `cuzk_top.stalls.analyse`."""
    seen = scene.make(snapshot, window, limits)
    graph = Graph(seen)
    whatif = WhatIf(Paths(graph), limits.most_steps)
    idles = idle.find(graph)
    drafts = [*idles.drafts, *(draft for rule in RULES for draft in rule(graph))]
    measured = _measured(seen, whatif, _told_apart(_by_gpu(seen, drafts)))
    path = whatif.paths.steps(whatif.stretches(seen.proofs[-1])) if seen.proofs else ()
    return Analysis(
        (seen.low, seen.high),
        _ranked(measured),
        path,
        sum(intervals.length(device.kernels) for device in seen.devices),
        sum(intervals.length(device.copies) for device in seen.devices),
        sum(intervals.length(device.idle) for device in seen.devices),
        idles.explained_ns,
        idles.unknown_ns,
        idles.nowork_ns,
        seen.proof_ns,
        early(seen),
        _no_device(snapshot),
    )


def early(seen: Scene) -> bool:
    """No proof has ended, and what runs has not run long enough to be judged."""
    if seen.snapshot.ended or any(proof.finished for proof in seen.proofs):
        return not (len(seen.records.host) or len(seen.records.ops))
    return max((proof.wall_ns for proof in seen.proofs), default=seen.high - seen.low) < seen.limits.early_ns


def _no_device(snapshot: Snapshot) -> str | None:
    if snapshot.devices:
        return None
    meta = snapshot.session.meta
    why = meta.get("gpu.problem") or meta.get("missing.gpu.0.util") or "no kernels or copies were recorded"
    return f"no device data: {why}"


def _by_gpu(seen: Scene, drafts: list[Draft]) -> list[Draft]:
    """With sentences that say which GPU it is, where several were used."""
    if sum(device.used for device in seen.devices) < 2:
        return drafts
    found = []
    for draft in drafts:
        one = draft.finding
        if one.device is not None and f"GPU {one.device}" not in one.sentence:
            one = replace(one, sentence=f"GPU {one.device}: {one.sentence}")
        found.append(replace(draft, finding=one))
    return found


def _told_apart(drafts: list[Draft]) -> list[Draft]:
    """With keys that differ where several findings of a rule are about the same, in the order of time."""
    counts: dict[tuple[str, str], int] = {}
    order = sorted(range(len(drafts)), key=lambda i: drafts[i].finding.intervals[:1])
    found = list(drafts)
    for i in order:
        finding = drafts[i].finding
        number = counts[finding.rule, finding.key] = counts.get((finding.rule, finding.key), 0) + 1
        if number > 1:
            found[i] = replace(drafts[i], finding=replace(finding, key=f"{finding.key} {number}"))
    return found


def _measured(seen: Scene, whatif: WhatIf, drafts: list[Draft]) -> list[Draft]:
    """With what closing each saves, where there is a proof to measure by: one that did not fail."""
    counted = [draft for draft in drafts if draft.finding.ranked]
    saved = iter(whatif.saved([draft.cut or NO_CUT for draft in counted]) if whatif.proofs else ())
    failed = [proof for proof in seen.proofs if proof.failed]
    return [
        _measured_one(draft, next(saved, None), _in(draft, failed), whatif.proofs)
        if draft.finding.ranked
        else draft
        for draft in drafts
    ]


def _measured_one(draft: Draft, saved: int | None, failed: int, done: Sequence[Proof]) -> Draft:
    """`failed`: in how many proofs that failed the finding lies."""
    if failed and not _in(draft, done):
        why = "its proof failed" if failed == 1 else f"all {failed} of its proofs failed"
        finding = draft.finding
        return replace(
            draft, finding=replace(finding, arithmetic=(*finding.arithmetic, f"no saving counts: {why}"))
        )
    if saved is None:
        return draft
    return _with(draft, saved, f"; without {failed} that failed" if failed else "")


def _in(draft: Draft, proofs: Sequence[Proof]) -> int:
    """In how many of the proofs a finding lies."""
    where = draft.finding.intervals
    return sum(intervals.overlap(where, ((proof.start, proof.end),)) > 0 for proof in proofs)


def _with(draft: Draft, saved: int, more: str) -> Draft:
    line = f"saved = {figures.spaced(saved)}: the proof's end without it, over the recorded edges"
    lasted = sum(end - start for start, end in draft.finding.intervals)
    if saved > lasted:  # each of several proofs would end so much earlier, at the same time
        line = (
            f"saved = {figures.spaced(lasted)}, as long as it lasted: proofs that overlap would end "
            f"{figures.spaced(saved)} earlier in all"
        )
        saved = lasted
    if not saved:
        line = "hidden: without it something else takes as long"
    if draft.cut is None:
        line = "saves nothing here: no recorded edge of a proof leads through it"
    arithmetic = (*draft.finding.arithmetic, line + more)
    return replace(draft, finding=replace(draft.finding, saved_ns=saved, arithmetic=arithmetic))


def _ranked(drafts: list[Draft]) -> tuple[Finding, ...]:
    """Effects with their causes under them, the best first."""
    effects = [draft.finding for draft in drafts if not draft.cause]
    causes: dict[int, list[Finding]] = {}
    for draft in drafts:
        if draft.cause:
            place = _effect(draft.finding, effects)
            if place is None:
                effects.append(draft.finding)
            else:
                causes.setdefault(place, []).append(draft.finding)
    found = [
        replace(effect, causes=tuple(sorted(causes.get(place, ()), key=_rank)))
        for place, effect in enumerate(effects)
    ]
    return tuple(sorted(found, key=_rank))


def _effect(cause: Finding, effects: list[Finding]) -> int | None:
    """The effect that a cause explains: the one whose time it shares most."""
    best, most = None, 0
    for place, effect in enumerate(effects):
        if not effect.ranked or effect.rule in (cause.rule, "stale.build"):  # which lies over everything
            continue
        if cause.device is not None and effect.device is not None and cause.device != effect.device:
            continue
        shared = intervals.overlap(cause.intervals, effect.intervals)
        if shared > most:
            best, most = place, shared
    return best


def _rank(finding: Finding) -> tuple[bool, int, int, str, str]:
    return (not finding.ranked, -(finding.saved_ns or 0), -finding.cost_ns, finding.rule, finding.key)
