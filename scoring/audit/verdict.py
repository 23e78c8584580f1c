"""The verdict: three grades and one vocabulary, the same in headline, sentences, JSON and exit code."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

Evidence: TypeAlias = Literal["leak", "no leak found", "cannot be judged"]
LEAK: Evidence = "leak"
NOTHING: Evidence = "no leak found"
UNKNOWN: Evidence = "cannot be judged"
EXIT_CODES: dict[Evidence, int] = {NOTHING: 0, LEAK: 3, UNKNOWN: 4}
FEWEST = 100  # patients on either side, below which nothing but copies is judged
SIGNIFICANCE = 0.01  # of all attacks together, and of the three risks together


def judge(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on an audit.

    Parameters
    ----------
    result : dict
        The audit as in report.json, without its verdict.

    Returns
    -------
    dict
        `evidence`, one of the three grades; `headline`; `reasons`, whole sentences, the strongest first.
    """
    leaks, doubts = _leaks(result), _doubts(result)
    if leaks:
        return {"evidence": LEAK, "headline": f"Leak: {leaks[0][0]}", "reasons": [text for _, text in leaks] + doubts}
    if doubts:
        return {"evidence": UNKNOWN, "headline": "It cannot be judged whether this release leaks", "reasons": doubts}
    return {
        "evidence": NOTHING,
        "headline": "No leak found by attacks that would have found one of the size below",
        "reasons": [_nothing(result), _would_have_found(result)],
    }


