"""What calls of language models used."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens that one step used, over all its calls."""

    step: str
    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            step=self.step,
            model=self.model,
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )
