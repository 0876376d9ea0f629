"""Names of DAGMan's nodes, each made of a layer's name and the index of the node in it."""

from __future__ import annotations

import abc

from htcondor2.dags.exceptions import CannotInvertFormat, LayerNameContainsSeparator

DEFAULT_SEPARATOR = ":"


class NodeNameFormatter(abc.ABC):
    """A way to make names of nodes and to read them again."""

    @abc.abstractmethod
    def generate(self, layer_name: str, node_index: int) -> str:
        """The name of a node."""

    @abc.abstractmethod
    def parse(self, node_name: str) -> tuple[str, int]:
        """The layer's name and the index that a name was made of."""


class SimpleFormatter(NodeNameFormatter):
    """``LAYER:INDEX``, with another separator, format of the index or first index where given."""

    def __init__(self, separator: str = DEFAULT_SEPARATOR, index_format: str = "{:d}", offset: int = 0) -> None:
        self.separator, self.index_format, self.offset = separator, index_format, offset

    def generate(self, layer_name: str, node_index: int) -> str:
        """The name of a node.

        :raises LayerNameContainsSeparator: the layer's name does.
        :raises CannotInvertFormat: :meth:`parse` would not give the same again.
        """
        if self.separator in layer_name:
            raise LayerNameContainsSeparator(f"the layer name {layer_name} contains the separator {self.separator!r}")
        name = f"{layer_name}{self.separator}{self.index_format.format(node_index + self.offset)}"
        if self.parse(name) != (layer_name, node_index):
            raise self._unreadable(name)
        return name

    def parse(self, node_name: str) -> tuple[str, int]:
        """The layer's name and the index.

        :raises CannotInvertFormat: the name is not of this form.
        """
        layer, separator, index = node_name.partition(self.separator)
        try:
            return layer, int(index if separator else "") - self.offset
        except ValueError:
            raise self._unreadable(node_name) from None

    def _unreadable(self, name: str) -> CannotInvertFormat:
        return CannotInvertFormat(f"cannot tell layer and index of {name!r} (index_format {self.index_format!r})")