def _leaks(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each finding that shows a leak: for the headline in short, and as a sentence."""
    found: list[tuple[str, str]] = []
    copies = result["provenance"]
    if copies["stays"]:
        found.append((_copies_in_short(copies), _copies(copies)))
    rows = copies["rows"]
    if rows["too_many"]:
        found.append(
            (
                f"{rows['verbatim']:,} rows of the release are real rows",
                f"{rows['verbatim']:,} of {rows['released']:,} rows of the release are, word for word, rows of real "
                f"stays. By accident others share {rows['share_by_accident']:.2%} of their rows with members.",
            )
        )
    worst = result["worst"]
    if worst and worst["p_value"] <= SIGNIFICANCE and not result["differences"]["differ"]:
        figures = result["attacks"][worst["strongest"]]["figures"]
        found.append(
            (
                f"the attack {worst['strongest']} tells members from others",
                f"The attack {worst['strongest']} labels {figures['score']:.1%} of the stays rightly (chance "
                f"{figures['chance']:.1%}), and its AUROC is {figures['auroc']:.3f} (95 % interval "
                f"{figures['auroc_ci95'][0]:.3f} to {figures['auroc_ci95'][1]:.3f}; chance 0.500). If nothing "
                f"leaked, the best of {worst['attacks']} attacks would do as well in {_share(worst['p_value'])} of all "
                "releases.",
            )
        )
    for name, risk in result["risks"].items():
        certain = risk["p_value"] is not None and risk["p_value"] <= SIGNIFICANCE / len(result["risks"])
        if certain and not result["differences"]["differ"]:
            low, high = risk["risk_ci95"]
            words = name.replace("_", " ")
            found.append(
                (
                    f"{words} succeeds more often with members than with others",
                    f"{words.capitalize()} succeeds with {_rate(risk['members'])} of the members and "
                    f"{_rate(risk['others'])} of the others: a risk of {risk['risk']:.1%} (95 % interval "
                    f"{low:.1%} to {high:.1%}).",
                )
            )
    claim = result["privacy_claim"]
    if claim and claim["refuted"]:
        found.append(
            (
                "the claim of differential privacy is refuted",
                f"The hider claims epsilon {claim['claimed']['epsilon']:.3g}. The attack {claim['found']['attack']} "
                f"shows at least {claim['found']['epsilon']:.3g} (confidence {claim['found']['confidence']:.0%}).",
            )
        )
    return found


def _doubts(result: Mapping[str, Any]) -> list[str]:
    """Return every reason for which nothing can be said for the release."""
    doubts = []
    data = result["data"]
    for side, count in (("members", data["member_patients"]), ("others", data["other_patients"])):
        if count < FEWEST:
            doubts.append(f"There are only {count} patients among the {side}. The audit needs at least {FEWEST}.")
    if data["made_from_others"]:
        doubts.append("The release says that it was made from other stays than the members given.")
    if data["provenance_unknown"]:
        doubts.append("Nobody states that the release was made from the members and from none of the others.")
    differences = result["differences"]
    if differences["differ"]:
        doubts.append(
            f"Members and others can be told apart without the release (AUROC {differences['auroc']:.3f}, 99 % "
            f"interval from {differences['auroc_ci99'][0]:.3f}). So they are no random halves of one population, and "
            "an attack that tells them apart shows nothing. Draw the others as the members were drawn."
        )
    if not any(one["figures"] for one in result["attacks"].values()):
        doubts.append("No attack could be run.")
    if result["power"] is not None:
        if result["power"]["verbatim copies"]["size"] is None:
            doubts.append("The positive control failed: verbatim copies that were planted were not all found.")
        if result["power"]["near-copies"]["size"] is None:
            doubts.append(
                "The positive control failed: near-copies of members, planted in this release, were not found at any "
                "size that was tried. An attack that finds nothing here says nothing."
            )
    elif not _leaks(result):
        doubts.append("The positive control was left out (--skip_power), so nobody knows what would have been found.")
    return doubts


def _copies_in_short(copies: Mapping[str, Any]) -> str:
    count = copies["stays"]
    stays, verb = ("stay", "is") if count == 1 else ("stays", "are")
    if sum(copies["nearly"].values()) == count:
        return f"{count:,} released {stays} {verb} nearly the same as real {stays}"
    return f"{count:,} real {stays} {verb} in the release"


def _copies(copies: Mapping[str, Any]) -> str:
    parts = []
    for kind, words in (("verbatim", "word for word"), ("in_part", "in part"), ("nearly", "nearly")):
        count = copies[kind]
        if sum(count.values()):
            parts.append(
                f"{sum(count.values()):,} {words} ({count['members']:,} of members, {count['others']:,} of others)"
            )
    patients = copies["patients"]
    return (
        f"{copies['stays']:,} of {copies['released']:,} released stays are those of real patients: {', '.join(parts)}. "
        f"Members shown by them: {patients['members']:,}. Others shown: {patients['others']:,}."
    )


def _nothing(result: Mapping[str, Any]) -> str:
    worst, copies = result["worst"], result["provenance"]
    figures = result["attacks"][worst["strongest"]]["figures"]
    return (
        f"None of {copies['released']:,} released stays is a real stay or near one. The best of {worst['attacks']} "
        f"attacks, {worst['strongest']}, reaches an AUROC of {figures['auroc']:.3f} (chance 0.500). If nothing "
        f"leaked, the best would do as well in {_share(worst['p_value'])} of all releases."
    )


def _would_have_found(result: Mapping[str, Any]) -> str:
    power, data = result["power"], result["data"]
    copies, near, means = (power[kind] for kind in ("verbatim copies", "near-copies", "exact means"))
    text = (
        f"Planted in this release, these leaks were found in each of {near['trials']} trials: {int(copies['size'])} "
        f"verbatim cop{'y' if copies['size'] == 1 else 'ies'} of a stay; near-copies of {near['size']:.1%} of the "
        f"members ({near['count']:,} of {data['members']:,})"
    )
    if means["size"] is None:
        return text + ". Exact means of the members were not found at any number tried: such a leak would be missed."
    return text + f"; {int(means['size'])} exact means of the members. A smaller leak may be there."


def _rate(counts: tuple[int, int]) -> str:
    return f"{counts[0] / counts[1]:.1%}"


def _share(p_value: float) -> str:
    return f"{p_value:.1%}" if p_value >= 0.001 else f"{p_value:.2%}"


def exit_code(evidence: str, fail_on: str) -> int:
    """Return 0, or 3 for a leak, or 4 if it cannot be judged and `fail_on` is "unsure"."""
    if evidence == LEAK:
        return EXIT_CODES[LEAK]
    return EXIT_CODES[UNKNOWN] if evidence == UNKNOWN and fail_on == "unsure" else 0
