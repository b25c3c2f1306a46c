"""Builds the values of a YAML document within limits: what a small file can hide is refused before it takes memory."""

from collections import Counter
from typing import Any

import yaml

_LONGEST_NUMBER = 400
"""Characters of a number: Python takes hexadecimal digits without end, and then cannot write the number."""
_MOST_REPEATED = 1_000_000
"""Characters and entries that the aliases of a document may repeat."""


class BoundedLoader(yaml.SafeLoader):
    """A SafeLoader that refuses what a small file can hide: a second value for a key, repetition, endless numbers."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _repeated(node) > _MOST_REPEATED:
            raise yaml.YAMLError(f"its aliases repeat more than {_MOST_REPEATED:,} characters; write the values out")
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        try:  # JSON spells a character beyond the first 65,536 as two halves
            node.value = node.value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"a text in line {line} holds a lone surrogate, half of a character") from None
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        if twice := [key for key, times in Counter(keys).items() if times > 1]:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"'{twice[0][:60]}' occurs twice in the mapping that starts in line {line}")
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > _LONGEST_NUMBER:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"the number in line {line} has more than {_LONGEST_NUMBER} characters")
        return super().construct_scalar(node)


def _repeated(root: yaml.Node) -> int:
    """Count the characters and entries that a document has beyond those written in it, because of its aliases.

    Raises:
        YAMLError: An alias stands inside what it names.
    """
    sizes: dict[int, int | None] = {}
    written = 0

    def size(node: yaml.Node) -> int:
        nonlocal written
        if id(node) in sizes:
            if (known := sizes[id(node)]) is None:
                raise yaml.YAMLError(f"the alias in line {node.start_mark.line + 1} stands inside what it names")
            return known
        sizes[id(node)] = None
        if isinstance(node, yaml.ScalarNode):
            own, inside = 1 + len(node.value), 0
        else:
            pairs = isinstance(node, yaml.MappingNode)
            own, inside = 1, sum(map(size, (part for pair in node.value for part in pair) if pairs else node.value))
        written += own
        sizes[id(node)] = own + inside
        return own + inside

    return size(root) - written
