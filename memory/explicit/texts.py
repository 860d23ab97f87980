"""Checks of the texts of explicit writes. Pure."""

import re
from typing import Final

from mnemic.memory.text.questions import has_only_questions
from mnemic.memory.text.shape import require_text
from mnemic.memory.text.writing import check_text, is_data
from mnemic.prompts.explicit import refusals
from mnemic.prompts.explicit.tools import PROBLEMS
from mnemic.state.errors import InvalidInputError
from mnemic.state.explicit import ProcedureRequest
from mnemic.state.kinds import Kind

#: A core memory is as long as a reflection at most, since it is in every prompt.
_MAX_CORE_CHARS: Final = 500
#: `1.`, `2)`, `Step 3:` or a bullet; the numbers of the stored steps replace them.
_MARK = re.compile(r"^(?:step\s+)?\d{1,2}\s?[.):]\s+|^[-*•]\s+", re.IGNORECASE)
_STEP_NUMBER = re.compile(r"^\d+\. ", re.MULTILINE)


def checked_sentence(content: str, kind: Kind) -> str:
    """Return the text of a memory that is no procedure.

    Raises:
        InvalidInputError: if it breaks a rule of memory texts; the message names the rule.
    """
    line = single_line(content)
    problem = _problem(line, kind)
    if problem:
        raise InvalidInputError(refusals.unusable(PROBLEMS[problem]))
    return check_text(line, kind=kind).text or ""


def _problem(line: str, kind: Kind) -> str | None:
    if has_only_questions(line):
        return "asks"
    if is_data(line):
        return "data"
    verdict = check_text(line, kind=kind)
    if verdict.problem:
        return verdict.problem
    text = verdict.text or ""
    # formation trims a long text; a caller can write a shorter one
    is_trimmed = len(text.split()) < len(line.split())
    if is_trimmed or (kind == "core" and len(text) > _MAX_CORE_CHARS):
        return "too_long"
    return None


def checked_procedure(request: ProcedureRequest) -> str:
    """Return the title and, below it, the numbered steps.

    Raises:
        InvalidInputError: if the title or a step is empty, or the whole is too long or repeats itself.
    """
    lines = [single_line(request.title, "the title")]
    for number, step in enumerate(request.steps, start=1):
        text = single_line(_MARK.sub("", step.strip()), f"step {number}")
        lines.append(f"{number}. {text}")
    verdict = check_text(require_text("\n".join(lines), what="the procedure"), kind="procedure")
    if verdict.text is None:
        raise InvalidInputError(refusals.REPEATED_STEPS)
    return verdict.text


def without_step_numbers(text: str) -> str:
    """Return the text without the numbers that `checked_procedure` added."""
    return _STEP_NUMBER.sub("", text)


def single_line(text: str, name: str = "content") -> str:
    """Return the text without line breaks.

    Raises:
        InvalidInputError: if it is empty or too long; the message has this name for it.
    """
    return " ".join(require_text(text, what=name).split())
