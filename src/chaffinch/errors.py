"""Every error chaffinch raises on purpose.

ChaffinchError                 .code (a stable word), .hint, .details (safe to log)
├── InvalidInput (ValueError)  a parameter breaks its rule
├── GuaranteeNotProven         the width asked for was not reached; holds what was
├── NoParameterFound           a calibration target that no parameter in range meets
└── MissingExtra               a feature that needs an optional install

One sentence form everywhere: "The {thing} must be {rule}. Got {value}." and, when
there is something to do about it, a second line that starts with ``hint:``.
"""

from __future__ import annotations

from collections.abc import Mapping


class ChaffinchError(Exception):
    """The root: catch this to catch everything chaffinch raises on purpose."""

    code = "error"

    def __init__(
        self, message: str, *, hint: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
        self.message = message
        self.hint = hint
        self.details: Mapping[str, object] = dict(details or {})


class InvalidInput(ChaffinchError, ValueError):
    """A parameter breaks its rule; names the parameter, the rule and what was given."""

    code = "invalid-input"

    def __init__(self, parameter: str, must_be: str, got: object, *, hint: str = "") -> None:
        shown = _shown(got)
        super().__init__(
            f"The {parameter} must be {must_be}. Got {shown}.",
            hint=hint,
            details={"parameter": parameter, "must_be": must_be, "got": shown},
        )
        self.parameter = parameter
        self.must_be = must_be
        self.got = got


class GuaranteeNotProven(ChaffinchError):
    """The bracket is wider than asked; raised instead of a guess, and says what was reached."""

    code = "guarantee-not-proven"

    def __init__(
        self, quantity: str, *, asked: float, lower: float, upper: float, hint: str = ""
    ) -> None:
        super().__init__(
            f"The {quantity} must be proven to a relative width of {asked:g}. "
            f"Got the bracket [{lower!r}, {upper!r}].",
            hint=hint,
            details={"quantity": quantity, "asked": asked, "lower": lower, "upper": upper},
        )
        self.asked = asked
        self.lower = lower
        self.upper = upper


class NoParameterFound(ChaffinchError):
    """No value of the free parameter in its range meets the target."""

    code = "no-parameter-found"


class MissingExtra(ChaffinchError):
    """A feature needs a part that is not installed; names the line that installs it."""

    code = "missing-extra"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"The {feature} must be installed first.",
            hint=f"pip install 'chaffinch[{extra}]'",
            details={"feature": feature, "extra": extra},
        )


def _shown(value: object) -> str:
    """Return a short, one-line picture of a refused value."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
