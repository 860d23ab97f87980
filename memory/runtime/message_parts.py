"""Parts of a message: the text that its speaker typed, and the text and the mark of each other part."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from mnemic.state.kinds import Role

#: Types of plain text: LangChain's and Chat Completions' type, then that of the Responses API.
_TYPED: Final = frozenset({"text", "input_text"})
#: Further types of a part that is the text of a model or a tool.
_WRITTEN: Final = _TYPED | {"output_text", "untyped"}
#: What a plain text part may have besides its text. Any other field, such as a source or a title, means that the text
#: was taken from elsewhere.
_PLAIN_KEYS: Final = frozenset({"type", "text", "id", "index", "cache_control"})
#: Marks of attachments, by the type of the part. A part of another type has none.
_MARKS: Final[dict[str, str]] = {
    **dict.fromkeys(("image", "image_url", "input_image"), "[image]"),
    **dict.fromkeys(("audio", "audio_url", "input_audio", "output_audio"), "[audio]"),
    **dict.fromkeys(("video", "video_url"), "[video]"),
    **dict.fromkeys(("file", "input_file", "document", "text-plain"), "[file]"),
}
#: Parts of an assistant's message that are not addressed to the user; they are not stored.
_INNER: Final = frozenset(
    {
        *("reasoning", "reasoning_content", "thinking", "redacted_thinking"),
        *("tool_call", "tool_call_chunk", "invalid_tool_call", "tool_use", "function_call", "custom_tool_call"),
        *("server_tool_call", "server_tool_call_chunk", "server_tool_use", "input_json_delta"),
    }
)
#: Fields that hold text, at any depth of a part: those of LangChain's blocks and of the providers' message formats.
_TEXT_FIELDS: Final = frozenset(
    {
        *("text", "transcript", "content", "title", "context", "caption", "summary", "output"),
        *("reasoning", "thinking", "refusal", "page_content", "more"),
    }
)
#: An image, a file or a tool call has about ten.
_MAX_VALUES_OF_A_PART: Final = 10_000


def read_part(part: dict[str, Any]) -> dict[str, str]:
    """Return a part as its `type` and `text`; a text that is not plain has `more`. Reading it again changes nothing.

    Raises:
        ValueError: if the part has neither type nor text, its text is no string, or it contains itself.
    """
    kind, text = part.get("type"), part.get("text")
    if not isinstance(text, str | None):
        raise ValueError("the text of a part must be a string")
    if kind is None and text is None:
        raise ValueError("a part of a message must have a type or a text")
    name = _type_name(kind)
    if name not in _WRITTEN:
        return {"type": name, "text": "\n".join(_texts(part))}
    fields = {"type": name, "text": str.__str__(text or "")}  # without the methods of a subclass
    further = {key: value for key, value in part.items() if key not in _PLAIN_KEYS}
    more = "\n".join(_texts(further))
    if "more" in part or any(further.values()):
        fields["more"] = more
    return fields


def _type_name(kind: object) -> str:
    if kind is None:
        return "untyped"
    if isinstance(kind, str):
        return str.__str__(kind)  # without the methods of a subclass
    return "unknown"


#: A mapping first: pydantic takes errors of a mapping for its own.
Part = Annotated[dict[str, Any], AfterValidator(read_part)]


def spoken_text(audio: object) -> str | None:
    """Return the transcript of an answer that a model spoke, as LangChain and Chat Completions keep it, or as text."""
    transcript = audio
    if isinstance(audio, Mapping):
        transcript = audio.get("transcript")
    if not isinstance(transcript, str):
        return None
    return str.__str__(transcript)  # without the methods of a subclass


def is_written(part: Mapping[str, str], role: Role) -> bool:
    """Return whether a part is its speaker's own text. A user's is plain text alone, for only that was typed."""
    if role == "user":
        return part["type"] in _TYPED and "more" not in part
    return part["type"] in _WRITTEN


def is_stored(part: Mapping[str, str], role: Role) -> bool:
    """Return whether anything of a part is stored."""
    return role != "assistant" or part["type"] not in _INNER


def attached_text(part: Mapping[str, str]) -> str:
    """Return all text of a part that is not its speaker's own."""
    more = part.get("more")
    if part["text"] and more:
        return f"{part['text']}\n{more}"
    return part["text"] or more or ""


def mark_of(part: Mapping[str, str]) -> str | None:
    """Return the mark of an attachment."""
    return _MARKS.get(part["type"])


def is_speech(part: Mapping[str, str]) -> bool:
    """Return whether the text of a part is the transcript of speech."""
    return mark_of(part) == "[audio]"


def _fields(part: dict[str, Any]) -> list[tuple[bool, object]]:
    """Return the values of a part, each with whether its field holds text."""
    text_fields = _TEXT_FIELDS
    if "text" in (part.get("type"), part.get("source_type")):
        text_fields |= {"data"}
    return [(key in text_fields, value) for key, value in part.items()]


def _texts(part: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a part and of the parts within it, in order."""
    waiting: list[tuple[bool, object]] = [(False, part)]
    for _ in range(_MAX_VALUES_OF_A_PART):
        if not waiting:
            return
        is_text, value = waiting.pop()
        if isinstance(value, str) and is_text:
            yield str.__str__(value)  # without the methods of a subclass
        elif isinstance(value, dict):
            waiting += reversed(_fields(value))
        elif isinstance(value, list):
            waiting.extend((is_text, item) for item in reversed(value))
    raise ValueError(f"a part of a message has at most {_MAX_VALUES_OF_A_PART:,} values")
