"""Builds the values of a YAML document within limits: what a small file can hide is refused before it takes memory."""

from collections import Counter
from typing import Any

import yaml

_LONGEST_NUMBER = 400
"""Characters of a number: Python takes hexadecimal digits without end, and then cannot write the number."""


class BoundedLoader(yaml.SafeLoader):
    """A SafeLoader that refuses what a small file can hide: a second value for a key, aliases, endless numbers."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise yaml.YAMLError(f"an alias in line {line}; write out what it names")
        node: yaml.Node | None = super().compose_node(parent, index)
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
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := [key for key, times in Counter(keys).items() if times > 1]:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"'{twice[0][:60]}' occurs twice in the mapping that starts in line {line}")
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > _LONGEST_NUMBER:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"the number in line {line} has more than {_LONGEST_NUMBER} characters")
        return super().construct_scalar(node)
