"""What is wrong with a DAG."""

from __future__ import annotations


class DAGsException(Exception):
    """Something is wrong with a DAG."""


class OneToOneEdgeNeedsSameNumberOfVars(DAGsException):
    """A one-to-one edge joins layers of different sizes."""


class IncompatibleGrouper(DAGsException):
    """The groups of a grouping edge do not divide its layers, or there are not as many on either side."""


class DuplicateNodeName(DAGsException):
    """The DAG has a node of that name."""


class UnrecognizedWalkOrder(DAGsException):
    """Neither depth first nor breadth first."""


class LayerNameContainsSeparator(DAGsException):
    """Names of nodes could not be told apart from that layer's."""


class NoRescueFileFound(DAGsException):
    """The directory has no rescue file of the DAG."""


class CannotInvertFormat(DAGsException):
    """A node's name does not lead back to its layer and index."""
