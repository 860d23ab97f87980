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
