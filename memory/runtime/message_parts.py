"""Parts of a message: which of them is text that its speaker typed, and the text and the mark of each other part."""

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
        ValueError: the part has neither type nor text, its text is no string, or it contains itself.
    """
    kind, text = part.get("type"), part.get("text")
    if not isinstance(text, str | None):
        raise ValueError("the text of a part is a string")
    if kind is None and text is None:
        raise ValueError("a part of a message has a type, or its words as text")
    name = str.__str__(kind) if isinstance(kind, str) else "unknown"
    if kind is None:
        name = "untyped"
    further = {key: value for key, value in part.items() if name not in _WRITTEN or key not in _PLAIN_KEYS}
    more = "\n".join(_texts(further))
    if name not in _WRITTEN:
        return {"type": name, "text": more}
    read = {"type": name, "text": str.__str__(text or "")}  # without the methods of a subclass
    return {**read, "more": more} if "more" in part or any(further.values()) else read


#: A mapping first: pydantic takes errors of a mapping for its own.
Part = Annotated[dict[str, Any], AfterValidator(read_part)]


def spoken_text(audio: object) -> str | None:
    """Return the transcript of an answer that a model spoke, as LangChain and Chat Completions keep it, or as text."""
    transcript = audio.get("transcript") if isinstance(audio, Mapping) else audio
    return str.__str__(transcript) if isinstance(transcript, str) else None


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
    return "\n".join(text for text in (part["text"], part.get("more")) if text)


def mark_of(part: Mapping[str, str]) -> str | None:
    """Return the mark of an attachment."""
    return _MARKS.get(part["type"])


def is_speech(part: Mapping[str, str]) -> bool:
    """Return whether the text of a part is the transcript of speech."""
    return mark_of(part) == "[audio]"


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
            plain_data = "text" in (value.get("type"), value.get("source_type"))
            fields = [(key in _TEXT_FIELDS or (key == "data" and plain_data), item) for key, item in value.items()]
            waiting.extend(reversed(fields))
        elif isinstance(value, list):
            waiting.extend((is_text, item) for item in reversed(value))
    raise ValueError(f"a part of a message has at most {_MAX_VALUES_OF_A_PART:,} values")
