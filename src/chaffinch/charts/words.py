"""How a mechanism is called in a title, and the terms its figures hold under."""

from __future__ import annotations

import re

from chaffinch.charts.figure import Style, Terms
from chaffinch.privacy.guarantee import PROVEN
from chaffinch.privacy.mechanism import Mechanism


def called(mechanism: Mechanism) -> str:
    """Return the mechanism in words: its kind, its crowd and its parameters."""
    parameters = vars(mechanism)
    if "parts" in parameters:
        return " + ".join(f"{count} × ({called(part)})" for part, count in parameters["parts"])
    kind = re.sub(r"(?<=[a-z])([A-Z])", lambda m: " " + m[1].lower(), type(mechanism).__name__)
    words = f"{kind}, {mechanism.crowd_words}"
    if parameters.get("copies", 1) > 1:
        words += f", {parameters['copies']} copies"
    if "flip_probability" in parameters:
        words += f", flip probability {float(parameters['flip_probability']):.4g}"
    return words


def terms(mechanism: Mechanism) -> Terms:
    """Return what a proven line of this mechanism depends on."""
    return Terms(
        neighbours=mechanism.neighbours,
        view=mechanism.view,
        crowd=mechanism.crowd_words,
        method=mechanism.method,
    )


def line(mechanism: Mechanism) -> tuple[str, Style]:
    """Return the name and the meaning of a mechanism's own line."""
    if mechanism.method == "exact":
        return "exact, worst crowd", "proven"
    if mechanism.method in PROVEN:
        return "proven bound, every crowd", "proven"
    return mechanism.method.replace("-", " "), "assumed"
