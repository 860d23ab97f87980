"""YAML for settings files: mappings, lists and texts, each key once, and no references."""

from importlib.resources.abc import Traversable
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.nodes import MappingNode, Node

from mnemic.state.checking import field_name
from mnemic.state.errors import ConfigurationError

Form = TypeVar("Form", bound=BaseModel)
#: Three hundred categories with their allowlists; the largest packaged file has 8 KiB.
MAX_FILE_BYTES = 64 * 1024


class _Plain(yaml.BaseLoader):
    """Read all scalars as texts and ignore tags: no tag's constructor runs, and none can fail."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        # a few lines of references to references expand to more than any memory can hold
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):  # the second of two equal keys would replace the first one
            raise yaml.YAMLError
        return mapping


def read_plain(text: str) -> Any:
    """Return the one document of a text: dicts, lists and strings.

    Raises:
        ValueError: if it is no YAML, has a repeated key or a reference (`*name`), or is nested too deeply.
    """
    try:
        return _Plain(text).get_single_data()
    # impossible numbers of characters and versions are Python's own errors
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        raise ValueError("it must be YAML without references (*) and without a repeated key") from None


def read_settings(path: Traversable, form: type[Form], name: str) -> Form:
    """Read a settings file.

    Raises:
        ConfigurationError: if it cannot be read, or does not have this form; the message has `name`.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"it has more than {MAX_FILE_BYTES // 1024} KiB")
        return form.model_validate(read_plain(content.decode()))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        reason = first["msg"]
        if first["type"] == "extra_forbidden":
            reason = "there is no such key"
        place = ".".join(field_name(part) for part in first["loc"])
        problem = f"{place or 'the whole'}: {reason}"
    except OSError as error:
        raise ConfigurationError(f"the {name} cannot be read: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        problem = "it is no UTF-8"
    except ValueError as error:
        problem = str(error)
    raise ConfigurationError(f"the {name} does not fit: {problem}")
