"""YAML as far as a settings file needs it: mappings, lists and texts, each key once, and nothing that unfolds."""

from typing import Any

import yaml
from yaml.nodes import MappingNode, Node


class _Plain(yaml.BaseLoader):
    """Makes texts of all scalars, whatever their tags say: no tag's constructor runs, and none can fail."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        # a few lines of references to references stand for more than any memory holds
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        made = super().construct_mapping(node, deep)
        if len(made) < len(node.value):  # the second of two would win in silence
            raise yaml.YAMLError
        return made


def read_plain(text: str) -> Any:
    """The one document of a text: dicts, lists and strings.

    Raises:
        ValueError: it is no YAML, has a key twice or a reference (`*name`), or is nested too deeply.
    """
    try:
        return _Plain(text).get_single_data()
    # impossible numbers of characters and versions are Python's own errors
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        raise ValueError("it has to be YAML, without references (*) and without a key that stands twice") from None
