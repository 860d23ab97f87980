"""The limits that the product keeps to, and whether it did."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One limit."""

    name: str
    value: float
    limit: float
    #: Else the value must not be above it.
    at_least: bool = False

    @property
    def passes(self) -> bool:
        """Whether the limit was kept."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def described(self) -> str:
        """The limit in signs."""
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"
